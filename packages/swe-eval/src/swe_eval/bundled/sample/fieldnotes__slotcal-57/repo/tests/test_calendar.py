import unittest
from datetime import datetime

from slotcal import Calendar, Daily, Event, Interval


class CalendarTest(unittest.TestCase):
    def setUp(self):
        self.calendar = Calendar()
        self.calendar.add(Event("stand-up", datetime(2023, 5, 8, 9), 15, Daily()))
        self.calendar.add(Event("review", datetime(2023, 5, 9, 9, 15), 60))
        self.window = Interval(datetime(2023, 5, 9, 8), datetime(2023, 5, 9, 12))

    def test_occurrences(self):
        titles = [title for _, title in self.calendar.occurrences(self.window)]
        self.assertEqual(titles, ["stand-up", "review"])

    def test_free(self):
        gaps = [(gap.start.hour, gap.start.minute, gap.end.hour) for gap in self.calendar.free(self.window)]
        self.assertEqual(gaps, [(8, 0, 9), (10, 15, 12)])

    def test_free_of_a_length(self):
        self.assertEqual(len(self.calendar.free(self.window, minutes=90)), 1)


if __name__ == "__main__":
    unittest.main()
