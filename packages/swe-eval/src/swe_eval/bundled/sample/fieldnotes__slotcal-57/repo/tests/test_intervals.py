import unittest
from datetime import datetime

from slotcal import Interval, merge, subtract


def at(hour, minute=0):
    return datetime(2023, 5, 8, hour, minute)


class IntervalTest(unittest.TestCase):
    def test_half_open(self):
        interval = Interval(at(9), at(10))
        self.assertIn(at(9), interval)
        self.assertNotIn(at(10), interval)

    def test_touching_intervals_do_not_overlap(self):
        self.assertFalse(Interval(at(9), at(10)).overlaps(Interval(at(10), at(11))))

    def test_backwards_interval_is_refused(self):
        with self.assertRaises(ValueError):
            Interval(at(10), at(9))

    def test_merge(self):
        parts = [Interval(at(12), at(13)), Interval(at(9), at(10)), Interval(at(10), at(11))]
        self.assertEqual(merge(parts), [Interval(at(9), at(11)), Interval(at(12), at(13))])

    def test_subtract(self):
        left = subtract(Interval(at(8), at(18)), [Interval(at(9), at(10)), Interval(at(17), at(19))])
        self.assertEqual(left, [Interval(at(8), at(9)), Interval(at(10), at(17))])


if __name__ == "__main__":
    unittest.main()
