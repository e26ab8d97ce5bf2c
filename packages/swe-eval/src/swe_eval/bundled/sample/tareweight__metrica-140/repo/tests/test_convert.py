import unittest
from fractions import Fraction

from metrica import DimensionError, convert


class ConvertTest(unittest.TestCase):
    def test_speed(self):
        self.assertEqual(convert(36, "km/h", "m/s"), 10)

    def test_imperial(self):
        self.assertEqual(convert(1, "ft", "in"), 12)
        self.assertEqual(convert(1, "mi", "ft"), 5280)

    def test_fraction(self):
        self.assertEqual(convert(1, "s", "h"), Fraction(1, 3600))

    def test_derived(self):
        self.assertEqual(convert(1, "bar", "N/m^2"), 100000)
        self.assertEqual(convert(1, "kW h", "MJ"), Fraction(36, 10))

    def test_different_dimensions(self):
        self.assertRaises(DimensionError, convert, 1, "m", "s")


if __name__ == "__main__":
    unittest.main()
