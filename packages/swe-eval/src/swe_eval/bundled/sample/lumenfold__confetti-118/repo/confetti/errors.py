"""What can go wrong while a configuration is read or used."""


class ConfettiError(Exception):
    """Base class of all errors of this package."""


class ParseError(ConfettiError):
    """A line that is no header, no assignment and no comment."""

    def __init__(self, message, line_number):
        super().__init__("line %d: %s" % (line_number, message))
        self.line_number = line_number


class InterpolationError(ConfettiError):
    """A reference that leads nowhere or back to itself."""
