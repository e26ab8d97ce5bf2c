"""What a person sees of a run: a live board while it goes, a table at the end; plain lines where no terminal is."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from swe_agent.trajectory import Step

from swe_eval.results import AttemptResult
from swe_eval.stats import wilson_interval
from swe_eval.verdicts import VerdictClass

SHOWN_ATTEMPTS = 16
BAR_WIDTH = 60
COLOURS: Mapping[VerdictClass, str] = {
    VerdictClass.RESOLVED: "green",
    VerdictClass.INFRA_ERROR: "magenta",
    VerdictClass.AGENT_ERROR: "magenta",
    VerdictClass.NOT_RUN: "bright_black",
}
"""Everything else is the model's failure."""
FAILURE_COLOUR = "red"


def colour(kind: VerdictClass) -> str:
    return COLOURS.get(kind, FAILURE_COLOUR)


class Board:
    """A `Watcher` that draws what runs now and counts what has ended."""

    def __init__(self, console: Console, total: int, earlier: Sequence[AttemptResult], step_limit: int) -> None:
        self._console = console
        self._total = total
        self._done: Counter[VerdictClass] = Counter(row.class_ for row in earlier)
        self._step_limit = step_limit
        self._running: dict[str, tuple[str, int, float]] = {}
        self._started = time.monotonic()
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def phase(self, instance_id: str, phase: str) -> None:
        _, step, since = self._running.get(instance_id, ("", 0, time.monotonic()))
        self._running[instance_id] = (phase, step, since)

    def step(self, instance_id: str, step: Step) -> None:
        phase, _, since = self._running.get(instance_id, ("agent", 0, time.monotonic()))
        self._running[instance_id] = (phase, step.index, since)

    def result(self, row: AttemptResult) -> None:
        """An attempt has ended."""
        self._running.pop(row.instance_id, None)
        self._done[row.class_] += 1
        if not self._console.is_terminal:
            count = f"{self._done.total()}/{self._total}"
            self._console.print(Text(f"{count} {row.instance_id}: {row.class_.value}"), soft_wrap=True)

    def _draw(self) -> RenderableType:
        ended = self._done.total()
        head = Text.assemble(
            (f"{ended}/{self._total} ", "bold"),
            (f"{self._done[VerdictClass.RESOLVED]} resolved ", "green"),
            f"{time.monotonic() - self._started:.0f} s",
        )
        table = Table.grid(padding=(0, 2))
        for instance_id, (phase, step, since) in list(self._running.items())[:SHOWN_ATTEMPTS]:
            where = f"step {step}/{self._step_limit}" if phase == "agent" else phase
            table.add_row(instance_id, where, f"{time.monotonic() - since:.0f} s")
        if len(self._running) > SHOWN_ATTEMPTS:
            table.add_row(f"and {len(self._running) - SHOWN_ATTEMPTS} more")
        bar = Table.grid()  # a bar alone ends no line
        bar.add_row(ProgressBar(total=self._total, completed=ended, width=BAR_WIDTH))
        return Group(head, bar, table)


def results_table(rows: Sequence[AttemptResult]) -> Table:
    """One line an attempt."""
    table = Table(box=None, pad_edge=False)
    for name, justify in (("instance", "left"), ("class", "left"), ("f2p", "right"), ("p2p", "right"),
                          ("steps", "right"), ("s", "right"), ("ended", "left")):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=name != "ended")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            row.instance_id,
            Text(row.class_.value, colour(row.class_)),
            _share(row.f2p),
            _share(row.p2p),
            str(row.n_steps),
            f"{row.elapsed:.1f}",
            row.exit_status or "-",
        )
    return table


def _share(counts: tuple[int, int]) -> str:
    return f"{counts[0]}/{counts[1]}" if counts[1] else "-"


def closing_lines(rows: Sequence[AttemptResult], directory: str) -> list[Text]:
    """The score, the classes that occurred, and where everything lies."""
    counts = Counter(row.class_ for row in rows)
    resolved = sum(row.resolved for row in rows)
    bounds = wilson_interval(resolved, len(rows))
    score = Text.assemble(
        ("resolved ", "bold"),
        (f"{resolved} of {len(rows)}", "bold green"),
        f" ({resolved / max(1, len(rows)):.1%}, 95 % interval {bounds.low:.1%} to {bounds.high:.1%})",
    )
    classes = Text("  ").join(
        Text(f"{kind.value} {counts[kind]}", colour(kind)) for kind in VerdictClass if counts[kind]
    )
    lines = [score, classes]
    errors = [row for row in rows if row.error and row.class_ in COLOURS and not row.resolved]
    lines += [Text(f"{row.instance_id}: {row.error}", "bright_black") for row in errors[:5]]
    if len(errors) > 5:
        lines.append(Text(f"and {len(errors) - 5} more such lines in results.jsonl", "bright_black"))
    return [*lines, Text(f"results in {directory}")]
