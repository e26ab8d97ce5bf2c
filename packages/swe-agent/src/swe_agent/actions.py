"""A response becomes exactly one bash command, or an error to tell the model. Pure.

A response that was cut is `truncated`, whatever it holds. Otherwise fenced blocks are read as in CommonMark (three or
more backticks or tildes, closed by at least as many on a line of their own, indented or not), with two additions: a
fence inside a heredoc of a bash block does not close it, and a last block may be closed at the end of its last line.
Blocks in `bash`, `sh` or `shell` count unless they are empty; other blocks and `<think>` sections do not. One is the
action; none or several are a format error with their number, and nothing of them is run.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from swe_agent.models import FinishReason

ErrorKind = Literal["format", "truncated"]

_LANGUAGES = frozenset({"bash", "sh", "shell"})
_OPEN = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}(?=[^`]*$)|~{3,})[ \t]*(?P<language>[^\s`]*)")
# <<WORD, <<-WORD, <<'WORD', <<"WORD", <<\WORD; neither <<< nor a shift such as 1 << 3.
_HEREDOC = re.compile(
    r"(?<!<)<<(?P<dash>-?)[ \t]*(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\"|\\?(?P<bare>[A-Za-z_][\w.+-]*))"
)


@dataclass(frozen=True)
class Action:
    """One command for the sandbox; never blank."""

    command: str


@dataclass(frozen=True)
class FormatError:
    """Why nothing is run.

    Attributes:
        kind: `truncated` when the response was cut by a limit, else `format`.
        found: commands in the response (bash blocks, or tool calls); never 1 for `format`.
        fault: what is wrong with the one tool call of a response, empty where the number says it all.
    """

    kind: ErrorKind
    found: int
    fault: str = ""


def parse_action(text: str, finish_reason: FinishReason = "stop") -> Action | FormatError:
    """What the loop does with a response."""
    commands = bash_blocks(text)
    if finish_reason == "length":
        return FormatError("truncated", len(commands))
    if len(commands) == 1:
        return Action(commands[0])
    return FormatError("format", len(commands))


def bash_blocks(text: str) -> list[str]:
    """The commands of all closed, non-empty bash blocks, in order."""
    # No shell can be given a NUL; bash itself drops them from scripts.
    lines = text.replace("\0", "").replace("\r\n", "\n").split("\n")
    return [command for command in _blocks(_after_orphan_think(lines)) if command.strip()]


def _after_orphan_think(lines: Sequence[str]) -> Sequence[str]:
    """Templates may write `<think>` into the prompt: then the response starts inside and only closes it."""
    for number, line in enumerate(lines):
        if "<think>" in line:
            return lines
        if line.strip() == "</think>":
            return lines[number + 1 :]
    return lines


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    ends = _HeredocEnds(lines)
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith("<think>"):
            number, line = _skip_think(lines, number)
        opened = _OPEN.match(line)
        if opened is None:
            number += 1
            continue
        is_bash = opened["language"].lower() in _LANGUAGES
        content, number = _read_block(lines, number + 1, opened["indent"], opened["fence"], ends if is_bash else None)
        if is_bash and content is not None:
            yield content


def _skip_think(lines: Sequence[str], number: int) -> tuple[int, str]:
    """The line where a think section ends and what stands behind its end; one that is never closed takes all."""
    for position in range(number, len(lines)):
        _, closed, rest = lines[position].partition("</think>")
        if closed:
            return position, rest
    return len(lines), ""


def _read_block(
    lines: Sequence[str], start: int, indent: str, fence: str, ends: "_HeredocEnds | None"
) -> tuple[str | None, int]:
    """The content of the block that starts at line `start`, None if it is never closed, and the line after it."""
    content: list[str] = []
    number = start
    while number < len(lines):
        line = _dedent(lines[number], indent)
        if _closes(line, fence):
            return "\n".join(content).strip("\n"), number + 1
        content.append(line)
        number += 1
        if ends is None:
            continue
        for dash, word in _heredocs(line):
            end = ends.find(word, number, indent, dash)
            if end is not None:
                content += [_dedent(body, indent) for body in lines[number : end + 1]]
                number = end + 1
    return _closed_on_last_line(content, fence), len(lines)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _dedent(line: str, indent: str) -> str:
    """A line without the part of the fence's indentation that it shares."""
    shared = 0
    while shared < min(len(indent), len(line)) and line[shared] == indent[shared]:
        shared += 1
    return line[shared:]


def _heredocs(line: str) -> list[tuple[bool, str]]:
    """Heredocs that a line of shell opens, in order: whether tabs before the end word are ignored, and the word.

    Quoting is not followed (`"$(cat <<'EOF'` is common); what looks like a heredoc and has no end is none.
    """
    found = _HEREDOC.finditer(line)
    return [(bool(match["dash"]), match["single"] or match["double"] or match["bare"]) for match in found]


class _HeredocEnds:
    """Finds the lines that end heredocs; indexed, so that a long response of heredocs without end stays cheap."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._indexes: dict[tuple[str, bool], dict[str, list[int]]] = {}

    def find(self, word: str, start: int, indent: str, dash: bool) -> int | None:
        """The first line from `start` on that is `word` and nothing else; with `dash` tabs may stand before it."""
        index = self._indexes.get((indent, dash))
        if index is None:
            index = self._indexes[indent, dash] = self._index(indent, dash)
        numbers = index.get(word, [])
        position = bisect_left(numbers, start)
        return numbers[position] if position < len(numbers) else None

    def _index(self, indent: str, dash: bool) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            plain = _dedent(line, indent)
            index.setdefault(plain.lstrip("\t") if dash else plain, []).append(number)
        return index


def _closed_on_last_line(content: Sequence[str], fence: str) -> str | None:
    """The content of a block whose closing fence stands at the end of the response's last line."""
    text = "\n".join(content).rstrip()
    stripped = text.rstrip(fence[0])
    return stripped.strip("\n") if len(text) - len(stripped) >= len(fence) else None
