"""How a client uses a pool: allocate there, then talk to the node itself, or through the pool if it is out of reach."""

import asyncio
import time
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
from swe_exec_server.wire import CreateRequest, HealthResponse

Answer = TypeVar("Answer", bound=BaseModel)

OUT_OF_REACH_FOR_S = 60.0
"""How long a node that could not be reached directly is used through the pool before that is tried again."""

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

    async def probe(self, timeout: float) -> HealthResponse:
        return await self._pool.probe(timeout)

    async def lease(self, request: CreateRequest, *, patient: bool = True, **local: Any) -> tuple[Transport, str]:
        return await self._pool.lease(request, patient=patient)

    async def has_image(self, image: str) -> bool:
        return await self._pool.has_image(image)

    async def read_file(self, container_id: str, path: str) -> bytes:
        return await self._pool.read_file(self._lease_id, path)

    async def write_file(self, container_id: str, path: str, data: bytes) -> None:
        await self._pool.write_file(self._lease_id, path, data)

    async def close(self) -> None:
        """The pool's connection is not ours to close."""


class PoolClient:
    """Leases from one pool, and the ways to its nodes: found once, shared by all leases."""

    def __init__(self, pool: HttpTransport) -> None:
        self._pool = pool
        self._direct: dict[str, HttpTransport] = {}
        self._out_of_reach: dict[str, float] = {}
        self._looking = asyncio.Lock()

    async def lease(self, request: CreateRequest, *, patient: bool = True) -> tuple[Transport, str]:
        """Allocate, and choose the way to the node: direct where it answers, else forwarded."""
        body = AllocateRequest(**request.model_dump())
        wait = GRACE_S + request.timeout
        made = await self._pool.send("POST", "/allocate", body, AllocateResponse, timeout=wait, patient=patient)
        direct = await self._way_to(made.node_url)
        return direct or ForwardedLease(self._pool, made.lease_id), made.container_id

    async def close(self) -> None:
        for direct in self._direct.values():
            await direct.close()

    async def _way_to(self, url: str) -> HttpTransport | None:
        """A transport to the node itself; None while it is out of reach from here."""
        async with self._looking:
            if url not in self._direct and self._out_of_reach.get(url, 0.0) < time.monotonic():
                direct = self._pool.sibling(url)
                if await direct.answers():
                    self._direct[url] = direct
                else:
                    await direct.close()
                    self._out_of_reach[url] = time.monotonic() + OUT_OF_REACH_FOR_S
            return self._direct.get(url)
