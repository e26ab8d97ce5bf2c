"""Read a rotated log as if it were one file."""

from .filters import Filter
from .reader import read_log
from .record import LEVELS, Record, parse_records
from .rotation import log_parts

__version__ = "1.8.0"
__all__ = ["Filter", "LEVELS", "Record", "log_parts", "parse_records", "read_log"]
