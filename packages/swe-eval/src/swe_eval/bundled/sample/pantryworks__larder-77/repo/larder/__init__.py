"""An in-memory cache with a size and a shelf life."""

from .cache import Cache
from .decorator import cached
from .stats import Stats

__version__ = "0.6.3"
__all__ = ["Cache", "Stats", "cached"]
