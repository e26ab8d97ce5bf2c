"""Remove what a lost node made for a create that then went to another node: else it would hold a place for its TTL.

Only creates that ended well elsewhere are reclaimed, so the container of that key is wanted by nobody. What is
forgotten here (the pool was killed) ends by its TTL.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable

from swe_exec_server.api import DESTROY, STATUS
from swe_exec_server.pool_member import Member
from swe_exec_server.wire import ContainerRequest, SandboxError

TRY_EVERY_S = 1.0
TRY_FOR_S = 3600.0
"""Longer than most leases live unused."""
LOOKS = 5
"""Looks at a node that is back until a create that does not show counts as never arrived."""


class Reclaimer:
    """Waits in the background for lost nodes to come back."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def reclaim(self, key: str, members: Iterable[Member]) -> None:
        """Destroy the container that each of `members` may have made under `key`."""
        if key:
            for member in members:
                task = asyncio.get_running_loop().create_task(_reclaim(member, key))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _reclaim(member: Member, key: str) -> None:
    deadline = time.monotonic() + TRY_FOR_S
    looks = 0
    while looks < LOOKS and time.monotonic() < deadline:
        await asyncio.sleep(TRY_EVERY_S)
        if member.misses or member.health is None:
            continue
        with contextlib.suppress(SandboxError):
            status = await member.transport.call(STATUS)
            looks += key not in status.creating
            for container in status.containers:
                if container.idempotency_key == key:
                    await member.transport.call(DESTROY, ContainerRequest(container_id=container.id))
                    return
