"""`swe-agent replay`: the commands of a recorded run again in a fresh container, and the first difference.

The model is not asked. Exit code, time limit and output of each command are compared as they were recorded, then the
patch. `--normalise` takes out of both outputs first what differs from run to run by nature.
"""

import asyncio
import difflib
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INCOMPLETE, UsageError
from swe_exec_server.sandbox import ExecResult, Sandbox
from swe_exec_server.wire import SandboxError

from swe_agent.containers import lease
from swe_agent.repository import Checkout, has_history, make_checkout
from swe_agent.runs import RecordedRun, Setup, open_run
from swe_agent.settings import ReplaySettings
from swe_agent.trajectory import Step, TrajectoryError
from swe_agent.viewer import make_console, print_difference

_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .{5,20}\d\d:\d\d:\d\d(?: [+-]?\w{3,5})?(?: \d{4})?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2} [ \d]\d (?:\d\d:\d\d| \d{4})"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|us|µs|ns|sec|secs|second|seconds|minutes?)\b"), "<duration>"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "<address>"),
    (re.compile(r"\b(pid|process|PID|Process)([ =:#]+)\d+"), r"\1\2<pid>"),
    (re.compile(r"/tmp/(?:tmp[\w.-]+|pytest-of-\w+/pytest-\d+)"), "<temporary>"),
)


@dataclass(frozen=True)
class Difference:
    """Where a replay first left its record. `recorded` and `now` are texts; `what` says of what."""

    step: int
    action: str
    what: str
    recorded: str
    now: str

    def lines(self) -> Iterator[str]:
        """A unified diff, without line ends."""
        before, after = self.recorded.splitlines(), self.now.splitlines()
        return (line.rstrip("\n") for line in difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=2))


def replay(settings: ReplaySettings) -> int:
    """Run the recorded commands again; exit code 1 when something differs. Raises `UsageError`."""
    try:
        run = open_run(settings.run)
    except TrajectoryError as error:
        raise UsageError(str(error)) from error
    console = make_console(sys.stdout)
    try:
        difference = asyncio.run(_replay(run, _completed(settings, run.setup), console))
    except SandboxError as error:
        raise UsageError(f"the replay was not finished: {error}") from error
    if difference is None:
        return EXIT_DONE
    print_difference(console, difference.step, difference.action, difference.what, difference.lines())
    return EXIT_INCOMPLETE


def normalise(text: str) -> str:
    """`text` with times, durations, addresses, process ids and names of temporary files replaced by their kind."""
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


def compare(step: Step, result: ExecResult, *, exact: bool = True, volatile: bool = False) -> Difference | None:
    """The difference between a recorded step and its command's result now; None when it has no recorded result.

    Args:
        exact: white space at the end of the output counts.
        volatile: outputs are normalised first.
    """
    if step.returncode is None or step.action is None:
        return None
    before = "timed out" if step.timed_out else f"exit {step.returncode}"
    after = "timed out" if result.timed_out else f"exit {result.returncode}"
    if before != after:
        # The output says why, more often than not.
        recorded, now = f"{before}\n{step.output}", f"{after}\n{result.text}"
        return Difference(step.index, step.action, "exit code", recorded, now)
    if step.timed_out:
        return None  # how far a command got is chance
    recorded, now = step.output, result.text
    if not exact:
        recorded, now = recorded.strip(), now.strip()
    if volatile:
        recorded, now = normalise(recorded), normalise(now)
    return None if recorded == now else Difference(step.index, step.action, "output", recorded, now)


def _completed(settings: ReplaySettings, setup: Setup) -> ReplaySettings:
    """The settings with what they leave open taken from the record."""
    record = setup.repository
    completed = settings.model_copy(
        update={
            "cwd": settings.cwd or setup.cwd,
            "image": settings.image or ("" if settings.backend == "local" else setup.image),
            "repo": settings.repo or record.get("source", ""),
            "base": settings.base or record.get("commit", ""),
            "backend": setup.backend if settings.backend == "auto" and not settings.image else settings.backend,
        }
    )
    if not completed.image and not completed.repo:
        raise UsageError(f"{settings.run}: the record names no image; give one with --image, or a --repo")
    return completed


async def _replay(run: RecordedRun, settings: ReplaySettings, console: Console) -> Difference | None:
    with tempfile.TemporaryDirectory(prefix="swe-agent-") as scratch:
        checkout: Checkout | None = None
        if settings.repo:
            base = settings.base if has_history(settings.repo) else ""
            checkout = await asyncio.to_thread(make_checkout, settings.repo, base, Path(scratch) / "repository")
        async with lease(settings, Path(scratch), checkout, "swe-agent replay", console.print) as leased:
            base = checkout.commit if checkout else run.trajectory.base_commit
            return await _commands(run, settings, leased.sandbox, base, console)


async def _commands(
    run: RecordedRun, settings: ReplaySettings, sandbox: Sandbox, base: str, console: Console
) -> Difference | None:
    setup, count = run.setup, 0
    for step in run.trajectory.steps:
        if step.action is None:
            continue
        if step.returncode is None and setup.exact:
            console.print(f"step {step.index} was recorded without a result: the replay ends before it")
            break
        result = await sandbox.exec(
            step.action,
            cwd=settings.cwd,
            timeout=setup.exec_timeout,
            env=setup.env,
            max_output=setup.max_output_bytes,
        )
        count += 1
        if (found := compare(step, result, exact=setup.exact, volatile=settings.normalise)) is not None:
            return found
    trajectory = run.trajectory
    if trajectory.patch_source == "diff" and base:
        patch = (await sandbox.diff(cwd=settings.cwd, base=base)).patch
        if patch != trajectory.patch:
            texts = (data.decode("utf-8", "replace") for data in (trajectory.patch, patch))
            return Difference(len(trajectory.steps), "(the patch at the end)", "patch", *texts)
    console.print(f"{run.name}: {count} commands ran again, nothing differs")
    return None
