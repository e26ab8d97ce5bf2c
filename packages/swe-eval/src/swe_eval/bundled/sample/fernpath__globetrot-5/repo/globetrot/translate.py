"""One name of a pattern -> regular expression."""

import re

from .errors import PatternError

NOT_SLASH = "[^/]"


def translate_name(name, pattern, offset):
    """The regular expression of a name without slashes. `pattern` and `offset` are for error messages."""
    result = []
    i = 0
    while i < len(name):
        character = name[i]
        if character == "*":
            result.append(NOT_SLASH + "*")
        elif character == "?":
            result.append(NOT_SLASH)
        elif character == "\\":
            i += 1
            if i == len(name):
                raise PatternError("nothing after the backslash", pattern, offset + i - 1)
            result.append(re.escape(name[i]))
        elif character == "[":
            end = name.find("]", i + 2)
            if end < 0:
                raise PatternError("unclosed set", pattern, offset + i)
            result.append(_translate_set(name[i + 1 : end]))
            i = end
        else:
            result.append(re.escape(character))
        i += 1
    return "".join(result)


def _translate_set(inside):
    negated = inside.startswith("!")
    if negated:
        inside = inside[1:]
    inside = inside.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    return "[%s%s]" % ("^/" if negated else "", inside)
