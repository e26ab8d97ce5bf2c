"""What the hooks are told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """A failed call that will be repeated: its number (from 1), its exception, and the pause that follows."""

    number: int
    error: BaseException
    pause: float


@dataclass(frozen=True)
class GaveUp:
    """The last call failed as well."""

    attempts: int
    error: BaseException
