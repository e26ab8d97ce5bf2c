import unittest
from decimal import Decimal

from tallybook import money, split


class MoneyTest(unittest.TestCase):
    def test_half_even(self):
        self.assertEqual([money("0.125"), money("0.135")], [Decimal("0.12"), Decimal("0.14")])

    def test_no_floats(self):
        self.assertRaises(TypeError, money, 0.1)

    def test_split_evenly(self):
        self.assertEqual(split("9.00", [1, 1, 1]), [Decimal("3.00")] * 3)

    def test_split_by_weight(self):
        self.assertEqual(split("10.00", [1, 3]), [Decimal("2.50"), Decimal("7.50")])

    def test_split_zero_weight(self):
        self.assertEqual(split("5.00", [0, 2]), [Decimal("0.00"), Decimal("5.00")])

    def test_split_bad_weights(self):
        self.assertRaises(ValueError, split, "1", [0, 0])
        self.assertRaises(ValueError, split, "1", [2, -1])


if __name__ == "__main__":
    unittest.main()
