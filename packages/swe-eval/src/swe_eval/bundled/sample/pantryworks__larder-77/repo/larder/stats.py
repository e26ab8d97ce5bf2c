"""Counters of a cache."""


class Stats:
    FIELDS = ("hits", "misses", "evictions", "expirations")

    def __init__(self):
        self.reset()

    def reset(self):
        for field in self.FIELDS:
            setattr(self, field, 0)

    @property
    def hit_rate(self):
        """Hits per lookup, 0.0 before the first one."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0

    def as_dict(self):
        return {field: getattr(self, field) for field in self.FIELDS}

    def __repr__(self):
        return "Stats(%s)" % ", ".join("%s=%d" % item for item in self.as_dict().items())
