"""A run while it goes: each finished step, and below it one line that moves while the model or a command works."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from swe_agent.trajectory import Step
from swe_agent.viewer import print_step


class LiveSteps:
    """A context manager; `step` is the loop's `on_step`. Where the console is no terminal, only steps are printed."""

    def __init__(self, console: Console, model: str, step_limit: int) -> None:
        self._console = console
        self._status = _Status(model, step_limit)
        self._live = Live(self._status, console=console, refresh_per_second=8, transient=True)

    def step(self, step: Step) -> None:
        """Print a finished step; the next one has begun."""
        print_step(self._console, step)
        self._status.next_step(step.index + 1)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


class _Status:
    """The moving line: which step, for how long, of how many, and how long the run has taken."""

    def __init__(self, model: str, step_limit: int) -> None:
        self._model, self._limit = model, step_limit
        self._began = self._step_began = time.monotonic()
        self._number = 1
        self._spinner = Spinner("dots", style="cyan")

    def next_step(self, number: int) -> None:
        self._number, self._step_began = number, time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        now = time.monotonic()
        text = Text.assemble(
            (f"step {self._number} of {self._limit}", "bold"),
            f"  {now - self._step_began:.0f} s",
            (f"   {self._model}, {now - self._began:.0f} s in all", "dim"),
        )
        self._spinner.update(text=text)
        yield self._spinner
