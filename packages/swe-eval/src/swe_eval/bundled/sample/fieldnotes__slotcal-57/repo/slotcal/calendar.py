"""Events, and what they leave free."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Optional

from .intervals import Interval, subtract
from .recurrence import Rule


@dataclass(frozen=True)
class Event:
    """Something that takes `minutes` from `start`, once or by a rule."""

    title: str
    start: datetime
    minutes: int
    rule: Optional[Rule] = None

    def intervals(self, window: Interval):
        """The occurrences that overlap `window`, in order."""
        length = timedelta(minutes=self.minutes)
        starts = [self.start] if self.rule is None else self.rule.starts(self.start)
        for start in starts:
            if start >= window.end:
                return
            interval = Interval(start, start + length)
            if interval.overlaps(window):
                yield interval


class Calendar:
    def __init__(self):
        self.events = []

    def add(self, event: Event):
        self.events.append(event)

    def occurrences(self, window: Interval):
        """(interval, title) of everything that overlaps `window`, by time and title."""
        found = [(interval, event.title) for event in self.events for interval in event.intervals(window)]
        return sorted(found)

    def free(self, window: Interval, minutes: int = 0):
        """The free intervals of `window` that last `minutes` or more."""
        taken = [interval for interval, _ in self.occurrences(window)]
        shortest = timedelta(minutes=minutes)
        return [gap for gap in subtract(window, taken) if gap.duration >= shortest]
