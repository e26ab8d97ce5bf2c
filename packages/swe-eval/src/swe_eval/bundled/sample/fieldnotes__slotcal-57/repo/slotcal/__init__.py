"""Calendars as plain data."""

from .calendar import Calendar, Event
from .intervals import Interval, merge, subtract
from .recurrence import Daily, Monthly, Weekly

__version__ = "0.9.2"
__all__ = ["Calendar", "Daily", "Event", "Interval", "Monthly", "Weekly", "merge", "subtract"]
