"""What can be wrong with a unit."""


class UnitError(ValueError):
    """A text that is no unit."""


class DimensionError(ValueError):
    """Two units that do not measure the same."""
