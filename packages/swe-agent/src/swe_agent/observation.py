"""A command's result becomes the text that the model reads. Pure.

Output is shown as a terminal without colours would: escape sequences and control characters are removed, what is no
text is named, and of long output the head and the tail are shown with the number of characters between them.
"""

import re
from dataclasses import dataclass

from swe_exec_server.sandbox import ExecResult

from swe_agent.prompts import Prompts

DEFAULT_MAX_CHARS = 10000
BINARY_SHARE = 0.1
"""Output with a larger share of what is no text is called binary: Latin-1 prose stays far below, images far above."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links and other strings; none outlives its line
    r"|\x1b[ -/]*[0-~]"  # two- and three-byte escapes
)
_OVERSTRIKE = re.compile(r"[^\n\x08]\x08")
_LINE_BREAKS = re.compile(r"\r\n?|\0")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_TEXT = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f\ufffd]")


@dataclass(frozen=True)
class Elided:
    """Text cut in the middle. `omitted` counts the characters between `head` and `tail`; 0 means `head` is all."""

    head: str
    omitted: int = 0
    tail: str = ""


def clean_text(text: str) -> str:
    """`text` without escape sequences and control characters; line breaks of all kinds (and NUL) become newlines."""
    plain = _ESCAPES.sub("", text)
    plain = _OVERSTRIKE.sub("", plain)
    return _CONTROLS.sub("", _LINE_BREAKS.sub("\n", plain))


def is_binary(text: str) -> bool:
    """Whether decoded output is no text. Empty output is text."""
    return len(_NO_TEXT.findall(text)) > BINARY_SHARE * len(text)


def elide(text: str, limit: int) -> Elided:
    """At most `limit` characters of `text`: half from its head, half from its tail."""
    if len(text) <= limit:
        return Elided(text)
    head = limit - limit // 2
    return Elided(text[:head], len(text) - limit, text[len(text) - limit // 2 :])


def render_observation(
    result: ExecResult, prompts: Prompts, *, timeout: float, max_chars: int = DEFAULT_MAX_CHARS
) -> str:
    """The message about a result. `timeout` is in seconds and shown only if it was hit.

    Characters that the node left out already are counted as the bytes that they were.
    """
    binary = is_binary(result.text)
    elided = Elided("") if binary else elide(clean_text(result.text), max_chars)
    dropped = max(0, result.output_bytes - len(result.output)) if result.truncated else 0
    if dropped and not elided.omitted and not binary:
        # The node cut in the middle of what it kept; nothing more had to go.
        half = len(elided.head) // 2
        elided = Elided(elided.head[:half], 0, elided.head[half:])
    return prompts.observation(
        returncode=result.returncode,
        output=elided.head + elided.tail,
        head=elided.head,
        tail=elided.tail,
        omitted=elided.omitted + (0 if binary else dropped),
        binary=binary,
        output_bytes=result.output_bytes,
        timed_out=result.timed_out,
        timeout=timeout,
    )
