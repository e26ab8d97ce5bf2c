"""The last known diff of a sandbox that may die at any moment.

A container killed by its own memory limit is graded on its last diff, and after the kill it is too late to ask. A diff
after every step would be time that the run waits for. So it is taken while nobody waits: once the model has been
thinking for a while, one diff is asked for in the background. It counts only if it was there before the next command
began, so that it is never of a state in between. Models that answer faster (recordings) cost nothing.
"""

import asyncio
from contextlib import suppress

from swe_exec_server.sandbox import DiffResult, Sandbox


class SnapshotTaker:
    """Takes diffs of one sandbox in the background, never two at once.

    Attributes:
        last: the newest diff that counts.
    """

    def __init__(self, sandbox: Sandbox, cwd: str, base: str | None, delay: float | None) -> None:
        self._sandbox = sandbox
        self._cwd = cwd
        self._base = base
        self._delay = delay
        self._thinking = 0
        self._task: asyncio.Task[None] | None = None
        self.last: DiffResult | None = None

    def begin(self, changed: bool) -> None:
        """The model starts to think; `changed` says whether there is anything new to take."""
        self._thinking += 1
        if self._delay is not None and changed and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._take(self._delay, self._thinking))

    def end(self) -> None:
        """The model has answered: a diff that has not come by now does not count."""
        self._thinking += 1

    async def _take(self, delay: float, turn: int) -> None:
        await asyncio.sleep(delay)
        if self._thinking != turn:
            return
        with suppress(Exception):  # whatever is wrong shows up at the next command
            result = await self._sandbox.diff(cwd=self._cwd, base=self._base)
            if self._thinking == turn:
                self.last = result

    async def final(self, timeout: float) -> DiffResult | None:
        """A diff of the state now, or the last known one when none comes within `timeout` seconds."""
        request = asyncio.ensure_future(self._sandbox.diff(cwd=self._cwd, base=self._base))
        try:
            done, _ = await asyncio.wait({request}, timeout=timeout)
            if done and not request.cancelled() and request.exception() is None:
                self.last = request.result()
        finally:
            if not request.done():
                request.cancel()
        return self.last

    async def stop(self) -> None:
        """End what is under way."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
