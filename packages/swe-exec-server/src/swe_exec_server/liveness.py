"""Tell a server that is busy from one that is gone: while a long answer is awaited, its health is asked now and then.

A frozen machine or a cut cable sends no error; without this a caller would wait out the whole timeout of its command.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ASK_EVERY_S = 5.0
SILENT_AFTER = 3
"""Unanswered health checks in a row until the server counts as gone: about half a minute."""


class Silent(Exception):
    """The server answers nothing any more; the text is the number of health checks in a row without an answer."""


class Liveness:
    """Watches one server for all who wait for it. `ask` tells whether it answered; it must end by itself."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[bool] | None = None

    async def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        """The result of `answer`; raises `Silent` when the server is found gone first."""
        waiting = asyncio.ensure_future(answer)
        missed = 0
        try:
            while not (await asyncio.wait({waiting}, timeout=ASK_EVERY_S))[0]:
                missed = 0 if await self._answered(waiting) else missed + 1
                if missed == SILENT_AFTER and not waiting.done():
                    raise Silent(str(missed))
            return waiting.result()
        finally:
            waiting.cancel()

    async def _answered(self, waiting: Awaitable[object]) -> bool:
        """Ask once for everybody who wonders at the same time; the answer awaited is sign enough."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
        await asyncio.wait({self._asking, asyncio.ensure_future(waiting)}, return_when=asyncio.FIRST_COMPLETED)
        return not self._asking.done() or self._asking.result()
