"""A keyed request runs once: a repetition joins the running one or gets its stored answer.

The invariant: for one key, the work function is entered at most once per server start, unless it ended with a
retryable error (then nothing happened and the next try may run). Answers are kept within a bound on their size; of an
answer that had to go, the key stays, and a repetition gets `outcome_unknown` instead of a second run.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from swe_exec_server.wire import ErrorCode, SandboxError

MAX_STORED_BYTES = 256 * 1024**2
MAX_KEYS = 100_000

T = TypeVar("T", bound=BaseModel)


@dataclass
class _Entry:
    fingerprint: str
    future: "Future[Any]"
    size: int = 0
    dropped: bool = False


class KeyedCalls:
    """The keys one server start has seen. Thread-safe."""

    def __init__(self, boot_id: str, max_bytes: int = MAX_STORED_BYTES, max_keys: int = MAX_KEYS) -> None:
        self._boot_id = boot_id
        self._max_bytes = max_bytes
        self._max_keys = max_keys
        self._stored = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, key: str | None, fingerprint: str, work: Callable[[], T], delivered_to: str | None = None) -> T:
        """The answer of `work`, which runs in this thread unless `key` was seen before.

        Args:
            fingerprint: hash of the request; the same key with another one is a `conflict`.
            delivered_to: boot_id of the server start that an earlier try of this request may have reached.
        """
        if key is None:
            return work()
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                if delivered_to is not None and delivered_to != self._boot_id:
                    raise SandboxError(
                        ErrorCode.OUTCOME_UNKNOWN, "the server restarted since the first try; it may have run or not"
                    )
                entry = _Entry(fingerprint, Future())
                self._entries[key] = entry
            elif entry.fingerprint != fingerprint:
                raise SandboxError(ErrorCode.CONFLICT, "this idempotency key was used for another request")
            elif entry.dropped:
                raise SandboxError(ErrorCode.OUTCOME_UNKNOWN, "it ran, but its answer is no longer kept")
            future = entry.future
        if mine:
            self._work(key, entry, work)
        answer: T = future.result()
        return answer

    def remember(self, key: str, fingerprint: str, answer: BaseModel) -> None:
        """Store the answer of a request that an earlier server start ran."""
        entry = _Entry(fingerprint, Future())
        entry.future.set_result(answer)
        with self._lock:
            self._entries[key] = entry

    def running(self, prefix: str) -> list[str]:
        """What follows `prefix` in the keys of requests that run now."""
        with self._lock:
            found = [key for key, entry in self._entries.items() if not entry.future.done()]
        return [key.removeprefix(prefix) for key in found if key.startswith(prefix)]

    def _work(self, key: str, entry: _Entry, work: Callable[[], BaseModel]) -> None:
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - whoever joined must get it, whatever it is
            if not isinstance(error, SandboxError) or error.retryable:
                with self._lock:
                    self._entries.pop(key, None)
            entry.future.set_exception(error)
            return
        entry.future.set_result(answer)
        with self._lock:
            entry.size = len(answer.model_dump_json())
            self._stored += entry.size
            self._shrink()

    def _shrink(self) -> None:
        for entry in self._entries.values():
            if self._stored <= self._max_bytes:
                break
            if entry.size and not entry.dropped:
                self._stored -= entry.size
                entry.size = 0
                entry.dropped = True
                entry.future = Future()
                entry.future.cancel()  # frees the answer; joiners of before hold the old future
        while len(self._entries) > self._max_keys and next(iter(self._entries.values())).future.done():
            _, gone = self._entries.popitem(last=False)
            self._stored -= gone.size
