"""A circuit breaker for one model endpoint: what one request learns of a dead server, all know.

An endpoint is dead when a failing request has had enough (it failed for as long as its patience lasts) and nobody got
an answer in all that time. Then every request that waits for the endpoint, in flight or between tries, ends in
`ModelLost` at once, and each later one is given a single try, until one is answered. An answer is whatever the server
says about a request, refusals included; failures are lost connections, 5xx and silence.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary, WeakValueDictionary

from swe_agent.models import ModelLost


class Breaker:
    """For one endpoint and one event loop. Times in seconds."""

    def __init__(self, endpoint: str, patience: float) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._answered_at = float("-inf")
        self._failing_since: float | None = None
        self._last_failure = ""
        self._dead = False
        self._waiting: set[asyncio.Timeout] = set()

    @property
    def dead(self) -> bool:
        return self._dead

    def answered(self) -> None:
        """The endpoint said something."""
        self._failing_since, self._dead, self._answered_at = None, False, time.monotonic()

    def failed(self, why: str) -> None:
        """A try got no answer. Raises `ModelLost` when the endpoint is dead, or dead with that."""
        now = time.monotonic()
        self._last_failure = why
        if self._failing_since is None:
            self._failing_since = now
        if self._dead or now - self._failing_since >= self._patience > 0:
            self._trip()
            raise self._lost()

    def gave_up(self, started: float) -> None:
        """A request that began at `started` (monotonic) is lost; with it all, if nobody got an answer since then."""
        if self._answered_at < started:
            self._trip()

    def _trip(self) -> None:
        self._dead = True
        now = asyncio.get_running_loop().time()
        for limit in self._waiting:
            limit.reschedule(now)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Around a request with all its tries. Raises `ModelLost` out of its middle when the endpoint dies."""
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting.add(limit)
                try:
                    yield
                finally:
                    self._waiting.discard(limit)
        except TimeoutError:
            if limit.expired():
                raise self._lost() from None
            raise

    def _lost(self) -> ModelLost:
        silent = time.monotonic() - (self._failing_since or time.monotonic())
        return ModelLost(
            f"model server {self._endpoint}: no request got an answer for {silent:.1f} s, the last one: "
            f"{self._last_failure}; check that it runs"
        )


_BREAKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[tuple[str, float], Breaker]] = (
    WeakKeyDictionary()
)


def breaker_of(endpoint: str, patience: float) -> Breaker:
    """The breaker that everyone in this event loop shares for `endpoint`; it lives as long as someone holds it."""
    mine = _BREAKERS.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    breaker = mine.get((endpoint, patience))
    if breaker is None:
        breaker = mine[endpoint, patience] = Breaker(endpoint, patience)
    return breaker
