"""The engine's side of things: one low-level client, its errors as `SandboxError`, one attached stream.

Nothing of the Docker SDK leaves this module and `docker_sandbox.py`: no exception, no socket.
"""

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import docker
import docker.errors
import docker.utils
import requests

from swe_exec_server.common.errors import one_line
from swe_exec_server.shell import new_nonce
from swe_exec_server.shell_reply import FrameDecoder, Hello, Listener
from swe_exec_server.wire import ErrorCode, SandboxError

_API_TIMEOUT = 120
_CHUNK = 64 * 1024
_DOWN_HINT = "start it, or point DOCKER_HOST at one"


def translate(error: Exception) -> SandboxError:
    """An exception of the SDK, of requests or of a socket as one typed error."""
    if isinstance(error, SandboxError):
        return error
    if isinstance(error, docker.errors.APIError):
        text = one_line(error.explanation or error)
        lower = text.lower()
        if "no space left" in lower or "disk quota exceeded" in lower:
            return SandboxError(ErrorCode.DISK_FULL, f"the engine's disk is full, free some space: {text}")
        if isinstance(error, docker.errors.ImageNotFound):
            return SandboxError(ErrorCode.IMAGE_UNKNOWN, f"{text}; pull it or build it")
        status = error.response.status_code if error.response is not None else 500
        codes = {400: ErrorCode.BAD_REQUEST, 404: ErrorCode.CONTAINER_UNKNOWN, 409: ErrorCode.CONFLICT}
        return SandboxError(codes.get(status, ErrorCode.INTERNAL), f"the Docker engine refused: {text}")
    if isinstance(error, requests.exceptions.Timeout):
        return SandboxError(ErrorCode.ENGINE_DOWN, f"the Docker engine did not answer within {_API_TIMEOUT} s")
    return SandboxError(ErrorCode.ENGINE_DOWN, f"no Docker engine answers ({_root_cause(error)}); {_DOWN_HINT}")


def _root_cause(error: BaseException) -> str:
    """The innermost reason, which is what a person can act on: the SDK and requests wrap it several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return one_line(error) or type(error).__name__


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Every failure of the engine inside leaves as `SandboxError`."""
    try:
        yield
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise translate(error) from error


class Engine:
    """One client for many threads, made on first use, so that an engine that is down is an error only when used."""

    def __init__(self, max_pool_size: int) -> None:
        self._max_pool_size = max_pool_size
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None
        self._cpus = 0

    @property
    def api(self) -> docker.APIClient:
        """The client; raises `engine_down` when there is no engine to agree on an API version with."""
        with self._lock:
            if self._api is None:
                with translated():
                    self._api = docker.APIClient(
                        **docker.utils.kwargs_from_env(), timeout=_API_TIMEOUT, max_pool_size=self._max_pool_size
                    )
            return self._api

    def close(self) -> None:
        """Let go of all idle connections; a later use makes new ones."""
        with self._lock:
            if self._api is not None:
                self._api.close()
                self._api = None

    @property
    def cpus(self) -> int:
        """Cores of the engine's machine."""
        if not self._cpus:
            with translated():
                self._cpus = int(self.api.info()["NCPU"])
        return self._cpus

    def exec_create(self, container: str, command: Sequence[str], *, stdin: bool, env: Mapping[str, str]) -> str:
        """Prepare a command in a running container, in `/` (its own directory may be gone); the exec's id."""
        with translated():
            created = self.api.exec_create(container, list(command), stdin=stdin, environment=dict(env), workdir="/")
        return str(created["Id"])

    def exec_quiet(self, container: str, command: Sequence[str], timeout: float = 30.0) -> int:
        """Run a short command that prints nothing to its end; its exit code."""
        exec_id = self.exec_create(container, command, stdin=False, env={})
        with self.attach(exec_id) as stream:
            stream.receive(Hello(new_nonce()), time.monotonic() + timeout)
            if not stream.ended:
                raise SandboxError(
                    ErrorCode.ENGINE_DOWN, f"the Docker engine did not finish a command within {timeout:g} s"
                )
        return self.exit_code(exec_id)

    def exit_code(self, exec_id: str) -> int:
        """Of an exec whose stream has ended. The engine notes the code a moment after it closes the stream."""
        for _ in range(100):
            with translated():
                state = self.api.exec_inspect(exec_id)
            if not state["Running"] and state["ExitCode"] is not None:
                return int(state["ExitCode"])
            time.sleep(0.05)
        raise SandboxError(
            ErrorCode.INTERNAL, "the Docker engine closed a command's stream but says that it still runs"
        )

    def attach(self, exec_id: str) -> "AttachedStream":
        """Start a prepared exec and take over its connection."""
        with translated():
            return AttachedStream(self.api.exec_start(exec_id, socket=True))


class AttachedStream:
    """The two directions of one exec, driven together so that neither can block the other."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._socket: socket.socket = getattr(handle, "_sock", handle)
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wanted = selectors.EVENT_READ
        self._selector.register(self._socket, self._wanted)
        self._outgoing: deque[memoryview] = deque()
        self._early = _buffered(handle)
        self._frames = FrameDecoder()
        self.ended = False

    def send(self, pieces: Sequence[bytes]) -> None:
        """Queue bytes; `receive` writes them as the other side takes them."""
        self._outgoing.extend(memoryview(piece) for piece in pieces if piece)

    def receive(self, listener: Listener, until: float) -> None:
        """Write and read until the listener is done, the stream ends, or `time.monotonic()` is `until`."""
        if self._early:
            early, self._early = self._early, b""
            self._hand_on(listener, early)
        while not (listener.done or self.ended):
            if self._outgoing:
                self._write()
            left = until - time.monotonic()
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
            if wanted != self._wanted:
                self._selector.modify(self._socket, wanted)
                self._wanted = wanted
            pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
            if self._selector.select(0 if pending else max(0.0, left)):
                self._read(listener)
            if left <= 0:
                return

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._outgoing[0][:_CHUNK])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            # The boot is gone; reading tells why.
            self._outgoing.clear()
            return
        rest = self._outgoing[0][sent:]
        if rest:
            self._outgoing[0] = rest
        else:
            self._outgoing.popleft()

    def _read(self, listener: Listener) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            data = b""
        if data:
            self._hand_on(listener, data)
        else:
            self.ended = True
            listener.close()

    def _hand_on(self, listener: Listener, data: bytes) -> None:
        for number, piece in self._frames.feed(data):
            listener.feed(number, piece)
        self.send(listener.claim())

    def close(self) -> None:
        """Let go of the connection; the engine then closes the process's stdin."""
        self._selector.close()
        response = getattr(self._handle, "_response", None)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # The response first: it flushes the reader that it shares with the handle, which must still be open then.
        for thing in (response, self._handle, self._socket):
            if thing is not None:
                with contextlib.suppress(OSError):
                    thing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _buffered(handle: Any) -> bytes:
    """Bytes of the stream that the HTTP reader took with the answer's headers, which the SDK's bare socket lacks."""
    reader = getattr(getattr(getattr(getattr(handle, "_response", None), "raw", None), "_fp", None), "fp", None)
    return b"" if reader is None else bytes(reader.peek())
