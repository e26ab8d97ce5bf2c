"""From one unit to another."""

from fractions import Fraction

from .errors import DimensionError
from .parser import parse_unit


def convert(value, source, target):
    """`value` in `source` units as a Fraction in `target` units. Raises UnitError and DimensionError."""
    from_unit, to_unit = parse_unit(source), parse_unit(target)
    if from_unit.dimension != to_unit.dimension:
        raise DimensionError("%s and %s do not measure the same" % (source, target))
    return Fraction(value) * from_unit.factor / to_unit.factor
