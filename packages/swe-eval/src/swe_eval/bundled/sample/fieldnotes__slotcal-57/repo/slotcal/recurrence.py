"""Rules that say when an event happens again."""

import calendar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Iterator, Optional


def add_months(moment: datetime, months: int) -> datetime:
    """The same day `months` later, or the last day of that month where it is shorter."""
    index = moment.year * 12 + (moment.month - 1) + months
    year, month = divmod(index, 12)
    month += 1
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day)


@dataclass(frozen=True)
class Rule:
    """Base of all rules. Without `count` and `until` a rule never ends."""

    every: int = 1
    count: Optional[int] = None
    until: Optional[datetime] = None

    def __post_init__(self):
        if self.every < 1:
            raise ValueError("every must be 1 or more, not %r" % self.every)
        if self.count is not None and self.until is not None:
            raise ValueError("give count or until, not both")

    def step(self, moment: datetime) -> datetime:
        raise TypeError("use Daily, Weekly or Monthly")

    def starts(self, first: datetime) -> Iterator[datetime]:
        """All starts in order, beginning with `first`."""
        moment = first
        number = 0
        while self.count is None or number < self.count:
            if self.until is not None and moment > self.until:
                return
            yield moment
            number += 1
            moment = self.step(moment)


class Daily(Rule):
    def step(self, moment):
        return moment + timedelta(days=self.every)


class Weekly(Rule):
    def step(self, moment):
        return moment + timedelta(weeks=self.every)


class Monthly(Rule):
    def step(self, moment):
        return add_months(moment, self.every)
