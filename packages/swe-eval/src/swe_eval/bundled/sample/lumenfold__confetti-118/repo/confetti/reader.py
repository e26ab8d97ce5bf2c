"""Text -> Config."""

from .config import Config
from .errors import ParseError

COMMENT_STARTS = ("#", ";")


def logical_lines(text):
    """Yield (line number, line) with continuation lines joined and comments and blank lines left out."""
    pending = None
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if pending is None:
            if not stripped or stripped.startswith(COMMENT_STARTS):
                continue
            start = number
            pending = stripped
        else:
            pending += " " + stripped
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip()
            continue
        yield start, pending
        pending = None
    if pending is not None:
        yield start, pending


def unquote(value):
    """Strip one pair of double quotes that keeps leading or trailing blanks."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def loads(text):
    """Parse `text` and return a Config."""
    config = Config()
    section = None
    for number, line in logical_lines(text):
        if line.startswith("["):
            if not line.endswith("]") or not line[1:-1].strip():
                raise ParseError("malformed section header %r" % line, number)
            section = line[1:-1].strip()
            config.add_section(section)
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ParseError("expected 'key = value', got %r" % line, number)
        if section is None:
            raise ParseError("key %r before the first section header" % key, number)
        config.set(section, key, unquote(value.strip()))
    return config


def load(path, encoding="utf-8"):
    """Parse the file at `path` and return a Config."""
    with open(path, encoding=encoding) as file:
        return loads(file.read())
