"""What a boot answers, read from its attached stream however that is cut into pieces. Pure, no I/O; see `shell.py`.

Nothing is held whole: output goes on as it comes, and only its ends are kept.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from swe_exec_server.capture import HeadTail


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


class Listener(Protocol):
    """Takes what one stream says."""

    @property
    def done(self) -> bool:
        """It has heard all it waits for."""
        ...

    def feed(self, stream: int, data: memoryview) -> None: ...

    def close(self) -> None:
        """The stream has ended."""
        ...

    def claim(self) -> Sequence[bytes]:
        """What may be written now, given out once."""
        ...


class Control:
    """The lines of a control channel that carry a nonce, as (verb, rest).

    Attributes:
        noise: other text, the last 4 KiB (a shell that cannot fork says so here).
    """

    def __init__(self, nonce: str) -> None:
        self.noise = ""
        self._nonce = nonce
        self._partial = b""

    def feed(self, data: memoryview) -> Iterator[tuple[str, str]]:
        *lines, self._partial = (self._partial + bytes(data)).split(b"\n")
        self._partial = self._partial[-4096:]
        for line in filter(None, lines):
            text = line.decode("utf-8", "replace")
            nonce, _, rest = text.partition(" ")
            if nonce == self._nonce:
                verb, _, rest = rest.partition(" ")
                yield verb, rest
            else:
                self.noise = (self.noise + text + "\n")[-4096:]


class Hello:
    """What a fresh boot says.

    Attributes:
        pids: of the processes below which all lies that it starts; None until it is ready.
        said: any other text, the last 4 KiB: why no shell could be started.
    """

    def __init__(self, nonce: str = "") -> None:
        self.pids: tuple[int, ...] | None = None
        self.said = ""
        self._control = Control(nonce)

    @property
    def done(self) -> bool:
        return self.pids is not None

    def feed(self, stream: int, data: memoryview) -> None:
        if stream != 2:
            self.said = (self.said + bytes(data).decode("utf-8", "replace"))[-4096:]
            return
        for verb, rest in self._control.feed(data):
            if verb == "boot":
                mode, *pids = rest.split()
                self.pids = tuple(int(pid) for pid in (pids if mode == "reaped" else pids[:1]))

    def close(self) -> None:
        self.said += self._control.noise

    def claim(self) -> Sequence[bytes]:
        return ()


class Reply:
    """What a boot answers to one request.

    Attributes:
        output: the command's output so far.
        begun: the boot has read the request.
        returncode: None until the command has ended.
        state: when the command has ended: `clean` when it left nothing running, `left` when it did, `once` when this
            boot cannot tell.
        failure: why the boot could not run the command at all.
    """

    def __init__(self, nonce: str, max_output: int, late: Sequence[bytes] = ()) -> None:
        self.output = HeadTail(max_output)
        self.begun = False
        self.returncode: int | None = None
        self.state = ""
        self.failure = ""
        self._begin = nonce.encode() + b"<"
        self._before = b""
        self._end = EndFinder(nonce.encode() + b">")
        self._control = Control(nonce)
        self._late = late
        self._go = False

    @property
    def done(self) -> bool:
        """The command has ended and all of its output is here."""
        return bool(self.failure) or (self.returncode is not None and self._end.found)

    @property
    def noise(self) -> str:
        """Other text on the control channel, the last 4 KiB."""
        return self._control.noise

    def feed(self, stream: int, data: memoryview) -> None:
        """Take bytes of the control channel (2) or of the output pipe (1)."""
        if stream == 2:
            for verb, rest in self._control.feed(data):
                self._told(verb, rest)
        elif self.begun:
            self.output.feed(self._end.feed(data))
        else:
            # What comes before is the last gasp of a process of an earlier command.
            _, begin, after = (self._before + bytes(data)).partition(self._begin)
            self.begun = bool(begin)
            self._before = b"" if begin else (self._before + bytes(data))[-len(self._begin) :]
            self.output.feed(self._end.feed(after))

    def close(self) -> None:
        """The stream has ended: what looked like the beginning of a marker was output."""
        self.output.feed(self._end.rest())

    def claim(self) -> Sequence[bytes]:
        if not self._go:
            return ()
        late, self._late = self._late, ()
        return late

    def _told(self, verb: str, rest: str) -> None:
        if verb == "go":
            self._go = True
        elif verb == "end" and self.returncode is None:
            # The first one counts: the boot repeats itself when a helper shell of its own was killed.
            code, self.state = rest.split()
            self.returncode = int(code)
        elif verb == "fail":
            self.failure = rest
