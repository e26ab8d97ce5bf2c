"""Lines -> records."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import List

LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
FIRST_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d+)?\s+(?P<level>[A-Z]+)\s+(?P<logger>[\w.-]+)\s+(?P<message>.*)"
)


@dataclass
class Record:
    time: datetime
    level: str
    logger: str
    message: str
    extra: List[str] = field(default_factory=list)  # the lines that follow, as they are

    @property
    def severity(self):
        return LEVELS.get(self.level, 0)

    def __str__(self):
        first = "%s %-8s %-9s %s" % (self.time.isoformat(), self.level, self.logger, self.message)
        return "\n".join([first] + ["  " + line for line in self.extra])


def parse_records(lines):
    """Yield the records of an iterable of lines. Lines before the first record are left out."""
    record = None
    for line in lines:
        line = line.rstrip("\r\n")
        match = FIRST_LINE.fullmatch(line)
        if match:
            if record is not None:
                yield record
            time = datetime.fromisoformat(match.group("time"))
            record = Record(time, match.group("level"), match.group("logger"), match.group("message"))
        elif record is not None:
            record.extra.append(line)
    if record is not None:
        yield record
