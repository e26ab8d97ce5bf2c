"""Call it again, but not too often."""

from .backoff import Backoff
from .decorator import retry
from .outcome import GaveUp, Attempt

__version__ = "1.1.0"
__all__ = ["Attempt", "Backoff", "GaveUp", "retry"]
