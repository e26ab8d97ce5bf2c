"""The monthly sheet."""

from collections import defaultdict
from decimal import Decimal


def movements(ledger, kind):
    """item -> sum of the values of its entries of one kind."""
    sums = defaultdict(lambda: Decimal("0.00"))
    for entry in ledger.entries:
        if entry.kind == kind:
            sums[entry.item] += entry.value
    return sums


def stock_report(ledger):
    """Lines of text: item, quantity, received, adjusted, issued, value; a total at the end."""
    received, adjusted, issued = (movements(ledger, kind) for kind in ("receive", "adjust", "issue"))
    lines = ["%-12s %6s %10s %10s %10s %10s" % ("item", "pieces", "received", "adjusted", "issued", "value")]
    for item in ledger.items():
        row = (item, ledger.quantity(item), received[item], adjusted[item], issued[item], ledger.value(item))
        lines.append("%-12s %6d %10s %10s %10s %10s" % row)
    lines.append("%-12s %50s" % ("total", ledger.total_value()))
    return lines
