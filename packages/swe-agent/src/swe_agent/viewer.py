"""Runs for the eye: steps as they come, whole records, patches. Lines of plain text where the output is no terminal.

What models and commands wrote is shown without its control characters, so that no record can play with the terminal.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from swe_agent.models import Message, ToolCall
from swe_agent.observation import clean_text, is_binary
from swe_agent.trajectory import AgentStatus, Step, Trajectory

LINES_SHOWN = 16
"""Lines of a thought, a command or an output before the middle is left out."""
DIFFERENCE_SHOWN = 60
"""Lines of a difference before the rest is left out."""

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_DIFF_HEADS = ("diff --git", "+++ ", "--- ")
_DIFF_NOTES = ("index ", "new file", "deleted file", "rename ", "similarity ", "old mode", "new mode")


def make_console(file: TextIO) -> Console:
    """A console that prints text as it is: no markup, no emoji, no guessed highlights."""
    return Console(file=file, markup=False, emoji=False, highlight=False)


def print_step(console: Console, step: Step, full: bool = False) -> None:
    """One step: how it went, what the model thought, what was run, what came out."""
    _header(console, step)
    if step.reasoning and full:
        _block(console, step.reasoning, "dim italic", full, "~ ")
    thought = step.response if step.action is None else step.response.split("```")[0].split("~~~")[0]
    _block(console, thought, "italic" if console.is_terminal else "", full)
    if step.action is not None:
        _command(console, step.action, full)
    else:
        for call in step.tool_calls:
            _block(console, _call_line(call), "cyan", full, "? ")
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
    """A whole record: summary, steps, patch, and the summary again where the reader has arrived."""
    print_summary(console, trajectory)
    console.print()
    if full:
        print_messages(console, trajectory.messages[:2])
    for step in trajectory.steps:
        print_step(console, step, full)
    print_patch(console, trajectory.patch)
    if console.is_terminal:
        console.print()
        print_summary(console, trajectory)


def print_errors(console: Console, trajectory: Trajectory, full: bool = False) -> None:
    """Only the steps that did not go well, and how many the others are."""
    print_summary(console, trajectory)
    console.print()
    failed = [step for step in trajectory.steps if went_wrong(step)]
    for step in failed:
        print_step(console, step, full)
    rest = len(trajectory.steps) - len(failed)
    _line(console, f"{_count(len(failed), 'step')} of {len(trajectory.steps)} went wrong, {rest} went well", "bold")


def went_wrong(step: Step) -> bool:
    """Whether a step was refused, had no result, ran into its time limit, or exited with a code other than 0."""
    return step.error is not None or step.returncode != 0 or step.timed_out


def print_messages(console: Console, messages: Sequence[Message]) -> None:
    """Messages as a model saw them, whole, with their number, role and length."""
    for number, message in enumerate(messages, 1):
        content = message["content"]
        _line(console, f"{number}  {message['role']}  {_count(len(content), 'character')}", "bold cyan")
        _block(console, content, "", True, "> ")
        for call in message.get("tool_calls", []):
            _block(console, _call_line(call), "cyan", True, "? ")
        console.print()


def print_patch(console: Console, patch: bytes) -> None:
    """A patch with coloured lines; for reading, as control characters are left out."""
    lines = clean_text(patch.decode("utf-8", "replace")).splitlines()
    if lines and console.is_terminal:
        console.print(Rule(Text.assemble(("patch", "bold"), _size(lines)), align="left", style="cyan"))
    for line in lines:
        style = "bold" if line.startswith(_DIFF_HEADS) else "dim" if line.startswith(_DIFF_NOTES) else ""
        _line(console, line, style or _DIFF_STYLES.get(line[:1], ""))


def _size(lines: Sequence[str]) -> Text:
    """How many files a patch changes, and by how many lines."""
    files = sum(line.startswith("diff --git") for line in lines)
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return Text.assemble(f"  {_count(files, 'file')}  ", (f"+{added}", "green"), " ", (f"-{removed}", "red"), " ")


def write_patch(patch: bytes) -> None:
    """A patch on standard output: for the eye in a terminal, byte by byte anywhere else."""
    if sys.stdout.isatty():
        print_patch(make_console(sys.stdout), patch)
    else:
        sys.stdout.buffer.write(patch)
        sys.stdout.buffer.flush()


def print_runs(console: Console, runs: Iterable[tuple[str, Trajectory]]) -> None:
    """A table of runs by directory name."""
    table = Table("run", "status", "steps", "seconds", "patch", "error", box=None)
    for name, run in runs:
        cells = (str(len(run.steps)), f"{run.elapsed:.1f}", f"{len(run.patch)} ({run.patch_source})")
        table.add_row(name, run.status.value, *cells, clean_text(run.error))
    console.print(table)


def print_difference(console: Console, step: int, action: str, what: str, lines: Iterable[str]) -> None:
    """Where a replay left its record."""
    _line(console, f"step {step}: the {what} differs", "bold red")
    _command(console, action, False)
    shown = list(lines)
    for line in shown[:DIFFERENCE_SHOWN]:
        plain = clean_text(line)
        _line(console, plain, "bold" if plain.startswith(("+++ ", "--- ")) else _DIFF_STYLES.get(plain[:1], ""))
    if len(shown) > DIFFERENCE_SHOWN:
        _line(console, f"... {len(shown) - DIFFERENCE_SHOWN} more lines of difference ...", "dim")


def _header(console: Console, step: Step) -> None:
    times = f"model {step.model_s:.1f} s  command {step.exec_s:.1f} s"
    bad = step.error is not None or step.returncode is None or step.timed_out
    style = "red" if bad else "green" if step.returncode == 0 else "yellow"
    if not console.is_terminal:
        _line(console, f"step {step.index}  {_outcome(step)}  {times}")
        return
    title = Text.assemble(
        (f"{step.index}", "bold"), ("  ", ""), (_outcome(step), f"bold {style}"), (f"  {times} ", "dim")
    )
    console.print(Rule(title, align="left", style=style, characters="─"))


def _outcome(step: Step) -> str:
    if step.error is not None:
        noun = "call" if step.tool_calls else "block"
        return f"nothing run: {step.error}, {_count(step.found or 0, noun)}"
    if step.returncode is None:
        return "no result"
    return "timed out" if step.timed_out else f"exit {step.returncode}"


def _call_line(call: ToolCall) -> str:
    return f"{call['function']['name']}({call['function']['arguments']})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _command(console: Console, action: str, full: bool) -> None:
    """A command, highlighted as bash in a terminal; lines after the first are set in."""
    lines = _shortened(clean_text(action), full)
    if not console.is_terminal:
        for number, line in enumerate(lines):
            _line(console, ("  " if number else "$ ") + line)
        return
    syntax = Syntax("", "bash", theme="ansi_dark", background_color="default")
    highlighted = syntax.highlight("\n".join(lines)).split("\n")
    for number, text in enumerate(highlighted[: len(lines)]):
        console.print(Text.assemble(("  " if number else "$ ", "bold cyan"), text), soft_wrap=True)


def _shortened(text: str, full: bool) -> list[str]:
    lines = text.strip("\n").split("\n")
    if full or len(lines) <= LINES_SHOWN:
        return lines
    half = LINES_SHOWN // 2
    return [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]


def _block(console: Console, text: str, style: str, full: bool, prefix: str = "") -> None:
    lines = _shortened(clean_text(text), full)
    if lines == [""]:
        return
    bar = Text("│ " if prefix == "| " else prefix, "cyan" if prefix == "? " else "bright_black")
    for line in lines:
        if console.is_terminal and prefix:
            left_out = not full and line.startswith("... ") and line.endswith(" lines ...")
            console.print(Text.assemble(bar, (line, "dim" if left_out else style)), soft_wrap=True)
        else:
            _line(console, prefix + line, style)


def _line(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style), soft_wrap=True)
