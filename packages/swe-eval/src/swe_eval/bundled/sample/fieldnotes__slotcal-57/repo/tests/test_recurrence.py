import itertools
import unittest
from datetime import datetime

from slotcal import Daily, Monthly, Weekly


def days(rule, first, limit=10):
    return [moment.strftime("%m-%d") for moment in itertools.islice(rule.starts(first), limit)]


class RecurrenceTest(unittest.TestCase):
    def test_daily_count(self):
        self.assertEqual(days(Daily(count=3), datetime(2023, 2, 27)), ["02-27", "02-28", "03-01"])

    def test_weekly_until_is_included(self):
        rule = Weekly(every=2, until=datetime(2023, 1, 30))
        self.assertEqual(days(rule, datetime(2023, 1, 2)), ["01-02", "01-16", "01-30"])

    def test_monthly(self):
        self.assertEqual(days(Monthly(count=3), datetime(2023, 11, 15)), ["11-15", "12-15", "01-15"])

    def test_monthly_in_a_short_month(self):
        self.assertEqual(days(Monthly(count=2), datetime(2023, 1, 31)), ["01-31", "02-28"])

    def test_endless(self):
        self.assertEqual(len(days(Daily(), datetime(2023, 1, 1), 50)), 50)

    def test_count_and_until(self):
        with self.assertRaises(ValueError):
            Daily(count=1, until=datetime(2023, 1, 1))


if __name__ == "__main__":
    unittest.main()
