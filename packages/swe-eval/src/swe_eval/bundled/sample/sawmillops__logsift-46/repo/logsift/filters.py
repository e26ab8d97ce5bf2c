"""Which records are wanted."""

import fnmatch

from .record import LEVELS


class Filter:
    """True for records of at least `level`, in the half-open time from `since` to `until`, of loggers like `logger`."""

    def __init__(self, level="DEBUG", since=None, until=None, logger="*"):
        if level not in LEVELS:
            raise ValueError("unknown level %r; there are %s" % (level, ", ".join(LEVELS)))
        self.severity = LEVELS[level]
        self.since = since
        self.until = until
        self.logger = logger

    def __call__(self, record):
        return (
            record.severity >= self.severity
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
            and fnmatch.fnmatchcase(record.logger, self.logger)
        )
