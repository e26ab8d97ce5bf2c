"""Runs in the terminal: steps as they come, whole records, patches. Plain text where the output is no terminal.

What models and commands wrote is shown without its control characters, so that no record can play with the terminal.
"""

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from swe_agent.observation import clean_text, is_binary
from swe_agent.trajectory import AgentStatus, Step, Trajectory

LINES_SHOWN = 16
"""Lines of a thought, a command or an output before the middle is left out."""


def make_console(file: TextIO) -> Console:
    """A console that prints text as it is: no markup, no emoji, no guessed highlights."""
    return Console(file=file, markup=False, emoji=False, highlight=False)


def print_step(console: Console, step: Step, full: bool = False) -> None:
    """One step: how it went, what the model thought, what was run, what came out."""
    style = "bold red" if step.error or step.returncode is None else "bold green" if step.returncode == 0 else "yellow"
    header = f"step {step.index}  {_outcome(step)}  model {step.model_s:.1f} s  command {step.exec_s:.1f} s"
    _line(console, header, style)
    if step.reasoning and full:
        _block(console, step.reasoning, "dim", full, "~ ")
    thought = step.response if step.action is None else step.response.split("```")[0].split("~~~")[0]
    _block(console, thought, "italic", full)
    if step.action is not None:
        _block(console, step.action, "bold cyan", full, "$ ")
    output = f"({step.output_bytes} bytes, binary)" if is_binary(step.output) else step.output
    _block(console, output, "", full, "| ")
    if full and step.observation:
        _block(console, step.observation, "dim", full, "> ")
    console.print()


def print_summary(console: Console, trajectory: Trajectory) -> None:
    """The last words on a run, in one or two lines."""
    good = trajectory.status is AgentStatus.SUBMITTED
    parts = [
        trajectory.status.value,
        _count(len(trajectory.steps), "step"),
        f"{trajectory.elapsed:.1f} s",
        f"patch of {_count(len(trajectory.patch), 'byte')} ({trajectory.patch_source})",
    ]
    if trajectory.completion_tokens:
        parts.append(f"{trajectory.prompt_tokens} tokens read, {trajectory.completion_tokens} written")
    _line(console, f"{trajectory.instance_id}: " + ", ".join(parts), "bold green" if good else "bold yellow")
    if trajectory.error:
        _line(console, clean_text(trajectory.error), "red")


def print_trajectory(console: Console, trajectory: Trajectory, full: bool = False) -> None:
    """A whole record: summary, steps, patch."""
    print_summary(console, trajectory)
    console.print()
    if full:
        for message in trajectory.messages[:2]:
            _line(console, message["role"], "bold")
            _block(console, message["content"], "dim", full, "> ")
            console.print()
    for step in trajectory.steps:
        print_step(console, step, full)
    print_patch(console, trajectory.patch)


def print_patch(console: Console, patch: bytes) -> None:
    """A patch with coloured lines; for reading, as control characters are left out."""
    for line in clean_text(patch.decode("utf-8", "replace")).splitlines():
        first = line[:1]
        style = {"+": "green", "-": "red", "@": "cyan"}.get(first, "")
        _line(console, line, "bold" if line.startswith(("diff --git", "+++ ", "--- ")) else style)


def print_runs(console: Console, runs: Iterable[tuple[str, Trajectory]]) -> None:
    """A table of runs by directory name."""
    table = Table("run", "status", "steps", "seconds", "patch", "error", box=None)
    for name, run in runs:
        cells = (str(len(run.steps)), f"{run.elapsed:.1f}", f"{len(run.patch)} ({run.patch_source})")
        table.add_row(name, run.status.value, *cells, clean_text(run.error))
    console.print(table)


def _outcome(step: Step) -> str:
    if step.error is not None:
        return f"nothing run: {step.error}, {_count(step.found or 0, 'block')}"
    if step.returncode is None:
        return "no result"
    return "timed out" if step.timed_out else f"exit {step.returncode}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _block(console: Console, text: str, style: str, full: bool, prefix: str = "") -> None:
    lines = clean_text(text).strip("\n").split("\n")
    if lines == [""]:
        return
    if not full and len(lines) > LINES_SHOWN:
        half = LINES_SHOWN // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    for line in lines:
        _line(console, prefix + line, style)


def _line(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style), soft_wrap=True)
