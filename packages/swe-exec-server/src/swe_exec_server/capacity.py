"""A fixed number of slots, given out first come, first served."""

import threading
import time
from collections import deque


class FairSlots:
    """`total` slots for threads. Waiters are served in the order they came; none is overtaken by a newcomer."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._used = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        return self._used

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def acquire(self, timeout: float) -> bool:
        """Take a slot, waiting up to `timeout` seconds for one; False when none came free in time."""
        ticket = object()
        deadline = time.monotonic() + timeout
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or self._used >= self.total:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        if self._waiting[0] is ticket and self._used < self.total:
                            break
                        return False
                self._used += 1
                return True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def take(self) -> None:
        """Count a slot as used without asking: a container found at start exists whatever the cap says."""
        with self._changed:
            self._used += 1

    def release(self) -> None:
        with self._changed:
            if self._used <= 0:
                raise RuntimeError("released a slot that was not taken")
            self._used -= 1
            self._changed.notify_all()
