"""CSV in, readable tables out."""

from .columns import Column, columns_of
from .reader import read_table
from .render import render

__version__ = "1.6.0"
__all__ = ["Column", "columns_of", "read_table", "render"]
