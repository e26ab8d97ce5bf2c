import unittest
from decimal import Decimal

from tallybook import Ledger, LedgerError, NotEnoughError
from tallybook.report import stock_report


class LedgerTest(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()

    def receive(self, item, quantity, total):
        self.ledger.receive(item, quantity, total, "2024-02-01")

    def issue(self, item, quantity):
        return self.ledger.issue(item, quantity, "2024-02-02")

    def test_average_cost(self):
        self.receive("bolt", 10, "10.00")
        self.receive("bolt", 10, "20.00")
        self.assertEqual(self.issue("bolt", 4), Decimal("6.00"))
        self.assertEqual(self.ledger.value("bolt"), Decimal("24.00"))

    def test_not_enough(self):
        self.receive("bolt", 1, "1.00")
        with self.assertRaisesRegex(NotEnoughError, "bolt: 2 wanted, 1 there"):
            self.issue("bolt", 2)

    def test_refused(self):
        self.assertRaises(LedgerError, self.receive, "bolt", 0, "1.00")
        self.assertRaises(LedgerError, self.receive, "bolt", 1, "-1.00")
        self.assertRaises(LedgerError, self.ledger.adjust_value, "2024-02-29", "1.00")

    def test_adjust(self):
        self.receive("bolt", 10, "10.00")
        self.receive("nut", 10, "30.00")
        self.ledger.adjust_value("2024-02-29", "4.00")
        self.assertEqual(self.ledger.value("bolt"), Decimal("11.00"))
        self.assertEqual(self.ledger.value("nut"), Decimal("33.00"))

    def test_discount(self):
        self.receive("bolt", 2, "10.00")
        self.assertRaises(LedgerError, self.ledger.adjust_value, "2024-02-29", "-10.01")
        self.ledger.adjust_value("2024-02-29", "-1.00")
        self.assertEqual(self.ledger.total_value(), Decimal("9.00"))

    def test_report(self):
        self.receive("bolt", 4, "10.00")
        self.issue("bolt", 1)
        lines = stock_report(self.ledger)
        self.assertEqual(lines[1].split(), ["bolt", "3", "10.00", "0.00", "-2.50", "7.50"])
        self.assertEqual(lines[-1].split(), ["total", "7.50"])


if __name__ == "__main__":
    unittest.main()
