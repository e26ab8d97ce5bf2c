"""What ends a run that never hands in: numbers, and the check before each turn. Pure but for the clock."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from swe_agent.actions import ErrorKind
from swe_agent.styles import StyleName
from swe_agent.trajectory import AgentStatus, Step

CHARACTERS_PER_TOKEN = 4
"""Estimate for servers that count no tokens."""


@dataclass(frozen=True)
class LoopSettings:
    """Limits of a run. Times in seconds, None means no limit.

    Attributes:
        step_limit: turns, refused ones included.
        exec_timeout: for one command.
        wall_limit: for the whole run; a command or a request that is under way is cut short.
        max_format_errors: refused responses of one kind (`format`, `truncated`) in a row that end the run.
        token_limit: tokens that the model writes in all; estimated where the server does not tell.
        max_output_chars: characters of a command's output that the model sees.
        max_output_bytes: bytes of it that are kept in the record.
        snapshot_delay: while the model has been thinking for longer than this, one diff is taken as the last known
            state; None takes none.
        snapshot_timeout: for the diff that is tried for after a failure.
        action_style: how the model asks for a command; the model must have been made with the same.
    """

    step_limit: int = 20
    exec_timeout: float = 180.0
    wall_limit: float | None = 1800.0
    max_format_errors: int = 3
    token_limit: int | None = None
    max_output_chars: int = 10000
    max_output_bytes: int = 256 * 1024
    snapshot_delay: float | None = 1.0
    snapshot_timeout: float = 60.0
    action_style: StyleName = "fenced"


class LimitReached(Exception):
    """A limit that ends the run in good order."""

    def __init__(self, status: AgentStatus, detail: str = "") -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail


class StepBudget:
    """What is left of a run that started at `started` (monotonic seconds)."""

    def __init__(self, settings: LoopSettings, started: float) -> None:
        self._settings = settings
        self._deadline = None if settings.wall_limit is None else started + settings.wall_limit

    def seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def check(self, steps: Sequence[Step]) -> None:
        """Raise `LimitReached` when no further turn may start after `steps`."""
        settings = self._settings
        left = self.seconds_left()
        for kind in ("format", "truncated"):
            if refused_in_a_row(steps, kind) >= settings.max_format_errors:
                raise LimitReached(AgentStatus.FORMAT_ERRORS, f"{settings.max_format_errors} {kind} errors in a row")
        if len(steps) >= settings.step_limit:
            raise LimitReached(AgentStatus.STEP_LIMIT)
        if settings.token_limit is not None and tokens_written(steps) >= settings.token_limit:
            raise LimitReached(AgentStatus.TOKEN_LIMIT, f"{settings.token_limit} tokens written")
        if left is not None and left <= 0:
            raise LimitReached(AgentStatus.TIME_LIMIT, f"{settings.wall_limit} s are over")


def refused_in_a_row(steps: Sequence[Step], kind: ErrorKind) -> int:
    """Responses refused for `kind` since the last command that ran; refusals of the other kind do not end the row."""
    count = 0
    for step in reversed(steps):
        if step.error is None:
            break
        count += step.error == kind
    return count


def tokens_written(steps: Sequence[Step]) -> int:
    """Tokens of all responses, as the server told or else a quarter of their characters."""
    return sum(
        len(step.response) // CHARACTERS_PER_TOKEN if step.completion_tokens is None else step.completion_tokens
        for step in steps
    )
