"""One rule: a pattern with variable parts."""

import re

from .converters import CONVERTERS
from .errors import RuleError

PART = re.compile(r"<(?:(?P<converter>\w+):)?(?P<name>[A-Za-z_]\w*)>")


class Rule:
    """A pattern like "/users/<int:id>" and the endpoint it leads to."""

    def __init__(self, pattern, endpoint):
        if not pattern.startswith("/"):
            raise RuleError("a rule starts with a slash: %r" % pattern)
        self.pattern = pattern
        self.endpoint = endpoint
        self.converters = {}
        self._pieces = []  # fixed text and names, in turn
        regex = []
        position = 0
        for match in PART.finditer(pattern):
            self._fixed(pattern[position : match.start()], regex)
            name, kind = match.group("name"), match.group("converter") or "str"
            if kind not in CONVERTERS:
                raise RuleError("unknown converter %r in %r" % (kind, pattern))
            if name in self.converters:
                raise RuleError("%r is twice in %r" % (name, pattern))
            self.converters[name] = CONVERTERS[kind]()
            self._pieces.append((True, name))
            regex.append("(?P<%s>%s)" % (name, self.converters[name].regex))
            position = match.end()
        self._fixed(pattern[position:], regex)
        self._regex = re.compile("".join(regex))

    def _fixed(self, text, regex):
        if "<" in text or ">" in text:
            raise RuleError("malformed variable part in %r" % self.pattern)
        self._pieces.append((False, text))
        regex.append(re.escape(text))

    @property
    def weight(self):
        return len(self.converters)

    def match(self, path):
        """The values of a path, or None."""
        found = self._regex.fullmatch(path)
        if found is None:
            return None
        try:
            return {name: self.converters[name].to_python(text) for name, text in found.groupdict().items()}
        except ValueError:
            return None

    def build(self, values):
        """The path for `values`, which must have every name of the rule. Raises ValueError."""
        parts = []
        for variable, text in self._pieces:
            parts.append(self.converters[text].to_url(values[text]) if variable else text)
        return "".join(parts)
