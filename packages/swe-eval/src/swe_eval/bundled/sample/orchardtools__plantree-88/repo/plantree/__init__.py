"""In which order do packages have to be installed?"""

from .errors import CycleError, MissingError, PlantreeError
from .graph import Graph
from .order import install_order, levels
from .requirement import Requirement
from .version import Version

__version__ = "2.0.4"
__all__ = [
    "CycleError",
    "Graph",
    "MissingError",
    "PlantreeError",
    "Requirement",
    "Version",
    "install_order",
    "levels",
]
