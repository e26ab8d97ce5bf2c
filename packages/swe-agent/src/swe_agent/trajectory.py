"""The record of one run: what was said, run, seen and handed in. Written after every step, read back without loss.

A directory holds `traj.json` (everything but the patch), `patch.diff` (the patch, byte by byte) and `meta.json` (how
the run was set up). Each file is replaced atomically and `traj.json` last, with size and SHA-256 of the patch: whatever
moment the writer was killed at, the reader gets the state of one completed save. Until the loop ends the status reads
`cancelled`, which is what a killed run is.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError
from swe_exec_server.common.errors import one_line
from swe_exec_server.common.files import write_atomic, write_json

from swe_agent.actions import ErrorKind
from swe_agent.models import FinishReason, Message, ToolCall

SCHEMA = 1
TRAJECTORY_FILE = "traj.json"
PATCH_FILE = "patch.diff"
META_FILE = "meta.json"

PatchSource = Literal["diff", "submission", "snapshot", "none"]


class AgentStatus(StrEnum):
    """How a run ended; exactly one of these."""

    SUBMITTED = "submitted"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    CONTEXT_EXHAUSTED = "context_exhausted"
    FORMAT_ERRORS = "format_errors"
    SANDBOX_LIMIT = "sandbox_limit"
    SANDBOX_LOST = "sandbox_lost"
    MODEL_LOST = "model_lost"
    AGENT_ERROR = "agent_error"
    CANCELLED = "cancelled"

    @property
    def is_infrastructure(self) -> bool:
        """Whether the run says nothing about the model: it is to be repeated or left out."""
        return self in (self.SANDBOX_LOST, self.MODEL_LOST, self.AGENT_ERROR, self.CANCELLED)


@dataclass(frozen=True)
class Step:
    """One turn.

    Attributes:
        index: from 1.
        response: the model's text, as it came.
        reasoning: thoughts that the server returned apart.
        action: the command that was run, None when the response held not exactly one.
        error: why nothing was run.
        found: commands in a response that was refused.
        tool_calls: the response's calls, arguments as the model wrote them.
        returncode: of the command; None when nothing was run or it did not end because the sandbox was lost.
        output: what the command printed, decoded; cut in its middle when `truncated`.
        output_bytes: bytes that it printed, before any cut.
        timed_out: whether the command was stopped at its time limit.
        observation: the message that answers the response; empty after a submission.
        model_s: seconds until the response was there, retries included.
        exec_s: seconds that the command ran.
    """

    index: int
    response: str
    finish_reason: FinishReason = "stop"
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    action: str | None = None
    error: ErrorKind | None = None
    found: int | None = None
    returncode: int | None = None
    output: str = ""
    output_bytes: int = 0
    timed_out: bool = False
    truncated: bool = False
    observation: str = ""
    model_s: float = 0.0
    exec_s: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass
class Trajectory:
    """One run from its first message to its patch. Grows while the loop runs.

    Attributes:
        error: one line where the status alone does not say what happened.
        messages: the conversation as the model saw it, its own responses included.
        patch: bytes; empty when there is none.
        patch_source: `diff` of the repository, `submission` (text printed after the marker), `snapshot` (a diff taken
            because something went wrong, or the last one before it did), or `none`.
        base_commit: what the patch applies to, empty when no diff was taken.
        started_at: ISO 8601, UTC.
        elapsed: wall seconds.
        prompt_tokens, completion_tokens: sums over the steps, of what the server told.
    """

    instance_id: str
    status: AgentStatus = AgentStatus.CANCELLED
    error: str = ""
    steps: list[Step] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    patch: bytes = b""
    patch_source: PatchSource = "none"
    base_commit: str = ""
    started_at: str = ""
    elapsed: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        return sum(step.prompt_tokens or 0 for step in self.steps)

    @property
    def completion_tokens(self) -> int:
        return sum(step.completion_tokens or 0 for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The content of traj.json."""
        return {
            "schema": SCHEMA,
            "instance_id": self.instance_id,
            "status": self.status.value,
            "error": self.error,
            "started_at": self.started_at,
            "elapsed": self.elapsed,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "base_commit": self.base_commit,
            "patch": {
                "source": self.patch_source,
                "bytes": len(self.patch),
                "sha256": hashlib.sha256(self.patch).hexdigest(),
            },
            "steps": [vars(step) for step in self.steps],
            "messages": self.messages,
        }

    def save(self, directory: Path, meta: Mapping[str, Any] | None = None) -> None:
        """Write the record; meta.json only when `meta` is given."""
        if meta is not None:
            write_json(directory / META_FILE, {"schema": SCHEMA, **meta})
        write_atomic(directory / PATCH_FILE, self.patch)
        self.save_steps(directory)

    def save_steps(self, directory: Path) -> None:
        """Write traj.json alone, as long as there is no patch yet."""
        write_json(directory / TRAJECTORY_FILE, self.to_json())


class TrajectoryError(ValueError):
    """A record that cannot be read. Its text is one line that names the file."""


_STEPS = TypeAdapter(list[Step])
_MESSAGES = TypeAdapter(list[Message])

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
UPGRADES: Mapping[int, Upgrade] = {}
"""From each earlier schema number to the change that makes its content one number newer."""


def load_trajectory(path: Path) -> Trajectory:
    """Read a directory written by `save` (or its traj.json), of any schema so far. Raises `TrajectoryError`."""
    file = path / TRAJECTORY_FILE if path.is_dir() else path
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{file}: cannot be read ({one_line(error)})") from error
    try:
        if not isinstance(value, dict):
            raise TrajectoryError("no trajectory: it is not a JSON object")
        value = _upgrade(value)
        patch = _read_patch(file.with_name(PATCH_FILE), value["patch"])
        return Trajectory(
            instance_id=str(value["instance_id"]),
            status=AgentStatus(value["status"]),
            error=str(value["error"]),
            steps=_STEPS.validate_python(value["steps"]),
            messages=_MESSAGES.validate_python(value["messages"]),
            patch=patch,
            patch_source=_patch_source(value["patch"]["source"]),
            base_commit=str(value["base_commit"]),
            started_at=str(value["started_at"]),
            elapsed=float(value["elapsed"]),
        )
    except TrajectoryError as error:
        raise TrajectoryError(f"{file}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise TrajectoryError(f"{file}: {place}: {first['msg']}") from error
    except KeyError as error:
        raise TrajectoryError(f"{file}: the key {error} is missing") from error
    except (TypeError, ValueError) as error:
        raise TrajectoryError(f"{file}: no trajectory ({one_line(error)})") from error


def _upgrade(value: dict[str, Any]) -> dict[str, Any]:
    number = value.get("schema")
    if not isinstance(number, int) or number < 1:
        raise TrajectoryError("no trajectory: it has no schema number")
    if number > SCHEMA:
        raise TrajectoryError(f"written by a newer version (schema {number}, known up to {SCHEMA}); update swe-agent")
    for earlier in range(number, SCHEMA):
        value = UPGRADES[earlier](value)
    return value


def _read_patch(file: Path, described: Mapping[str, Any]) -> bytes:
    """The patch that traj.json describes; a file that is newer than a killed run's last save does not count."""
    if described["bytes"] == 0:
        return b""
    try:
        patch = file.read_bytes()
    except OSError as error:
        raise TrajectoryError(f"{file.name} is missing ({error.strerror})") from error
    if len(patch) != described["bytes"] or hashlib.sha256(patch).hexdigest() != described["sha256"]:
        raise TrajectoryError(f"{file.name} is not the patch that was handed in: its size or checksum differs")
    return patch


def _patch_source(value: Any) -> PatchSource:
    for source in get_args(PatchSource):
        if source == value:
            return source  # type: ignore[no-any-return]
    raise TrajectoryError(f"unknown patch source {value!r}")
