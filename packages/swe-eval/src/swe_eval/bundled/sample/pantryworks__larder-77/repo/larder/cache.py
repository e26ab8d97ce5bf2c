"""The cache itself."""

import time
from collections import OrderedDict
from collections.abc import MutableMapping

from .stats import Stats


class Cache(MutableMapping):
    """A mapping that holds at most `maxsize` entries, each for `ttl` seconds (None: for ever).

    timer -- a function that returns the time in seconds, never running backwards
    """

    def __init__(self, maxsize=128, ttl=None, timer=time.monotonic):
        if maxsize < 1:
            raise ValueError("maxsize must be 1 or more, not %r" % maxsize)
        if ttl is not None and ttl <= 0:
            raise ValueError("ttl must be positive or None, not %r" % ttl)
        self.maxsize = maxsize
        self.ttl = ttl
        self.stats = Stats()
        self._timer = timer
        self._entries = OrderedDict()  # key -> (value, deadline); the one used last is at the end

    def _expired(self, deadline):
        return deadline is not None and self._timer() >= deadline

    def __getitem__(self, key):
        try:
            value, deadline = self._entries[key]
        except KeyError:
            self.stats.misses += 1
            raise
        if self._expired(deadline):
            del self._entries[key]
            self.stats.expirations += 1
            self.stats.misses += 1
            raise KeyError(key)
        self._entries.move_to_end(key)
        self.stats.hits += 1
        return value

    def __setitem__(self, key, value):
        deadline = None if self.ttl is None else self._timer() + self.ttl
        if key not in self._entries and len(self._entries) >= self.maxsize:
            self._entries.popitem(last=False)
            self.stats.evictions += 1
        self._entries[key] = (value, deadline)

    def __delitem__(self, key):
        del self._entries[key]

    def __contains__(self, key):
        """Whether the key is there and fresh; no use and no lookup."""
        entry = self._entries.get(key)
        return entry is not None and not self._expired(entry[1])

    def __iter__(self):
        """The fresh keys, the one used the longest time ago first."""
        return iter([key for key, (_, deadline) in self._entries.items() if not self._expired(deadline)])

    def __len__(self):
        return sum(1 for _ in self)

    def purge(self):
        """Drop everything that has expired; returns how much that was."""
        stale = [key for key, (_, deadline) in self._entries.items() if self._expired(deadline)]
        for key in stale:
            del self._entries[key]
        self.stats.expirations += len(stale)
        return len(stale)
