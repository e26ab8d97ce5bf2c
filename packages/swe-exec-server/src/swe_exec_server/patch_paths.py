"""Path names as git writes them in patches. Pure.

A path is text decoded as UTF-8 with `surrogateescape`, so that any name survives (`os.fsencode` gives its bytes back).
"""

import re

_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_CHARACTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


def decode(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def unquote(quoted: bytes) -> bytes:
    """The inside of a C-quoted name (without its double quotes) as the bytes it stands for."""

    def replace(match: re.Match[bytes]) -> bytes:
        code: bytes = match[1]
        if code[:1].isdigit():
            return bytes([int(code, 8) & 0xFF])
        return _CHARACTERS.get(code, code)

    return _ESCAPE.sub(replace, quoted)


def line_name(text: bytes) -> str:
    """The name at the start of `text`: quoted, or up to a TAB (put behind names with spaces, and before a date)."""
    if match := _QUOTED.match(text):
        return decode(unquote(match[1]))
    return decode(text.partition(b"\t")[0])


def strip_component(name: str) -> str:
    """What `-p1` makes of a name; a name without a slash stays."""
    head, slash, rest = name.partition("/")
    return rest if slash and rest else head


def header_names(text: bytes) -> tuple[str, ...]:
    """The one name of `a/NAME b/NAME`, stripped; empty when the two differ (a rename says its names elsewhere)."""
    for old, new in _candidates(text):
        first, second = strip_component(old), strip_component(new)
        if first == second and "/" in old and "/" in new:
            return (first,)
    return ()


def _candidates(text: bytes) -> list[tuple[str, str]]:
    """All ways to read two names: spaces inside unquoted names leave more than one."""
    if match := _QUOTED.match(text):
        return [(decode(unquote(match[1])), line_name(text[match.end() :].lstrip(b" ")))]
    pairs = []
    position = text.find(b" ")
    while position >= 0:
        pairs.append((decode(text[:position]), line_name(text[position + 1 :])))
        position = text.find(b" ", position + 1)
    return pairs
