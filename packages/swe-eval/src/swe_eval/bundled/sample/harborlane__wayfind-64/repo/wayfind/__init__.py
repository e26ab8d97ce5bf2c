"""URL routing without a framework."""

from .converters import CONVERTERS, Converter
from .errors import BuildError, NotFound, RuleError
from .router import Match, Router

__version__ = "3.2.0"
__all__ = ["BuildError", "CONVERTERS", "Converter", "Match", "NotFound", "Router", "RuleError"]
