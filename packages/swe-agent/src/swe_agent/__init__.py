"""A step-limited coding agent: one bash command per turn, its observation, and a patch at the end."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("swe-agent")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0.0.0"
