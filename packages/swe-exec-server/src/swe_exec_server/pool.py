"""Choose a node among several: the one with the most free slots, image locality first. A library, no server.

It keeps no state that it could not rebuild by asking the nodes: what it counts itself (creates under way) only bridges
the time until they show in a node's health.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence

from swe_exec_server.api import DESTROY, HEALTH
from swe_exec_server.transport import Transport
from swe_exec_server.wire import ContainerRequest, ErrorCode, HealthResponse, SandboxError

HEALTH_AGE_S = 2.0


class NodePool:
    """Several nodes as one place to create containers."""

    def __init__(self, transports: Sequence[Transport]) -> None:
        if not transports:
            raise ValueError("a pool needs at least one node")
        self.transports = list(transports)
        self._under_way: dict[Transport, int] = dict.fromkeys(self.transports, 0)
        self._health: tuple[float, dict[str, HealthResponse | SandboxError]] = (0.0, {})
        self._cleaning: set[asyncio.Task[None]] = set()

    async def health(self) -> dict[str, HealthResponse | SandboxError]:
        """Each node's health by its label, or the error it gave instead."""
        answers = await asyncio.gather(*(t.call(HEALTH) for t in self.transports), return_exceptions=True)
        found: dict[str, HealthResponse | SandboxError] = {}
        for transport, answer in zip(self.transports, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, SandboxError):
                raise answer
            found[transport.label] = answer
        return found

    async def choose(self, image: str) -> Transport:
        """The node for one create; `settled` must follow. Raises the last node's error when none can take it."""
        if len(self.transports) == 1:
            chosen = self.transports[0]
        else:
            chosen = await self._least_loaded(image)
        self._under_way[chosen] += 1
        return chosen

    def settled(self, transport: Transport) -> None:
        """The create that `choose` was asked for has ended, one way or the other."""
        self._under_way[transport] -= 1

    def abandon(self, created: "asyncio.Future[tuple[Transport, str]]") -> None:
        """The caller of a create has gone: destroy what it makes. `close` waits for that."""
        task = asyncio.get_running_loop().create_task(self._destroy(created))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def close(self) -> None:
        if self._cleaning:
            await asyncio.wait(self._cleaning)
        await asyncio.gather(*(transport.close() for transport in self.transports))

    async def _destroy(self, created: "asyncio.Future[tuple[Transport, str]]") -> None:
        with contextlib.suppress(SandboxError):
            transport, container_id = await created
            await transport.call(DESTROY, ContainerRequest(container_id=container_id))

    async def _least_loaded(self, image: str) -> Transport:
        if time.monotonic() - self._health[0] > HEALTH_AGE_S:
            self._health = (time.monotonic(), await self.health())
        rated: list[tuple[bool, int, int]] = []
        for index, transport in enumerate(self.transports):
            health = self._health[1][transport.label]
            if isinstance(health, HealthResponse) and health.ok and not health.draining:
                free = health.max_containers - health.running_containers - self._under_way[transport]
                has = await self._has_image(transport, image)
                rated.append((has and free > 0, free, -index))
        if not rated:
            reasons = "; ".join(f"{label}: {_why(health)}" for label, health in self._health[1].items())
            raise SandboxError(ErrorCode.ENGINE_DOWN, f"no exec server can take a container now ({reasons})")
        return self.transports[-max(rated)[2]]

    async def _has_image(self, transport: Transport, image: str) -> bool:
        try:
            return await transport.has_image(image)
        except SandboxError:
            return False


def _why(health: HealthResponse | SandboxError) -> str:
    if isinstance(health, SandboxError):
        return health.message
    return "draining" if health.draining else health.message
