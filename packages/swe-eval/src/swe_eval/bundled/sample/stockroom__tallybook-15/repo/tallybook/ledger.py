"""The ledger: entries, and what follows from them."""

from decimal import Decimal

from .entries import Entry, as_date
from .errors import LedgerError, NotEnoughError
from .money import money, split

ZERO = Decimal("0.00")


class Ledger:
    def __init__(self):
        self.entries = []
        self._stock = {}  # item -> (quantity, average cost of one piece)

    def items(self):
        """The names of all items that were ever received, sorted."""
        return sorted(self._stock)

    def quantity(self, item):
        return self._stock.get(item, (0, ZERO))[0]

    def value(self, item):
        """What the pieces of an item that are there are worth."""
        quantity, average = self._stock.get(item, (0, ZERO))
        return money(quantity * average)

    def total_value(self):
        return sum((self.value(item) for item in self._stock), ZERO)

    def _book(self, date, item, kind, quantity, value):
        self.entries.append(Entry(as_date(date), item, kind, quantity, value))

    def receive(self, item, quantity, total, date):
        """Book goods that came in for `total`, the price of all pieces together."""
        total = money(total)
        if quantity < 1 or total < 0:
            raise LedgerError("%s: a receipt needs a positive quantity and no negative price" % item)
        there = self.quantity(item) + quantity
        average = money((self.value(item) + total) / there)
        self._stock[item] = (there, average)
        self._book(date, item, "receive", quantity, total)

    def issue(self, item, quantity, date):
        """Book goods that left; returns their cost."""
        there, average = self._stock.get(item, (0, ZERO))
        if quantity < 1:
            raise LedgerError("%s: an issue needs a positive quantity" % item)
        if quantity > there:
            raise NotEnoughError(item, quantity, there)
        cost = money(quantity * average)
        self._stock[item] = (there - quantity, average)
        self._book(date, item, "issue", -quantity, -cost)
        return cost

    def adjust_value(self, date, amount):
        """Spread an amount (freight, a discount when negative) over all items in stock, by their value."""
        amount = money(amount)
        items = [item for item in self.items() if self.value(item) > 0]
        if not items:
            raise LedgerError("nothing in stock to spread %s over" % amount)
        if amount < -self.total_value():
            raise LedgerError("%s is more than the stock is worth" % -amount)
        values = [self.value(item) for item in items]
        for item, part in zip(items, split(amount, values)):
            quantity, _ = self._stock[item]
            self._stock[item] = (quantity, money((self.value(item) + part) / quantity))
            self._book(date, item, "adjust", 0, part)
