"""What a node needs of the thing that really runs containers. Sync: a node is one process with threads.

Two implement it: `docker_sandbox.py` (a Docker engine) and `local_sandbox.py` (bubblewrap or plain processes).
A backend knows nothing of leases, queues and capacity; `node.py` knows nothing of Docker.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swe_exec_server.sandbox import DEFAULT_EXEC_TIMEOUT, DEFAULT_MAX_OUTPUT, ExecResult, SandboxSpec


@dataclass(frozen=True)
class ExecSpec:
    """One command to run. `cwd` is absolute; a missing one is a result with returncode 126, not an error.

    Attributes:
        command: shell text of any size, passed as data; no NUL.
        stdin: what the command reads; empty means end of file at once.
        max_output: bytes kept of the output, half from its head and half from its tail.
        internal: run by the node itself with plain `sh` and none of the user's set-up (login shell, env of the lease).
    """

    command: str
    cwd: str
    timeout: float = DEFAULT_EXEC_TIMEOUT
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    max_output: int = DEFAULT_MAX_OUTPUT
    internal: bool = False


class Container(Protocol):
    """One running container. All methods are thread-safe and may run at the same time.

    All raise `SandboxError`: `container_gone` when it no longer runs, `engine_down` when the engine does not answer.
    """

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]:
        """What never changes of it, as given at creation."""
        ...

    def exec(self, spec: ExecSpec) -> ExecResult:
        """Run to the end or to the timeout; everything the command started is gone when it timed out."""
        ...

    def read_file(self, path: str, max_bytes: int) -> bytes:
        """Raises `bad_request` when there is no such regular file, `too_large` beyond `max_bytes`."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Create or replace `path` as the image's user, parent directories included."""
        ...

    def renew(self) -> None:
        """Tell the container that its server lives: it ends itself when nothing renewed it for its TTL."""
        ...

    def destroy(self) -> None:
        """Remove it with its anonymous volumes. Removing what is already gone is no error."""
        ...


@dataclass(frozen=True)
class ImageInfo:
    """One local image: its names (`repo:tag`) and size in bytes."""

    names: tuple[str, ...]
    size: int


class Backend(Protocol):
    """Makes containers and finds those that an earlier process of the same namespace left."""

    @property
    def kind(self) -> str:
        """`docker`, `bubblewrap` or `process`."""
        ...

    def check(self) -> None:
        """Raise `engine_down` with one line that says what to do when containers cannot be made now."""
        ...

    def create(self, spec: SandboxSpec, name: str, labels: Mapping[str, str]) -> Container:
        """Create and start; leaves nothing behind on failure. Raises `image_unknown`, `bad_request`, ..."""
        ...

    def list(self) -> Sequence[Container]:
        """Running and dead containers of this namespace."""
        ...

    def images(self) -> Sequence[ImageInfo]: ...

    def has_image(self, image: str) -> bool: ...

    def pull(self, image: str) -> Iterator[str]:
        """Pull an image, yielding progress lines."""
        ...

    def close(self) -> None:
        """Let go of connections, and of directories that are empty now. Containers stay."""
        ...
