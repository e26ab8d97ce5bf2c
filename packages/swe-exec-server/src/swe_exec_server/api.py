"""The operations of a node, once: Flask routes, the OpenAPI description and both client transports read this table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from swe_exec_server.node import Node
from swe_exec_server.wire import (
    ContainerRequest,
    CreateRequest,
    CreateResponse,
    DiffRequest,
    DiffResponse,
    DrainRequest,
    EvaluateRequest,
    EvaluateResponse,
    ExecRequest,
    ExecResponse,
    HealthResponse,
    ImagesResponse,
    Ok,
    StatusResponse,
)

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Operation(Generic[Answer]):
    """One JSON endpoint.

    Attributes:
        handler: `(node, request, delivered_to) -> answer`; the last is the boot_id an earlier try may have reached.
        quick: never waits for containers, so it may use the threads kept free for such requests.
    """

    name: str
    method: str
    path: str
    request: type[BaseModel] | None
    response: type[Answer]
    handler: Callable[[Node, Any, str | None], Answer]
    summary: str
    quick: bool = False


HEALTH = Operation(
    "health", "GET", "/healthz", None, HealthResponse, lambda node, _, __: node.health(),
    "Whether containers can be made now", quick=True,
)  # fmt: skip
STATUS = Operation(
    "status", "GET", "/status", None, StatusResponse, lambda node, _, __: node.status(),
    "Every container with its lease and last command", quick=True,
)  # fmt: skip
IMAGES = Operation(
    "images", "GET", "/images", None, ImagesResponse, lambda node, _, __: node.images(), "Local images with their sizes"
)
CREATE = Operation(
    "create", "POST", "/container/create", CreateRequest, CreateResponse,
    lambda node, request, boot: node.create(request, delivered_to=boot),
    "Lease a container, waiting in the queue for at most `timeout` seconds",
)  # fmt: skip
EXEC = Operation(
    "exec", "POST", "/container/exec", ExecRequest, ExecResponse,
    lambda node, request, boot: node.exec(request, delivered_to=boot),
    "Run a command in a shell of its own",
)  # fmt: skip
DIFF = Operation(
    "diff", "POST", "/container/diff", DiffRequest, DiffResponse, lambda node, request, _: node.diff(request),
    "Everything that changed since the base, as a git patch",
)  # fmt: skip
EVALUATE = Operation(
    "evaluate", "POST", "/container/evaluate", EvaluateRequest, EvaluateResponse,
    lambda node, request, boot: node.evaluate(request, delivered_to=boot),
    "Apply a patch and run a script",
)  # fmt: skip
HEARTBEAT = Operation(
    "heartbeat", "POST", "/container/heartbeat", ContainerRequest, Ok, lambda node, request, _: node.heartbeat(request),
    "Renew a lease", quick=True,
)  # fmt: skip
DESTROY = Operation(
    "destroy", "POST", "/container/destroy", ContainerRequest, Ok, lambda node, request, _: node.destroy(request),
    "Give a container back", quick=True,
)  # fmt: skip
DRAIN = Operation(
    "drain", "POST", "/drain", DrainRequest, Ok, lambda node, request, _: node.drain(request),
    "Take no new containers, and after `deadline` seconds no new commands", quick=True,
)  # fmt: skip

OPERATIONS: tuple[Operation[Any], ...] = (
    HEALTH, STATUS, IMAGES, CREATE, EXEC, DIFF, EVALUATE, HEARTBEAT, DESTROY, DRAIN,
)  # fmt: skip

BOOT_HEADER = "Swe-Boot-Id"
"""On every answer: which start of the server gave it."""
DELIVERED_HEADER = "Swe-Delivered-To"
"""On a retry: the boot id that an earlier try may have reached."""
