"""What a ledger is made of."""

from dataclasses import dataclass
from datetime import date as Date
from decimal import Decimal


@dataclass(frozen=True)
class Entry:
    """One booking of one item. Quantity and value are negative for what leaves."""

    date: Date
    item: str
    kind: str  # "receive", "issue" or "adjust"
    quantity: int
    value: Decimal


def as_date(value):
    """A date as it is, or from a text like 2024-02-01."""
    return value if isinstance(value, Date) else Date.fromisoformat(value)
