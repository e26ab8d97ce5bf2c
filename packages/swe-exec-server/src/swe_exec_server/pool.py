"""Several nodes as one place to create containers: watch them, queue fairly, fail over. A library; no server.

It keeps no state that it could not rebuild by asking the nodes: what it holds is a view of their health, refreshed all
the time, and the queue of creates that wait for room. Whoever came first is offered a free place first; one whose image
is on full nodes only keeps its turn there and holds up nobody else. All of it runs on one event loop.
"""

import asyncio
import bisect
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from swe_exec_server.api import HEALTH, IMAGES
from swe_exec_server.pool_member import Member, Place, pick
from swe_exec_server.pool_reclaim import Reclaimer
from swe_exec_server.transport import with_tag
from swe_exec_server.wire import ErrorCode, HealthResponse, SandboxError

T = TypeVar("T")

LOOK_EVERY_S = 1.0
LOOK_EVERY_WAITING_S = 0.3
"""Between two looks at a node, and while somebody waits for room."""
LOOK_TIMEOUT_S = 2.0
IMAGES_EVERY_S = 15.0
NODE_QUEUE_S = 1.0
"""How long a create stands in one node's queue before another node is looked for."""
NOBODY_S = 10.0
"""How long a create waits for any node to become usable."""
NODE_REASONS = frozenset(
    {ErrorCode.FULL, ErrorCode.DRAINING, ErrorCode.ENGINE_DOWN, ErrorCode.UNREACHABLE, ErrorCode.DISK_FULL}
)
"""Why one node refuses what another may take."""


@dataclass(order=True)
class _Waiter:
    """A create that waits for its node. Ordered by arrival."""

    number: int
    image: str = field(compare=False)
    turn: "asyncio.Future[tuple[Member, Place]]" = field(compare=False)
    lacking: list[Member] = field(compare=False, default_factory=list)
    """Nodes that do not have its image."""
    unheard: list[Member] = field(compare=False, default_factory=list)
    """Nodes that were asked and lost before they answered: they may have made it."""


class NodePool:
    """Members, watched from the first `place` or `start` until `close`."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise ValueError("a pool needs at least one node")
        self.members = {member.name: member for member in members}
        self._waiting: list[_Waiter] = []
        self._numbers = itertools.count()
        self._watching: list[asyncio.Task[None]] = []
        self._hurry = asyncio.Event()
        self._reclaimer = Reclaimer()
        self.on_start_seen: Callable[[Member, HealthResponse], Awaitable[str]] = _no_objection
        """Called when a start of a node is seen first; what it returns says why that node is of no use."""

    @property
    def queued(self) -> int:
        return len(self._waiting)

    async def start(self) -> None:
        """Ask every node once, then go on asking; the second call does nothing."""
        if not self._watching:
            members = list(self.members.values())
            self._watching = [
                asyncio.create_task(self._watch(member), name=f"watch {member.name}") for member in members
            ]
            await asyncio.gather(*(self._look(member) for member in members))
            await asyncio.gather(*(self._look_at_images(member) for member in members))

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self._reclaimer.close()
        await asyncio.gather(*(member.transport.close() for member in self.members.values()))

    async def health(self) -> dict[str, HealthResponse | SandboxError]:
        """Each node's health by its label, or the error it gave instead."""
        transports = [member.transport for member in self.members.values()]
        answers = await asyncio.gather(*(t.call(HEALTH) for t in transports), return_exceptions=True)
        found: dict[str, HealthResponse | SandboxError] = {}
        for transport, answer in zip(transports, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, SandboxError):
                raise answer
            found[transport.label] = answer
        return found

    async def place(
        self, image: str, timeout: float, create: Callable[[Member, float], Coroutine[Any, Any, T]], *, key: str = ""
    ) -> T:
        """What `create` makes on the node whose turn it is; another node is tried when one refuses for its own reasons.

        Args:
            timeout: seconds for waiting and creating together; then `full`, or `engine_down` if no node is usable.
            create: makes it on that node within the seconds given; must be safe to repeat (one idempotency key).
            key: that key: by it, what a lost node made is found and removed when the node is back.
        """
        await self.start()
        deadline = time.monotonic() + timeout
        waiter = _Waiter(next(self._numbers), image, asyncio.get_running_loop().create_future())
        while True:
            member, place = await self._turn(waiter, deadline)
            try:
                made = await self.unless_lost(member, create(member, max(0.1, deadline - place.begun)))
            except BaseException as error:
                again = isinstance(error, SandboxError) and self._note_refusal(waiter, member, error)
                self._give_back(member, place)
                if not again:
                    raise
                if waiter.lacking and not await self._had_elsewhere(waiter):
                    raise
            else:
                place.done = time.monotonic()
                self._reclaimer.reclaim(key, {other for other in waiter.unheard if other is not member})
                return made

    async def unless_lost(self, member: Member, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, or `unreachable` as soon as the node counts as lost."""
        if member.lost.is_set():
            work.close()
            raise _lost(member)
        working = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(member.lost.wait())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise _lost(member)
        finally:
            losing.cancel()
            working.cancel()

    def hurry(self) -> None:
        """Something was given back: look at the nodes now, if somebody waits."""
        if self._waiting:
            self._hurry.set()

    # -- queue -------------------------------------------------------------------------------------------------------

    async def _turn(self, waiter: _Waiter, deadline: float) -> tuple[Member, Place]:
        """Wait in the queue, at the place of the waiter's arrival, for a place on a node."""
        waiter.turn = asyncio.get_running_loop().create_future()
        bisect.insort(self._waiting, waiter)
        self._offer()
        usable_at = time.monotonic()
        try:
            while not waiter.turn.done():
                now = time.monotonic()
                if any(member.usable for member in self.members.values()):
                    usable_at = now
                if now >= deadline or now - usable_at > NOBODY_S:
                    self._waiting.remove(waiter)
                    raise self._refusal()
                await asyncio.wait({waiter.turn}, timeout=min(deadline - now, 1.0))
        except asyncio.CancelledError:
            if waiter.turn.done():
                self._give_back(*waiter.turn.result())
            else:
                self._waiting.remove(waiter)
            raise
        return waiter.turn.result()

    def _give_back(self, member: Member, place: Place) -> None:
        with contextlib.suppress(ValueError):  # a health may have counted it already
            member.recent.remove(place)
        self._offer()

    def _offer(self) -> None:
        """Give free places to waiters, in the order they came. Counted at once, so that none is given twice."""
        for waiter in list(self._waiting):
            now = time.monotonic()
            able = [member for member in self.members.values() if member.takes(now)]
            if not able:
                break
            member = pick(able, waiter.image, waiter.lacking)
            if member is not None:
                place = Place(now)
                member.recent.append(place)
                self._waiting.remove(waiter)
                waiter.turn.set_result((member, place))

    def _note_refusal(self, waiter: _Waiter, member: Member, error: SandboxError) -> bool:
        """Whether the refusal is that node's own, so that another one may be asked."""
        if error.code is ErrorCode.IMAGE_UNKNOWN:
            waiter.lacking.append(member)
        elif error.code is ErrorCode.UNREACHABLE:
            waiter.unheard.append(member)
        elif error.code not in NODE_REASONS:
            return False
        member.refused(error, waiter.image, time.monotonic())
        return True

    async def _had_elsewhere(self, waiter: _Waiter) -> bool:
        """Whether another node has the image: as its list says now, or as cannot be told (digests are not listed)."""
        others = [member for member in self.members.values() if member not in waiter.lacking]
        if "@" in waiter.image:
            return bool(others)
        await asyncio.gather(*(self._look_at_images(member) for member in others))
        return any(with_tag(waiter.image) in member.images for member in others)

    def _refusal(self) -> SandboxError:
        usable = [member for member in self.members.values() if member.usable]
        if usable:
            return SandboxError(ErrorCode.FULL, f"all {len(usable)} usable nodes are full; try again later")
        reasons = "; ".join(member.why_not() for member in self.members.values())
        return SandboxError(ErrorCode.ENGINE_DOWN, f"no node can take a container now ({reasons})")

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _watch(self, member: Member) -> None:
        images_at = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                pause = LOOK_EVERY_WAITING_S if self._waiting else LOOK_EVERY_S
                await asyncio.wait_for(self._hurry.wait(), pause)
            self._hurry.clear()
            await self._look(member)
            if time.monotonic() - images_at > IMAGES_EVERY_S:
                images_at = time.monotonic()
                await self._look_at_images(member)

    async def _look_at_images(self, member: Member) -> None:
        if member.usable:
            with contextlib.suppress(SandboxError, TimeoutError):
                answer = await asyncio.wait_for(member.transport.call(IMAGES), LOOK_TIMEOUT_S)
                member.images = frozenset(name for image in answer.images for name in image.names)

    async def _look(self, member: Member) -> None:
        asked = time.monotonic()
        before = member.health.boot_id if member.health else ""
        try:
            health = await member.transport.probe(LOOK_TIMEOUT_S)
            if health.boot_id != before:
                member.objection = await self.on_start_seen(member, health)
        except SandboxError as error:
            member.missed(error.message)
            return
        member.seen(health, asked)
        self._offer()


async def _no_objection(member: Member, health: HealthResponse) -> str:
    return ""


def _lost(member: Member) -> SandboxError:
    return SandboxError(ErrorCode.UNREACHABLE, f"node {member.name} is lost: {member.error}")
