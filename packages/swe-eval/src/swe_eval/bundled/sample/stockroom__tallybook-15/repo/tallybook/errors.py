"""What a ledger refuses."""


class LedgerError(ValueError):
    """A booking that makes no sense."""


class NotEnoughError(LedgerError):
    """More was issued than is there."""

    def __init__(self, item, wanted, there):
        super().__init__("%s: %d wanted, %d there" % (item, wanted, there))
        self.item = item
        self.wanted = wanted
        self.there = there
