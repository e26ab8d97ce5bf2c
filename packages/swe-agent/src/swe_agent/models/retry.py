"""When to try a request again, and after how long. Pure: no clock, no sleeping."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
FIRST_DELAY = 0.5
LONGEST_DELAY = 20.0


def is_transient(status: int) -> bool:
    """Whether an HTTP status may be different next time."""
    return status in RETRIED_STATUSES or status >= 500


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for (a number or an HTTP date); None when it says nothing usable."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


def backoff_seconds(attempt: int, random_source: random.Random) -> float:
    """Exponential backoff with jitter: between half and all of 0.5 s * 2^attempt, at most 20 s; `attempt` from 0."""
    ceiling = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempt, 16))
    return ceiling * (0.5 + 0.5 * random_source.random())
