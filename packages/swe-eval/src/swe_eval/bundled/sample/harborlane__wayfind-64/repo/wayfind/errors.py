"""What routing can refuse."""


class RuleError(ValueError):
    """A rule that can not be read."""


class NotFound(LookupError):
    """No rule matches a path."""


class BuildError(LookupError):
    """No rule of an endpoint takes the values given."""
