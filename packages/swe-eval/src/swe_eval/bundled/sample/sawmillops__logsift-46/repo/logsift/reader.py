"""Files -> records."""

from .record import parse_records
from .rotation import log_parts


def read_part(path):
    """The records of one file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from parse_records(file)


def read_log(path):
    """The records of a log with all its parts, from the oldest to the newest. Raises FileNotFoundError if there is none."""
    parts = log_parts(path)
    if not parts:
        raise FileNotFoundError("no log at %s" % path)
    for part in parts:
        yield from read_part(part)
