"""A pool over several nodes: where the next container goes, and whose lease is whose. Control plane only.

It keeps nothing that it could not rebuild by asking nodes: a lease id names its node, a node holds the truth about its
containers and about the keys of the creates it got. So a pool that was killed and started again has lost no lease, and
an allocation repeated to it finds the container that the first try made.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from swe_exec_server.api import CREATE, DESTROY, IMAGES, STATUS, Operation
from swe_exec_server.pool import NODE_QUEUE_S, NODE_REASONS, NodePool
from swe_exec_server.pool_member import Member
from swe_exec_server.pool_wire import AllocateRequest, AllocateResponse, NodeStatus, PoolStatusResponse
from swe_exec_server.transport import HttpTransport
from swe_exec_server.wire import CreateRequest, ErrorCode, HealthResponse, SandboxError

Answer = TypeVar("Answer", bound=BaseModel)
T = TypeVar("T")

STATUS_TIMEOUT_S = 5.0


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
        self._transports = {node_name(url): HttpTransport(url, token, patient=False) for url in urls}
        members = [
            Member(name, transport.label, transport, cap=max_per_node) for name, transport in self._transports.items()
        ]
        self._pool = NodePool(members)
        self._pool.on_start_seen = self._learn
        self._node_of_key: dict[str, str] = {}
        """Of containers that were there, or being made, when their node's start was first seen."""

    async def start(self) -> None:
        """Ask every node once, then go on asking."""
        await self._pool.start()

    async def close(self) -> None:
        await self._pool.close()

    # -- operations ------------------------------------------------------------------------------------------------

    async def allocate(self, request: AllocateRequest, *, repeated: bool = False) -> AllocateResponse:
        """A container on the node with the most room, waiting in the queue for at most the request's timeout.

        `repeated`: an earlier try may have reached another start of this pool; the node that knows its key is asked.
        """
        values = request.model_dump(exclude={"instance_id"})
        values["owner"] = request.owner or request.instance_id
        values["idempotency_key"] = request.idempotency_key or uuid.uuid4().hex  # this pool's own retries need one
        if request.idempotency_key and (member := await self._holder(request.idempotency_key, repeated)):
            try:
                return await self._pool.unless_lost(member, self._create(member, CreateRequest(**values)))
            except SandboxError as error:
                if error.code not in NODE_REASONS:
                    raise

        async def on(member: Member, left: float) -> AllocateResponse:
            asked = {"timeout": left, "queue_timeout": min(left, NODE_QUEUE_S)}
            return await self._create(member, CreateRequest(**{**values, **asked}))

        patience = min(request.timeout, request.queue_timeout or request.timeout)
        return await self._pool.place(request.image, patience, on, key=values["idempotency_key"])

    async def forward(
        self, lease_id: str, operation: Operation[Answer], request: BaseModel, *, delivered_to: str = ""
    ) -> Answer:
        """Run a node's operation for a client that cannot reach the node; a node that is lost is told quickly.

        `delivered_to` goes to the node as it came: a node that does not know the request's key, and did not give that
        boot id, says `outcome_unknown` instead of running it a second time.
        """
        member = self._member(lease_id)
        transport = self._transports[member.name]
        work = transport.call(operation, request, delivered_to=delivered_to)
        answer = await self._pool.unless_lost(member, work)
        if operation is DESTROY:
            self._pool.hurry()
        return answer

    async def read_file(self, lease_id: str, path: str) -> bytes:
        return await self._on_node(lease_id, lambda member, id_: member.transport.read_file(id_, path))

    async def write_file(self, lease_id: str, path: str, data: bytes) -> None:
        await self._on_node(lease_id, lambda member, id_: member.transport.write_file(id_, path, data))

    def status(self) -> PoolStatusResponse:
        nodes = [_status(member) for member in self._pool.members.values()]
        total = sum(node.running_containers for node in nodes)
        return PoolStatusResponse(total_leases=total, queued=self._pool.queued, nodes=nodes)

    async def images(self) -> dict[str, int]:
        """Names and sizes of the images that some usable node has."""
        asked = [member.transport.call(IMAGES) for member in self._pool.members.values() if member.usable]
        found: dict[str, int] = {}
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if not isinstance(answer, BaseException):
                found.update((name, image.size) for image in answer.images for name in image.names)
        return found

    # -- work ------------------------------------------------------------------------------------------------------

    async def _create(self, member: Member, request: CreateRequest) -> AllocateResponse:
        made = await member.transport.call(CREATE, request)
        return AllocateResponse(
            lease_id=f"{member.name}.{made.container_id}",
            node_url=member.url,
            container_id=made.container_id,
            name=made.name,
        )

    async def _on_node(self, lease_id: str, work: Callable[[Member, str], Coroutine[Any, Any, T]]) -> T:
        member = self._member(lease_id)
        return await self._pool.unless_lost(member, work(member, split_lease(lease_id)[1]))

    def _member(self, lease_id: str) -> Member:
        member = self._pool.members.get(split_lease(lease_id)[0])
        if member is None:
            raise SandboxError(ErrorCode.CONTAINER_UNKNOWN, f"no node of this pool holds lease {lease_id[:80]!r}")
        return member

    # -- keys of earlier starts --------------------------------------------------------------------------------------

    async def _learn(self, member: Member, health: HealthResponse) -> str:
        """Whose keys a node holds; and whether it is a node that takes our token at all."""
        if health.role != "node":
            return "it is a pool itself; name the nodes"
        try:
            keys = await self._keys_of(member)
        except SandboxError as error:
            if error.code is ErrorCode.UNAUTHORIZED:
                return "it refuses this pool's token; pool and nodes share one"
            raise
        self._node_of_key.update(dict.fromkeys(keys, member.name))
        return ""

    async def _holder(self, key: str, repeated: bool) -> Member | None:
        """The node that has, or is making, the container of a key."""
        if (name := self._node_of_key.get(key)) is not None:
            return self._pool.members[name]
        if not repeated:
            return None
        members = [member for member in self._pool.members.values() if member.usable]
        answers = await asyncio.gather(*(self._keys_of(member) for member in members), return_exceptions=True)
        for member, keys in zip(members, answers, strict=True):
            if not isinstance(keys, BaseException) and key in keys:
                return member
        return None

    async def _keys_of(self, member: Member) -> set[str]:
        try:
            status = await asyncio.wait_for(member.transport.call(STATUS), STATUS_TIMEOUT_S)
        except TimeoutError as error:
            raise SandboxError(ErrorCode.UNREACHABLE, f"no status within {STATUS_TIMEOUT_S:g} s") from error
        held = {container.idempotency_key for container in status.containers if container.idempotency_key}
        return held | set(status.creating)


def _status(member: Member) -> NodeStatus:
    running = member.health.running_containers if member.health else 0
    return NodeStatus(
        name=member.name,
        url=member.url,
        healthy=member.usable,
        draining=bool(member.health and member.health.draining),
        running_containers=running,
        max_containers=member.max_containers,
        free=max(0, member.free) if member.usable else 0,
        error=member.complaint,
    )
