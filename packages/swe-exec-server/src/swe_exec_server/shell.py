"""How one command runs inside a container: the framing of request and reply. Pure, no I/O.

A *boot* (`shell_scripts.BOOT`) is a small `sh` with an attached, non-tty stream. Its stdin is the protocol (header
line, set-up, command, what the command reads), so a command is data of any size and never an argument. The command's
stdout and stderr share one pipe, the boot's own stdout, which keeps their order; the boot's stderr is the control
channel, which carries the exit code. When the command has ended the boot writes a nonce to the output pipe: everything
before it is the command's output, and a background process that holds the pipe open holds nobody up.

The boot serves requests until its stdin ends, so one boot can serve many commands, one after the other.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from swe_exec_server.capture import HeadTail
from swe_exec_server.shell_scripts import quote

MARKER_VARIABLE = "SWE_EXEC_ID"

DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
}
LOCALE_ENVIRONMENT: Mapping[str, str] = {key: DEFAULT_ENVIRONMENT[key] for key in ("LANG", "LC_ALL", "TZ")}
BOOT_ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C"}
"""The boot counts bytes, not characters."""

_NOT_CAPTURED = frozenset({"_", "SHLVL", "PWD", "OLDPWD", MARKER_VARIABLE})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def valid_name(name: str) -> bool:
    """Whether `name` can be a variable's."""
    return _NAME.match(name) is not None


def to_bytes(text: str) -> bytes:
    """UTF-8; undecodable bytes that an operating system gave (lone surrogates) become themselves again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def parse_environment(block: bytes) -> dict[str, str]:
    """A `/proc/PID/environ` block as a mapping, without what belongs to one process only."""
    variables: dict[str, str] = {}
    for entry in block.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals and name and not name.startswith("-") and name not in _NOT_CAPTURED:
            variables[name] = value
    return variables


@dataclass(frozen=True)
class Request:
    """One command for a boot.

    Attributes:
        environment: every variable to set on top of what the container has; values of any content but NUL.
        plain: `sh` even where the image has bash.
        nonce: ends the output; known to the boot and its caller only, so that no command can print it by accident.
    """

    command: str
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    plain: bool = False
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    def encode(self) -> list[bytes]:
        """What to write to a boot, in pieces: header, set-up, command, stdin."""
        words = " ".join(quote(f"{name}={value}") for name, value in self.environment.items())
        shell = "shell=/bin/sh name=sh; " if self.plain else ""
        setup = to_bytes(f"{shell}cwd={quote(self.cwd)}; set -- {words}")
        command = to_bytes(self.command)
        header = f"{self.nonce} {len(setup)} {len(command)} {len(self.stdin)}\n".encode()
        return [header + setup, command, self.stdin]


class FrameDecoder:
    """Splits an attached, non-tty stream: frames of 1 byte stream number, 3 zero bytes, 4 bytes big-endian size, data.

    Data is handed on as it comes; no frame is ever held whole.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, memoryview]]:
        """Yield (stream number, bytes) for the next bytes read."""
        view = memoryview(data)
        while view:
            if self._left == 0:
                need = 8 - len(self._header)
                self._header += view[:need]
                view = view[need:]
                if len(self._header) == 8:
                    self._stream = self._header[0]
                    self._left = int.from_bytes(self._header[4:], "big")
                    self._header.clear()
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            yield self._stream, piece


class EndFinder:
    """Passes on the bytes before a marker, however the marker is cut into pieces; drops what follows it."""

    def __init__(self, marker: bytes) -> None:
        self._marker = marker
        self._held = b""
        self.found = False

    def feed(self, data: bytes | memoryview) -> bytes | memoryview:
        """The part of the stream that is now known to lie before the marker."""
        if self.found:
            return b""
        joined = self._held + bytes(data)
        at = joined.find(self._marker)
        if at >= 0:
            self.found, self._held = True, b""
            return memoryview(joined)[:at]
        keep = min(len(joined), len(self._marker) - 1)
        self._held = joined[len(joined) - keep :]
        return memoryview(joined)[: len(joined) - keep]

    def rest(self) -> bytes:
        """What was held back when the stream ended without the marker."""
        held, self._held = self._held, b""
        return held


class Reply:
    """What a boot answers to one request.

    Attributes:
        output: the command's output so far.
        boot_pid: process id of the boot inside the container, None until it has read the request.
        returncode: None until the command has ended.
        failure: why the boot could not run the command at all.
        noise: other text on the control channel, the last 4 KiB (a shell that cannot fork says so here).
    """

    def __init__(self, nonce: str, max_output: int) -> None:
        self.output = HeadTail(max_output)
        self.boot_pid: int | None = None
        self.returncode: int | None = None
        self.failure = ""
        self.noise = ""
        self._frames = FrameDecoder()
        self._end = EndFinder(nonce.encode())
        self._nonce = nonce
        self._control = b""

    @property
    def done(self) -> bool:
        """The command has ended and all of its output is here."""
        return bool(self.failure) or (self.returncode is not None and self._end.found)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the attached stream."""
        for stream, piece in self._frames.feed(data):
            if stream == 2:
                self._take_control(bytes(piece))
            else:
                self.output.feed(self._end.feed(piece))

    def close(self) -> None:
        """The stream has ended: what looked like the beginning of a marker was output."""
        self.output.feed(self._end.rest())

    def _take_control(self, piece: bytes) -> None:
        *lines, self._control = (self._control + piece).split(b"\n")
        self._control = self._control[-4096:]
        for line in lines:
            words = line.decode("utf-8", "replace").split(" ", 2)
            if words[0] != self._nonce or len(words) != 3:
                self.noise = (self.noise + line.decode("utf-8", "replace") + "\n")[-4096:]
            elif words[1] == "boot":
                self.boot_pid = int(words[2])
            elif words[1] == "end":
                # The first one counts: the boot repeats itself when a helper shell of its own was killed.
                self.returncode = int(words[2]) if self.returncode is None else self.returncode
            elif words[1] == "fail":
                self.failure = words[2]
