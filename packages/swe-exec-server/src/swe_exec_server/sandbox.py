"""What a sandbox is to everyone left of this package: a leased place where commands run.

`Sandbox` is the whole vocabulary. A timed-out or failing command is a *result*; a lost container, a full node or a
dead engine is a `SandboxError` (see `wire.py`). Nothing here does I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

DEFAULT_CWD = "/testbed"
DEFAULT_EXEC_TIMEOUT = 180.0
DEFAULT_EVALUATE_TIMEOUT = 3600.0
DEFAULT_MAX_OUTPUT = 1024 * 1024
TIMED_OUT_RETURNCODE = -1

AppliedBy = Literal["git", "3way", "fuzz", "none"]


@dataclass(frozen=True)
class Limits:
    """What one container may use.

    Attributes:
        memory: bytes of memory, swap included.
        pids: processes and threads at any one time.
        cpus: CPU cores; capped at what the machine has.
    """

    memory: int = 8 * 1024**3
    pids: int = 1024
    cpus: float = 2.0


@dataclass(frozen=True)
class ExecResult:
    """One finished (or timed-out) command.

    Attributes:
        returncode: as a shell reports it (128 + signal when killed); -1 when `timed_out`.
        output: stdout and stderr in the order written; the first and last part when `truncated`.
        output_bytes: bytes the command wrote, before truncation.
        duration: wall seconds from start to end, queueing excluded.
    """

    returncode: int
    output: bytes
    output_bytes: int
    timed_out: bool
    truncated: bool
    duration: float

    @property
    def text(self) -> str:
        """`output` as text; bytes that are no UTF-8 become U+FFFD."""
        return self.output.decode("utf-8", "replace")


@dataclass(frozen=True)
class DiffResult:
    """A git patch of everything that changed since `base`, byte-exact.

    Attributes:
        patch: may be empty (nothing changed).
        base: commit id that the patch applies to.
        warnings: what the patch leaves out, a line each (nested repositories, for example).
    """

    patch: bytes
    base: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvaluateResult:
    """A patch applied and a script run, in that order.

    Attributes:
        applied: whether the patch went in (true for an allowed empty patch); if not, the script did not run.
        applied_by: which step of the apply chain won.
        returncode: the script's exit code; -1 when `timed_out`, None when it did not run.
        output: the script's output; why each step of the apply chain refused when not `applied`.
    """

    applied: bool
    applied_by: AppliedBy
    returncode: int | None
    timed_out: bool
    output: bytes
    output_bytes: int
    truncated: bool
    duration: float


@dataclass(frozen=True)
class SandboxSpec:
    """What to lease.

    Attributes:
        image: a local image name; never pulled on create.
        cwd: working directory, made if missing.
        env: variables of every command.
        network: True only where the operator of the node allows it.
        ttl: seconds that the lease outlives its last use or heartbeat.
        timeout: seconds for queueing and start together.
        owner: free text shown in the node's status.
        scrub_git: make commits that are no ancestors of HEAD unreachable before the first command.
        trusted: commands come from the caller itself, not from a model; only in-process callers can say so.
    """

    image: str
    cwd: str = DEFAULT_CWD
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    network: bool = False
    ttl: float = 600.0
    timeout: float = 600.0
    owner: str = ""
    scrub_git: bool = False
    trusted: bool = False


class Sandbox(Protocol):
    """A leased container. Every method may raise `SandboxError`; `close` never does."""

    @property
    def id(self) -> str: ...

    @property
    def image(self) -> str: ...

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EXEC_TIMEOUT,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run `command` in a shell of its own (bash where the image has it); directory and variables end with it."""
        ...

    async def diff(self, *, cwd: str | None = None, base: str | None = None, untracked: bool = True) -> DiffResult:
        """Everything changed since `base` (default: HEAD as the image had it). Leaves the index as it was."""
        ...

    async def evaluate(
        self,
        patch: bytes,
        eval_script: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EVALUATE_TIMEOUT,
        allow_empty_patch: bool = False,
        max_output: int | None = None,
    ) -> EvaluateResult:
        """Apply `patch`, then run `eval_script`. `max_output=None` returns the whole log (bounded by the node)."""
        ...

    async def read_file(self, path: str) -> bytes: ...

    async def write_file(self, path: str, data: bytes) -> None: ...

    async def close(self) -> None:
        """Give the container back; a second call does nothing, a lost container is no error."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


class SandboxProvider(Protocol):
    """Where sandboxes come from: one node, a pool of nodes, or a node inside this process."""

    async def create(self, spec: SandboxSpec) -> Sandbox: ...

    async def has_image(self, image: str) -> bool: ...

    async def close(self) -> None: ...
