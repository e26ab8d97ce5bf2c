"""One reading of a patch, line by line: its file sections, its faults, and what its end may have lost. Pure.

Offsets are kept, so that a section's bytes are a slice of the input. Only a newline ends a line: lone CR are content.
"""

import base64
import re
import zlib
from dataclasses import dataclass, field

from swe_exec_server.patch_paths import header_names, line_name, strip_component

DEFAULT_CONTEXT = 3
"""Context lines git puts behind a change, so the most that a transport can strip off the end of a hunk."""

_EXTENDED = re.compile(
    rb"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to"
    rb"|similarity index|dissimilarity index|index) (.*)",
    re.DOTALL,
)
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_BINARY_BLOCK = re.compile(rb"(?:literal|delta) (\d+)\r?$")
_EMPTY_BLOBS = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)
_DEV_NULL = "/dev/null"


@dataclass(frozen=True)
class FilePatch:
    """One file's section of a patch.

    Attributes:
        old_path, new_path: without their `a/` and `b/`; None where the file does not exist on that side.
        raw: the section's bytes, up to the next section.
        mode_changed: the patch gives an old and a new mode.
        binary: a binary change, with or without its content.
        symlink: either side is a symbolic link.
        paths: every path that the section names, on whatever line.
        problem: why it can not be applied as it stands; empty for a well-formed section.
    """

    old_path: str | None
    new_path: str | None
    raw: bytes
    created: bool = False
    deleted: bool = False
    renamed: bool = False
    copied: bool = False
    mode_changed: bool = False
    binary: bool = False
    symlink: bool = False
    paths: frozenset[str] = frozenset()
    problem: str = ""


@dataclass
class Scan:
    """Text before the sections, the sections, the first fault outside them, and what completes a cut-off end."""

    preamble: bytes
    sections: list[FilePatch]
    problem: str
    missing_end: bytes


def scan(patch: bytes) -> Scan:
    """Read `patch`; whatever it is, this does not raise."""
    return _Scanner(patch).scan()


@dataclass
class _Facts:
    """What the header lines of one section say."""

    fields: dict[str, str] = field(default_factory=dict)
    modes: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    old: str | None = None
    new: str | None = None
    binary: bool = False
    problem: str = ""

    def fail(self, line: int, text: str) -> None:
        self.problem = self.problem or f"line {line + 1}: {text}"


class _Scanner:
    """Reads line by line; only a newline ends a line, so that lone CR stay content."""

    def __init__(self, patch: bytes) -> None:
        self.patch = patch
        self.lines = patch.split(b"\n")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.at = 0
        self.missing_end = b""

    def line(self, number: int) -> bytes:
        return self.lines[number] if number < len(self.lines) else b""

    def scan(self) -> Scan:
        starts: list[int] = []
        found: list[_Facts] = []
        stray = ""
        while self.at < len(self.lines):
            if self._is_git_header(self.at):
                starts.append(self.at)
                found.append(self._git_section())
            elif self._is_plain_header(self.at):
                starts.append(self.at)
                found.append(self._plain_section())
            else:
                if self.line(self.at).startswith(b"@@ -") and _HUNK.match(self.line(self.at)):
                    stray = stray or f"line {self.at + 1}: a hunk without a file header before it"
                self.at += 1
        if not found and not stray:
            stray = "no file header found: a patch has 'diff --git' lines, or '---' and '+++' lines before its hunks"
        offsets = self._offsets(starts)
        sections = [
            _section(facts, self.patch[begin:end])
            for facts, begin, end in zip(found, offsets, [*offsets[1:], len(self.patch)], strict=False)
        ]
        preamble = self.patch[: offsets[0]] if offsets else self.patch
        return Scan(preamble, sections, stray, self.missing_end)

    def _offsets(self, starts: list[int]) -> list[int]:
        offsets, position, line = [], 0, 0
        for start in starts:
            position += sum(len(text) + 1 for text in self.lines[line:start])
            line = start
            offsets.append(position)
        return offsets

    def _is_plain_header(self, at: int) -> bool:
        return (
            self.line(at).startswith(b"--- ")
            and self.line(at + 1).startswith(b"+++ ")
            and self.line(at + 2).startswith(b"@@ -")
        )

    def _is_git_header(self, at: int) -> bool:
        """A sentence that begins with "diff --git" is none: no header line follows, and it names no file twice."""
        if not self.line(at).startswith(b"diff --git "):
            return False
        after = self.line(at + 1)
        return bool(_EXTENDED.match(after)) or after.startswith((b"--- ", b"GIT binary patch")) or self._names(at) != ()

    def _names(self, at: int) -> tuple[str, ...]:
        return header_names(self.line(at)[len(b"diff --git ") :])

    def _git_section(self) -> _Facts:
        facts, start = _Facts(), self.at
        names = self._names(start)
        facts.paths.update(names)
        facts.old = facts.new = names[0] if names else None
        self.at += 1
        while match := _EXTENDED.match(self.line(self.at)):
            self._extended(facts, match[1].decode(), match[2])
            self.at += 1
        line = self.line(self.at)
        if line.startswith(b"--- "):
            self._text_change(facts)
        elif line.rstrip(b"\r") == b"GIT binary patch":
            self._binary_change(facts)
        elif line.startswith(b"Binary files "):
            facts.binary = True
            self.at += 1
        elif not facts.fields.keys() - {"index", "similarity index", "dissimilarity index"}:
            facts.fail(start, "a file header without any change after it")
        elif not facts.paths:
            facts.fail(start, "a file header whose names can not be read")
        elif _announces_content(facts):
            facts.fail(start, "a file header without the change that its index line announces")
        return facts

    def _extended(self, facts: _Facts, key: str, value: bytes) -> None:
        if key.startswith(("rename", "copy")):
            name = line_name(value)
            facts.paths.add(name)
            if key.endswith("from"):
                facts.old = name
            else:
                facts.new = name
        elif key == "index":
            facts.modes.add(value.rpartition(b" ")[2].decode("ascii", "replace").strip())
        elif "mode" in key:
            facts.modes.add(value.decode("ascii", "replace").strip())
        facts.fields[key] = value.decode("utf-8", "replace")

    def _plain_section(self) -> _Facts:
        facts = _Facts()
        self._text_change(facts)
        return facts

    def _text_change(self, facts: _Facts) -> None:
        start = self.at
        if not self.line(start + 1).startswith(b"+++ "):
            facts.fail(start, "a '---' line without its '+++' line")
            self.at += 1
            return
        old, new = line_name(self.line(start)[4:]), line_name(self.line(start + 1)[4:])
        facts.old = None if old == _DEV_NULL else strip_component(old)
        facts.new = None if new == _DEV_NULL else strip_component(new)
        facts.paths.update(path for path in (facts.old, facts.new) if path is not None)
        self.at += 2
        if not self.line(self.at).startswith(b"@@ -"):
            facts.fail(start, "no hunk after the '+++' line")
        while not facts.problem and self.line(self.at).startswith(b"@@ -"):
            self._hunk(facts)

    def _hunk(self, facts: _Facts) -> None:
        start = self.at
        match = _HUNK.match(self.line(start))
        self.at += 1
        if match is None:
            facts.fail(start, "a hunk header that can not be read")
            return
        old, new = (1 if count is None else int(count) for count in match.groups())
        changed = False
        while old > 0 or new > 0:
            if self.at >= len(self.lines):
                if changed and old == new <= DEFAULT_CONTEXT:
                    self.missing_end = b" \n" * old
                facts.fail(start, f"the patch ends inside this hunk ({old} old and {new} new lines are missing)")
                return
            kind = self.line(self.at)[:1]
            if kind not in (b"", b" ", b"-", b"+", b"\\"):
                facts.fail(start, f"this hunk is {old} old and {new} new lines shorter than its header says")
                return
            old -= kind in (b"", b" ", b"-")
            new -= kind in (b"", b" ", b"+")
            changed = changed or kind in (b"-", b"+")
            self.at += 1
        if self.line(self.at).startswith(b"\\ "):
            self.at += 1
        if old < 0 or new < 0 or self._goes_on():
            facts.fail(start, "this hunk has more lines than its header says")

    def _goes_on(self) -> bool:
        line = self.line(self.at)
        signature = line.rstrip(b"\r") in (b"-- ", b"--")
        return line[:1] in (b" ", b"+", b"-") and not signature and not self._is_plain_header(self.at)

    def _binary_change(self, facts: _Facts) -> None:
        facts.binary = True
        start = self.at
        self.at += 1
        if not _BINARY_BLOCK.match(self.line(self.at)):
            facts.fail(start, "a binary section without its data")
        while not facts.problem and (match := _BINARY_BLOCK.match(self.line(self.at))):
            self._binary_block(facts, int(match[1]))

    def _binary_block(self, facts: _Facts, size: int) -> None:
        start = self.at
        self.at += 1
        data = []
        while self.at < len(self.lines) and self.line(self.at).rstrip(b"\r"):
            data.append(self.line(self.at).rstrip(b"\r"))
            self.at += 1
        complete = _inflates_to(data, size)
        if self.at >= len(self.lines):
            # The blank line that ends the block is part of the format, and the first thing that a strip() takes.
            self.missing_end = b"\n" if complete else b""
            facts.fail(start, "the patch ends inside this binary block")
        elif not complete:
            facts.fail(start, f"this binary block does not hold the {size} bytes that it announces")
        self.at += 1


def _announces_content(facts: _Facts) -> bool:
    """Whether the index line names two blobs between which there must be a change, an empty file having none."""
    old, _, new = facts.fields.get("index", "").partition(" ")[0].partition("..")
    if "new file mode" in facts.fields or "deleted file mode" in facts.fields:
        return bool(new) and not any(blob and empty.startswith(blob) for empty in _EMPTY_BLOBS for blob in (old, new))
    return old != new


def _inflates_to(lines: list[bytes], size: int) -> bool:
    """Whether git's base-85 lines (first character: length) hold a zlib stream of `size` bytes."""
    packed = bytearray()
    for line in lines:
        head = line[:1]
        count = head[0] - 64 if b"A" <= head <= b"Z" else head[0] - 96 + 26 if b"a" <= head <= b"z" else 0
        try:
            decoded = base64.b85decode(line[1:])
        except ValueError:
            return False
        if not 0 < count <= len(decoded) < count + 4:
            return False
        packed += decoded[:count]
    inflater = zlib.decompressobj()
    try:
        return len(inflater.decompress(bytes(packed), size + 1)) == size and (size > 0 or bool(packed))
    except zlib.error:
        return False


def _section(facts: _Facts, raw: bytes) -> FilePatch:
    created = "new file mode" in facts.fields or (facts.old is None and facts.new is not None)
    deleted = "deleted file mode" in facts.fields or (facts.new is None and facts.old is not None)
    return FilePatch(
        old_path=None if created else facts.old,
        new_path=None if deleted else facts.new,
        raw=raw,
        created=created,
        deleted=deleted,
        renamed="rename from" in facts.fields,
        copied="copy from" in facts.fields,
        mode_changed="old mode" in facts.fields,
        binary=facts.binary,
        symlink="120000" in facts.modes,
        paths=frozenset(facts.paths),
        problem=facts.problem,
    )
