"""Small configuration files with references."""

from .config import Config, Section
from .errors import ConfettiError, InterpolationError, ParseError
from .reader import load, loads
from .writer import dumps

__version__ = "2.3.0"

__all__ = [
    "Config",
    "ConfettiError",
    "InterpolationError",
    "ParseError",
    "Section",
    "dumps",
    "load",
    "loads",
]
