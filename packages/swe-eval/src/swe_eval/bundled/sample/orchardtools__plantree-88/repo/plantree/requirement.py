"""A name and what its version must be."""

import operator
import re

from .version import Version

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
PATTERN = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(.*)")
CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([\d.]+)\s*")


class Requirement:
    """Parsed from text like "sockets>=2,<3"."""

    def __init__(self, text):
        match = PATTERN.fullmatch(text)
        if not match:
            raise ValueError("not a requirement: %r" % text)
        self.text = text.strip()
        self.name = match.group(1)
        self.clauses = []
        for part in filter(None, match.group(2).split(",")):
            clause = CLAUSE.fullmatch(part)
            if not clause:
                raise ValueError("not a requirement: %r" % text)
            self.clauses.append((OPERATORS[clause.group(1)], Version(clause.group(2))))

    def fits(self, version):
        return all(compare(version, wanted) for compare, wanted in self.clauses)

    def __str__(self):
        return self.text
