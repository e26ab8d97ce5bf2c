"""Two runs side by side: which instances both, one or neither resolved, and whether the difference may be chance.

Only runs over the same data, graded by the same rules, are compared, unless the caller insists.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from swe_exec_server.common.errors import UsageError, one_line

from swe_eval.results import SUMMARY, AttemptResult, read_results
from swe_eval.run_directory import RUN_FILE
from swe_eval.stats import Interval, mcnemar_exact, paired_bootstrap, wilson_interval


@dataclass(frozen=True)
class Run:
    """A finished run. `files` maps the data's files to their SHA-256; rows are the first attempts, by instance id."""

    directory: Path
    model: str
    files: Mapping[str, str]
    rows: Mapping[str, AttemptResult]

    @property
    def resolved(self) -> frozenset[str]:
        return frozenset(name for name, row in self.rows.items() if row.resolved)


@dataclass(frozen=True)
class Comparison:
    """Instance ids by outcome, the exact McNemar p, and the interval of the difference in resolve rate."""

    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    neither: tuple[str, ...]
    p: float
    difference: float
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        return {
            "both": list(self.both),
            "only_first": list(self.only_first),
            "only_second": list(self.only_second),
            "neither": list(self.neither),
            "mcnemar_p": self.p,
            "difference": self.difference,
            "interval95": [self.interval.low, self.interval.high],
        }


def read_run(directory: Path) -> Run:
    """A run's directory. Raises `UsageError` when it holds no finished run."""
    try:
        summary = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
        identity = json.loads((directory / RUN_FILE).read_text(encoding="utf-8"))["identity"]
        rows = {row.instance_id: row for row in read_results(directory) if row.attempt == 0}
        return Run(directory, str(summary["model"]), dict(identity.get("files", {})), rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{directory} holds no finished run ({one_line(error)})") from error


def compare(first: Run, second: Run, *, force: bool = False) -> Comparison:
    """Compare two runs; with `force` over the instances that both have. Raises `UsageError` for different data."""
    if not force:
        _refuse_different(first, second)
    names = [name for name in first.rows if name in second.rows]
    if not names:
        raise UsageError(f"{first.directory} and {second.directory} have no instance in common")
    a, b = first.resolved, second.resolved
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name in names:
        groups.setdefault((name in a, name in b), []).append(name)
    only_first, only_second = groups.get((True, False), []), groups.get((False, True), [])
    values_a = [float(name in a) for name in names]
    values_b = [float(name in b) for name in names]
    return Comparison(
        both=tuple(groups.get((True, True), [])),
        only_first=tuple(only_first),
        only_second=tuple(only_second),
        neither=tuple(groups.get((False, False), [])),
        p=mcnemar_exact(len(only_first), len(only_second)),
        difference=(sum(values_b) - sum(values_a)) / len(names),
        interval=paired_bootstrap(values_a, values_b),
    )


def _refuse_different(first: Run, second: Run) -> None:
    if sorted(first.files.values()) != sorted(second.files.values()):
        raise UsageError(
            f"{first.directory} and {second.directory} are over different data; --force compares what both have"
        )
    if set(first.rows) != set(second.rows):
        missing = sorted(set(first.rows) ^ set(second.rows))[0]
        raise UsageError(f"{missing} is in one of the runs only; --force compares what both have")


def show(first: Run, second: Run, comparison: Comparison, console: Console) -> None:
    """The comparison for a person."""
    table = Table(box=None, pad_edge=False)
    for name in ("run", "model", "resolved", "rate", "95 %"):
        table.add_column(name, justify="left" if name in {"run", "model"} else "right")
    for run in (first, second):
        count, total = len(run.resolved), len(run.rows)
        bounds = wilson_interval(count, total)
        rate = f"{count / total:.1%}" if total else "-"
        table.add_row(str(run.directory), run.model, f"{count}/{total}", rate, f"{bounds.low:.1%} to {bounds.high:.1%}")
    console.print(table)
    sizes = {"both": comparison.both, "only the first": comparison.only_first,
             "only the second": comparison.only_second, "neither": comparison.neither}  # fmt: skip
    console.print("  ".join(f"{name} {len(ids)}" for name, ids in sizes.items()), highlight=False)
    bounds = comparison.interval
    console.print(
        f"difference {comparison.difference:+.1%} (95 % {bounds.low:+.1%} to {bounds.high:+.1%}), "
        f"McNemar's exact p {comparison.p:.3g}",
        highlight=False,
        soft_wrap=True,
    )
    for name, ids in (("only the first", comparison.only_first), ("only the second", comparison.only_second)):
        if ids:
            console.print(f"{name}: {', '.join(ids)}", highlight=False, soft_wrap=True)
