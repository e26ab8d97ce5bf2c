"""Quantities with units."""

from .convert import convert
from .errors import DimensionError, UnitError
from .parser import parse_unit
from .unit import Unit

__version__ = "5.1.1"
__all__ = ["DimensionError", "Unit", "UnitError", "convert", "parse_unit"]
