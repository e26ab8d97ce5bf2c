"""The HTTP contract of a node: request, response and error types. Server and client both import it.

A success carries `"ok": true`. A failure is `{"ok": false, "error": {"code", "message", "retryable"}}` with the HTTP
status of its code. Requests with unknown fields are refused.
"""

import base64
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from swe_exec_server.sandbox import (
    DEFAULT_CWD,
    DEFAULT_EVALUATE_TIMEOUT,
    DEFAULT_EXEC_TIMEOUT,
    DEFAULT_MAX_OUTPUT,
    AppliedBy,
)

Encoding = Literal["utf-8", "base64"]


class ErrorCode(StrEnum):
    """Every way in which a request can fail; none of them is ever shown as a command's output."""

    BAD_REQUEST = "bad_request"
    UNAUTHORIZED = "unauthorized"
    CONTAINER_UNKNOWN = "container_unknown"
    IMAGE_UNKNOWN = "image_unknown"
    CONFLICT = "conflict"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CONTAINER_GONE = "container_gone"
    TOO_LARGE = "too_large"
    FULL = "full"
    INTERNAL = "internal"
    DRAINING = "draining"
    ENGINE_DOWN = "engine_down"
    DISK_FULL = "disk_full"
    UNREACHABLE = "unreachable"
    """Made by clients only: no answer at all, after all retries."""


HTTP_STATUS: dict[ErrorCode, int] = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.CONTAINER_UNKNOWN: 404,
    ErrorCode.IMAGE_UNKNOWN: 404,
    ErrorCode.CONFLICT: 409,
    ErrorCode.OUTCOME_UNKNOWN: 409,
    ErrorCode.CONTAINER_GONE: 410,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.FULL: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.DRAINING: 503,
    ErrorCode.ENGINE_DOWN: 503,
    ErrorCode.DISK_FULL: 507,
    ErrorCode.UNREACHABLE: 503,
}

RETRYABLE = frozenset({ErrorCode.FULL, ErrorCode.DRAINING, ErrorCode.ENGINE_DOWN})


class SandboxError(Exception):
    """The one error type of nodes, pools, backends and clients.

    Attributes:
        code: what went wrong; decides HTTP status and `retryable`.
        message: one line for a person.
        reason: `limits` when a container was killed by its own memory, process or disk limit, else empty.
    """

    def __init__(self, code: ErrorCode, message: str, reason: str = "") -> None:
        super().__init__(code, message, reason)
        self.code = code
        self.message = message
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE

    @property
    def status(self) -> int:
        return HTTP_STATUS[self.code]


class WireModel(BaseModel):
    """Frozen; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorInfo(WireModel):
    code: ErrorCode
    message: str
    retryable: bool
    reason: str = ""


class ErrorResponse(WireModel):
    ok: Literal[False] = False
    error: ErrorInfo


Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$")]
"""Image and container names: never anything that could be read as an option."""
ContainerId = Annotated[str, StringConstraints(min_length=1, max_length=255)]
AbsolutePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^/[^\x00]*$")]
ShellText = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Timeout = Annotated[float, Field(gt=0, le=86400)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class Ok(WireModel):
    ok: Literal[True] = True


class LimitsBody(WireModel):
    """Limits of one container; a field left out means the node's default, a larger one than the node's is refused."""

    memory: int | None = Field(None, ge=16 * 1024**2, description="bytes, swap included")
    pids: int | None = Field(None, ge=8)
    cpus: float | None = Field(None, gt=0)


class CreateRequest(WireModel):
    image: Name
    cwd: AbsolutePath = DEFAULT_CWD
    timeout: Timeout = 600.0
    queue_timeout: Timeout | None = Field(None, description="how much of `timeout` may pass in the queue; then `full`")
    env: dict[EnvName, EnvValue] = {}
    limits: LimitsBody = LimitsBody()
    network: bool = False
    ttl: Annotated[float, Field(ge=1, le=7 * 86400)] | None = None
    scrub_git: bool = False
    owner: Annotated[str, StringConstraints(max_length=200)] = ""
    idempotency_key: Key | None = None


class CreateResponse(Ok):
    container_id: str
    name: str


class ContainerRequest(WireModel):
    container_id: ContainerId


class ExecRequest(ContainerRequest):
    command: ShellText
    cwd: AbsolutePath | None = None
    timeout: Timeout = DEFAULT_EXEC_TIMEOUT
    env: dict[EnvName, EnvValue] = {}
    stdin: str = ""
    stdin_encoding: Encoding = "utf-8"
    max_output: Annotated[int, Field(ge=0, le=64 * 1024**2)] = DEFAULT_MAX_OUTPUT
    encoding: Encoding = "utf-8"
    idempotency_key: Key | None = None


class ExecResponse(Ok):
    returncode: int
    output: str
    encoding: Encoding
    output_bytes: int
    timed_out: bool
    truncated: bool
    duration: float


class DiffRequest(ContainerRequest):
    cwd: AbsolutePath | None = None
    base: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/^~@{}-]*$", max_length=255)] | None = None
    untracked: bool = True


class DiffResponse(Ok):
    patch: str
    encoding: Encoding
    sha256: str
    base: str
    warnings: list[str]
    returncode: int


class EvaluateRequest(ContainerRequest):
    patch: str
    encoding: Encoding = "utf-8"
    eval_script: ShellText
    cwd: AbsolutePath | None = None
    timeout: Timeout = DEFAULT_EVALUATE_TIMEOUT
    full_output: bool = False
    allow_empty_patch: bool = False
    idempotency_key: Key | None = None


class EvaluateResponse(Ok):
    applied: bool
    applied_by: AppliedBy
    resolved: bool
    returncode: int | None
    timed_out: bool
    output: str
    encoding: Encoding = "utf-8"
    output_bytes: int
    truncated: bool = False
    duration: float


class PullRequest(WireModel):
    image: Name


class ImageBody(WireModel):
    names: list[str]
    size: int


class ImagesResponse(Ok):
    count: int
    images: list[ImageBody]


class DrainRequest(WireModel):
    deadline: Annotated[float, Field(ge=0, le=86400)] = 60.0


class HealthResponse(WireModel):
    ok: bool
    role: Literal["node", "pool"]
    running_containers: int
    max_containers: int
    draining: bool
    version: str
    boot_id: str
    message: str = ""


class ContainerStatus(WireModel):
    """One container. `age` and `expires_in` are seconds; `last_command` is cut to its first 200 characters."""

    id: str
    name: str
    image: str
    owner: str
    age: float
    expires_in: float
    running_commands: int
    last_command: str
    idempotency_key: str = ""


class StatusResponse(Ok):
    active_containers: int
    max_containers: int
    queued: int
    draining: bool
    containers: list[ContainerStatus]
    creating: list[str] = []
    """Idempotency keys of creates under way."""


def encode_bytes(data: bytes, encoding: Encoding | None = None) -> tuple[str, Encoding]:
    """Bytes as JSON text: as asked, or losslessly (text where it is UTF-8, else base64) when `encoding` is None."""
    if encoding != "base64":
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            if encoding == "utf-8":
                return data.decode("utf-8", "replace"), "utf-8"
    return base64.b64encode(data).decode("ascii"), "base64"


def decode_bytes(text: str, encoding: Encoding) -> bytes:
    """The inverse of `encode_bytes`; raises `SandboxError` (bad_request) for text that is no base64."""
    if encoding == "utf-8":
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise SandboxError(ErrorCode.BAD_REQUEST, f"not valid base64: {error}") from error


def error_body(error: SandboxError) -> dict[str, Any]:
    """The JSON body of a failure."""
    info = ErrorInfo(code=error.code, message=error.message, retryable=error.retryable, reason=error.reason)
    return ErrorResponse(error=info).model_dump(mode="json")
