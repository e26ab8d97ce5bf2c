"""A small inventory ledger."""

from .errors import LedgerError, NotEnoughError
from .ledger import Ledger
from .money import money, split

__version__ = "1.3.2"
__all__ = ["Ledger", "LedgerError", "NotEnoughError", "money", "split"]
