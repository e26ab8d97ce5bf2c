"""How a client uses a pool: allocate there, then talk to the node itself, or through the pool if it is out of reach."""

from typing import Any, TypeVar

from pydantic import BaseModel

from swe_exec_server.api import DESTROY, DIFF, EVALUATE, EXEC, HEARTBEAT, Operation
from swe_exec_server.pool_wire import (
    AllocateRequest,
    AllocateResponse,
    LeaseDiffRequest,
    LeaseEvaluateRequest,
    LeaseExecRequest,
    LeaseRequest,
)
from swe_exec_server.transport import GRACE_S, HttpTransport, Transport
from swe_exec_server.wire import CreateRequest

Answer = TypeVar("Answer", bound=BaseModel)

LEASE_PATHS: dict[str, tuple[str, type[BaseModel]]] = {
    EXEC.name: ("/exec", LeaseExecRequest),
    DIFF.name: ("/diff", LeaseDiffRequest),
    EVALUATE.name: ("/evaluate", LeaseEvaluateRequest),
    HEARTBEAT.name: ("/heartbeat", LeaseRequest),
    DESTROY.name: ("/close", LeaseRequest),
}
"""The pool's path and request for each of a node's operations on a container."""


class ForwardedLease:
    """One lease, used through the pool."""

    def __init__(self, pool: HttpTransport, lease_id: str) -> None:
        self._pool = pool
        self._lease_id = lease_id
        self.label = f"{lease_id.rpartition('.')[0]} through {pool.label}"

    async def call(self, operation: Operation[Answer], request: BaseModel | None = None) -> Answer:
        path, kind = LEASE_PATHS[operation.name]
        fields = request.model_dump(exclude={"container_id"}) if request is not None else {}
        body = kind(lease_id=self._lease_id, **fields)
        timeout = GRACE_S + float(fields.get("timeout", 0.0))
        return await self._pool.send("POST", path, body, operation.response, timeout=timeout)

    async def lease(self, request: CreateRequest, **local: Any) -> tuple[Transport, str]:
        return await self._pool.lease(request)

    async def has_image(self, image: str) -> bool:
        return await self._pool.has_image(image)

    async def read_file(self, container_id: str, path: str) -> bytes:
        return await self._pool.read_file(self._lease_id, path)

    async def write_file(self, container_id: str, path: str, data: bytes) -> None:
        await self._pool.write_file(self._lease_id, path, data)

    async def close(self) -> None:
        """The pool's connection is not ours to close."""


async def lease_from_pool(pool: HttpTransport, request: CreateRequest) -> tuple[Transport, str]:
    """Allocate, and choose the way to the node: direct where it answers, else forwarded."""
    body = AllocateRequest(**request.model_dump())
    made = await pool.send("POST", "/allocate", body, AllocateResponse, timeout=GRACE_S + request.timeout)
    direct = pool.siblings.get(made.node_url)
    if direct is None:
        direct = pool.sibling(made.node_url)
        if not await direct.answers():
            await direct.close()
            return ForwardedLease(pool, made.lease_id), made.container_id
        pool.siblings[made.node_url] = direct
    return direct, made.container_id
