"""Many rules."""

from collections import namedtuple
from urllib.parse import urlencode

from .errors import BuildError, NotFound
from .rules import Rule

Match = namedtuple("Match", "endpoint values")


class Router:
    def __init__(self):
        self._rules = []

    def add(self, pattern, endpoint):
        """Add a rule; raises RuleError."""
        self._rules.append(Rule(pattern, endpoint))
        self._rules.sort(key=lambda rule: rule.weight)  # stable: then those added first

    def match(self, path):
        """The Match of a path. Raises NotFound."""
        for rule in self._rules:
            values = rule.match(path)
            if values is not None:
                return Match(rule.endpoint, values)
        raise NotFound(path)

    def build(self, endpoint, **values):
        """The path of an endpoint, with what its rule does not name as a query string. Raises BuildError."""
        reasons = []
        rules = [rule for rule in self._rules if rule.endpoint == endpoint]
        for rule in sorted(rules, key=lambda rule: -rule.weight):
            missing = [name for name in rule.converters if name not in values]
            if missing:
                reasons.append("%s needs %s" % (rule.pattern, ", ".join(missing)))
                continue
            try:
                path = rule.build(values)
            except ValueError as error:
                reasons.append("%s: %s" % (rule.pattern, error))
                continue
            query = {name: value for name, value in values.items() if name not in rule.converters}
            return path + ("?" + urlencode(query, doseq=True) if query else "")
        raise BuildError("no path for %r: %s" % (endpoint, "; ".join(reasons) or "no such endpoint"))
