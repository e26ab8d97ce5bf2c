"""Text -> tokens."""

import re
from collections import namedtuple

from .errors import UnitError

Token = namedtuple("Token", "kind text position")

PATTERN = re.compile(
    r"""
    (?P<name>[A-Za-z]+)
  | (?P<number>[+-]?\d+)
  | (?P<power>\^|\*\*)
  | (?P<operator>[*/()])
  | (?P<blank>\s+)
    """,
    re.VERBOSE,
)


def tokens(text):
    """The tokens of a text without blanks, then one of kind "end". Raises UnitError."""
    result = []
    position = 0
    while position < len(text):
        match = PATTERN.match(text, position)
        if match is None:
            raise UnitError("unexpected %r at %d in %r" % (text[position], position, text))
        if match.lastgroup != "blank":
            kind = match.group() if match.lastgroup == "operator" else match.lastgroup
            result.append(Token(kind, match.group(), position))
        position = match.end()
    result.append(Token("end", "", len(text)))
    return result
