"""How long to wait before the next attempt."""

import random


class Backoff:
    """An exponential sequence of pauses in seconds.

    base   -- the first pause
    factor -- each pause is the one before times this
    limit  -- no pause is longer (before jitter)
    jitter -- every pause is spread evenly by up to this fraction, in both directions
    """

    def __init__(self, base=1.0, factor=2.0, limit=60.0, jitter=0.0, rng=None):
        if base < 0 or factor < 1 or limit < 0:
            raise ValueError("base and limit must not be negative, factor must be 1 or more")
        if not 0 <= jitter <= 1:
            raise ValueError("jitter must be between 0 and 1")
        self.base = base
        self.factor = factor
        self.limit = limit
        self.jitter = jitter
        self._rng = rng or random.Random()

    def pauses(self):
        """An endless generator of pauses."""
        pause = self.base
        while True:
            yield self._spread(min(pause, self.limit))
            pause = min(pause * self.factor, self.limit)

    def _spread(self, pause):
        if not self.jitter:
            return pause
        return pause * (1 + self._rng.uniform(-self.jitter, self.jitter))

    def total(self, attempts):
        """The longest time that `attempts` calls can spend pausing, without jitter."""
        plain = Backoff(self.base, self.factor, self.limit).pauses()
        return sum(next(plain) for _ in range(max(0, attempts - 1)))
