"""Half-open intervals of time."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, order=True)
class Interval:
    """The time from `start` (included) to `end` (not included)."""

    start: datetime
    end: datetime

    def __post_init__(self):
        if self.end < self.start:
            raise ValueError("interval ends (%s) before it starts (%s)" % (self.end, self.start))

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    def overlaps(self, other: "Interval") -> bool:
        return self.start < other.end and other.start < self.end

    def clip(self, other: "Interval") -> "Interval":
        """The part of this interval that lies in `other`; they must overlap."""
        return Interval(max(self.start, other.start), min(self.end, other.end))


def merge(intervals):
    """Sorted, disjoint intervals that cover the same time; those that touch become one."""
    result = []
    for interval in sorted(intervals):
        if result and interval.start <= result[-1].end:
            last = result.pop()
            interval = Interval(last.start, max(last.end, interval.end))
        result.append(interval)
    return result


def subtract(whole, taken):
    """What is left of the interval `whole` when the intervals `taken` are cut out."""
    left = []
    position = whole.start
    for interval in merge(taken):
        if not interval.overlaps(whole):
            continue
        if interval.start > position:
            left.append(Interval(position, interval.start))
        position = max(position, interval.end)
    if position < whole.end:
        left.append(Interval(position, whole.end))
    return left
