"""Differences between nested dicts."""

from .changes import Add, Change, Remove, diff, patch
from .errors import MergeConflict, PatchError
from .merge import merge
from .serial import from_json, to_json

__version__ = "0.3.0"
__all__ = [
    "Add",
    "Change",
    "MergeConflict",
    "PatchError",
    "Remove",
    "diff",
    "from_json",
    "merge",
    "patch",
    "to_json",
]
