"""Glob patterns for paths."""

from .errors import PatternError
from .listing import PatternList, select
from .pattern import Pattern

__version__ = "1.0.0"
__all__ = ["Pattern", "PatternError", "PatternList", "select"]
