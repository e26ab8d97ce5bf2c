"""A pool over several nodes: where the next container goes, and whose lease is whose. Control plane only.

It keeps nothing that it could not rebuild by asking nodes: a lease id names its node, a node holds the truth about its
containers. What it holds in memory is a view of the nodes' health, refreshed all the time, and the queue of allocations
that wait for room, served in the order they came.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from swe_exec_server.api import CREATE, HEALTH, IMAGES, STATUS, Operation
from swe_exec_server.pool_wire import AllocateRequest, AllocateResponse, NodeStatus, PoolStatusResponse
from swe_exec_server.transport import HttpTransport
from swe_exec_server.wire import CreateRequest, ErrorCode, HealthResponse, SandboxError

Answer = TypeVar("Answer", bound=BaseModel)
T = TypeVar("T")

LOOK_EVERY_S = 1.0
LOOK_TIMEOUT_S = 2.0
DEAD_AFTER = 3
"""Failed looks in a row until a node counts as lost: then whoever waits for it is told."""
NODE_QUEUE_S = 1.0
"""How long an allocation stands in one node's queue before it looks for another node again."""
LOCALITY_SLACK = 2
"""A node that has the image is preferred while it is not fuller than the emptiest one by more than this."""
NODE_REASONS = frozenset({ErrorCode.FULL, ErrorCode.DRAINING, ErrorCode.ENGINE_DOWN, ErrorCode.UNREACHABLE})
"""Why one node refuses what another may take."""


@dataclass
class PoolNode:
    """One node and what was last seen of it. `under_way` counts creates that its health does not show yet."""

    name: str
    url: str
    transport: HttpTransport
    cap: int | None = None
    health: HealthResponse | None = None
    error: str = "not asked yet"
    misses: int = 0
    under_way: int = 0
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def usable(self) -> bool:
        return self.health is not None and self.health.ok and not self.health.draining and self.misses == 0

    @property
    def free(self) -> int:
        if self.health is None:
            return 0
        most = self.health.max_containers if self.cap is None else min(self.cap, self.health.max_containers)
        return most - self.health.running_containers - self.under_way

    def seen(self, health: HealthResponse) -> None:
        self.health, self.error, self.misses = health, health.message, 0
        self.lost.clear()

    def missed(self, why: str) -> None:
        self.error, self.misses = why, self.misses + 1
        if self.misses >= DEAD_AFTER:
            self.lost.set()


def node_name(url: str) -> str:
    """`http://a:5000` -> `a:5000`: the same after every restart of the pool."""
    return url.split("://", 1)[-1].rstrip("/")


def split_lease(lease_id: str) -> tuple[str, str]:
    """`<node name>.<container id>` -> both; a node's name may hold dots, a container's id does not."""
    name, _, container_id = lease_id.rpartition(".")
    return name, container_id


class PoolService:
    """The pool's operations. All of them run on one event loop; `start` and `close` too."""

    def __init__(self, urls: Sequence[str], token: str = "", *, max_per_node: int | None = None) -> None:
        self.nodes = {
            node_name(url): PoolNode(
                node_name(url), url.rstrip("/"), HttpTransport(url, token, patient=False), cap=max_per_node
            )
            for url in urls
        }
        self._queue: deque[object] = deque()
        self._room = asyncio.Event()
        self._looking: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Ask every node once, then go on asking."""
        await asyncio.gather(*(self._look(node) for node in self.nodes.values()))
        self._looking = [asyncio.create_task(self._watch(node)) for node in self.nodes.values()]

    async def close(self) -> None:
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
        await asyncio.gather(*(node.transport.close() for node in self.nodes.values()))

    # -- operations ------------------------------------------------------------------------------------------------

    async def allocate(self, request: AllocateRequest, *, repeated: bool = False) -> AllocateResponse:
        """A container on the node with the most room, waiting in the queue for at most the request's timeout.

        `repeated`: an earlier try may have reached another start of this pool; the node that knows its key is asked.
        """
        values = request.model_dump(exclude={"instance_id"})
        values["owner"] = request.owner or request.instance_id
        deadline = time.monotonic() + request.timeout
        if repeated and request.idempotency_key and (node := await self._node_of_key(request.idempotency_key)):
            return await self._create_on(node, CreateRequest(**values))
        ticket = object()
        self._queue.append(ticket)
        try:
            return await self._allocate_in_turn(ticket, values, deadline)
        finally:
            self._queue.remove(ticket)
            self._room.set()

    async def forward(self, lease_id: str, operation: Operation[Answer], request: BaseModel) -> Answer:
        """Run a node's operation for a client that cannot reach the node; a node that is lost is told quickly."""
        node = self._node(lease_id)
        return await self._unless_lost(node, node.transport.call(operation, request))

    def container_of(self, lease_id: str) -> str:
        """The container's id; raises `container_unknown` for a lease of no node of ours."""
        self._node(lease_id)
        return split_lease(lease_id)[1]

    def status(self) -> PoolStatusResponse:
        nodes = [
            NodeStatus(
                name=node.name,
                url=node.url,
                healthy=node.usable,
                draining=bool(node.health and node.health.draining),
                running_containers=node.health.running_containers if node.health else 0,
                max_containers=node.health.max_containers if node.health else 0,
                error=node.error,
            )
            for node in self.nodes.values()
        ]
        total = sum(node.running_containers for node in nodes)
        return PoolStatusResponse(total_leases=total, queued=len(self._queue), nodes=nodes)

    async def images(self) -> dict[str, int]:
        """Names and sizes of the images that some usable node has."""
        asked = [node.transport.call(IMAGES) for node in self.nodes.values() if node.usable]
        found: dict[str, int] = {}
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if not isinstance(answer, BaseException):
                found.update((name, image.size) for image in answer.images for name in image.names)
        return found

    # -- choosing ----------------------------------------------------------------------------------------------------

    async def _allocate_in_turn(self, ticket: object, values: dict[str, Any], deadline: float) -> AllocateResponse:
        last: SandboxError | None = None
        tried: set[str] = set()
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._full(last)
            node = await self._best(str(values["image"]), tried) if self._queue[0] is ticket else None
            if node is None:
                tried.clear()
                await self._wait_for_room(min(left, 0.25))
                continue
            # The first in the queue leaves it as soon as a node was chosen, so creates run side by side.
            self._queue.remove(ticket)
            self._queue.append(ticket)
            self._room.set()
            try:
                request = CreateRequest(**{**values, "timeout": max(0.1, min(left, NODE_QUEUE_S))})
                return await self._create_on(node, request)
            except SandboxError as error:
                if error.code not in NODE_REASONS:
                    raise
                last = error
                tried.add(node.name)
                self._queue.remove(ticket)
                self._queue.appendleft(ticket)

    async def _create_on(self, node: PoolNode, request: CreateRequest) -> AllocateResponse:
        node.under_way += 1
        try:
            made = await self._unless_lost(node, node.transport.call(CREATE, request))
        finally:
            node.under_way -= 1
        if node.health is not None:
            running = node.health.running_containers + 1
            node.health = node.health.model_copy(update={"running_containers": running})
        return AllocateResponse(
            lease_id=f"{node.name}.{made.container_id}",
            node_url=node.url,
            container_id=made.container_id,
            name=made.name,
        )

    async def _best(self, image: str, tried: set[str]) -> PoolNode | None:
        """The emptiest usable node; one that has the image, if it is not much fuller."""
        usable = [node for node in self.nodes.values() if node.usable and node.free > 0 and node.name not in tried]
        if not usable:
            return None
        emptiest = max(usable, key=lambda node: node.free)
        near = [node for node in usable if node.free >= emptiest.free - LOCALITY_SLACK]
        for node in sorted(near, key=lambda node: -node.free):
            with contextlib.suppress(SandboxError):
                if await node.transport.has_image(image):
                    return node
        return emptiest

    async def _wait_for_room(self, timeout: float) -> None:
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._room.wait(), timeout)

    def _full(self, last: SandboxError | None) -> SandboxError:
        usable = [node for node in self.nodes.values() if node.usable]
        if usable:
            return SandboxError(ErrorCode.FULL, f"all {len(usable)} nodes are full; try again later")
        reasons = "; ".join(f"{node.name}: {node.error or 'draining'}" for node in self.nodes.values())
        return last or SandboxError(ErrorCode.ENGINE_DOWN, f"no node can take a container ({reasons})")

    async def _node_of_key(self, key: str) -> PoolNode | None:
        async def holds(node: PoolNode) -> bool:
            status = await node.transport.call(STATUS)
            return any(container.idempotency_key == key for container in status.containers)

        nodes = [node for node in self.nodes.values() if node.usable]
        answers = await asyncio.gather(*(holds(node) for node in nodes), return_exceptions=True)
        return next((node for node, answer in zip(nodes, answers, strict=True) if answer is True), None)

    def node_of(self, lease_id: str) -> PoolNode:
        """The node of a lease; raises `container_unknown` for one of no node of ours."""
        return self._node(lease_id)

    # -- watching ----------------------------------------------------------------------------------------------------

    def _node(self, lease_id: str) -> PoolNode:
        node = self.nodes.get(split_lease(lease_id)[0])
        if node is None:
            raise SandboxError(ErrorCode.CONTAINER_UNKNOWN, f"no node of this pool holds lease {lease_id[:80]!r}")
        return node

    async def _unless_lost(self, node: PoolNode, work: Awaitable[T]) -> T:
        """The result of `work`, or `unreachable` as soon as the node counts as lost."""
        working = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(node.lost.wait())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise SandboxError(ErrorCode.UNREACHABLE, f"node {node.name} is lost: {node.error}")
        finally:
            losing.cancel()
            if not working.done():
                working.cancel()

    async def _watch(self, node: PoolNode) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(node)

    async def _look(self, node: PoolNode) -> None:
        try:
            health = await asyncio.wait_for(node.transport.call(HEALTH), LOOK_TIMEOUT_S)
        except (SandboxError, TimeoutError) as error:
            node.missed(error.message if isinstance(error, SandboxError) else f"no answer within {LOOK_TIMEOUT_S:g} s")
            return
        node.seen(health)
        if node.free > 0:
            self._room.set()
