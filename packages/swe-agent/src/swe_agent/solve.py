"""`swe-agent solve`: one issue, one repository, one container, one run directory.

The same command again shows a run that has ended, and starts one over that was killed, or that lost its model server or
its container.
"""

import asyncio
import fcntl
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INCOMPLETE, UsageError
from swe_exec_server.common.settings import flag_name

from swe_agent.containers import lease
from swe_agent.live import LiveSteps
from swe_agent.loop import Task, run_agent
from swe_agent.models.factory import ModelSource, parse_model
from swe_agent.prompts import Prompts, load_prompts
from swe_agent.repository import Checkout, make_checkout, resolve_commit, shown_repo
from swe_agent.settings import SolveSettings
from swe_agent.trajectory import META_FILE, TRAJECTORY_FILE, Trajectory, TrajectoryError, load_trajectory
from swe_agent.viewer import make_console, print_summary, write_patch

LOCK_FILE = ".lock"
INSTANCE_ID = "issue"


@dataclass(frozen=True)
class _Plan:
    """Everything that a run needs and that can be checked before it starts."""

    settings: SolveSettings
    issue: str
    prompts: Prompts
    identity: Mapping[str, Any]
    directory: Path


def solve(settings: SolveSettings) -> int:
    """Run to the end and print the patch. Raises `UsageError` before any work when something cannot work."""
    plan = _plan(settings)
    console = make_console(sys.stderr)
    with _locked(plan.directory):
        trajectory = None if settings.fresh else ended_run(plan.directory, plan.identity)
        if trajectory is None:
            trajectory = asyncio.run(_run(plan, console))
        else:
            console.print("This run has ended before; --fresh starts it anew.")
    print_summary(console, trajectory)
    console.print(f"record: {plan.directory}", soft_wrap=True)
    write_patch(trajectory.patch)
    return EXIT_INCOMPLETE if trajectory.status.is_infrastructure else EXIT_DONE


def read_issue(name: str) -> str:
    """The text of `--issue`: a file, or standard input for `-`."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--issue {name}: cannot be read ({error})") from error
    if not text.strip():
        raise UsageError(f"--issue {name}: it is empty; write the issue into it")
    return text


def default_directory(identity: Mapping[str, Any]) -> Path:
    """`runs/solve-HASH`: the same settings give the same directory."""
    text = json.dumps(identity, sort_keys=True)
    return Path("runs") / f"solve-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def ended_run(directory: Path, identity: Mapping[str, Any]) -> Trajectory | None:
    """The run that has ended in `directory`; None when there is none, or one to start over.

    Raises `UsageError` naming the first difference when the run there had other settings.
    """
    if not (directory / TRAJECTORY_FILE).exists():
        return None
    try:
        earlier = json.loads((directory / META_FILE).read_text(encoding="utf-8"))["identity"]
        trajectory = load_trajectory(directory)
    except (OSError, ValueError, KeyError, TypeError, TrajectoryError) as error:
        raise UsageError(f"{directory}: the record there cannot be read ({error}); --fresh starts anew") from error
    for name in sorted(earlier.keys() | identity.keys()):
        if earlier.get(name) != identity.get(name):
            was, now = earlier.get(name), identity.get(name)
            raise UsageError(
                f"{directory} has a run with {flag_name(name)} {was!r}, not {now!r}; "
                "choose another --output-dir, or --fresh"
            )
    return None if trajectory.status.is_infrastructure else trajectory


def _plan(settings: SolveSettings) -> _Plan:
    issue = read_issue(settings.issue)
    prompts = load_prompts(settings.prompt, settings.action_style)
    identity = settings.identity() | {
        "issue": hashlib.sha256(issue.encode()).hexdigest(),
        "prompt": prompts.sha256,
    }
    if settings.repo:
        identity["commit"] = resolve_commit(settings.repo, settings.base)
    return _Plan(settings, issue, prompts, identity, settings.output_dir or default_directory(identity))


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the run directory for this process alone."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / LOCK_FILE).open("w")
    except OSError as error:
        raise UsageError(f"--output-dir {directory}: cannot be written ({error.strerror})") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{directory} is in use by another run; wait for it or choose another --output-dir"
            ) from None
        yield


async def _run(plan: _Plan, console: Console) -> Trajectory:
    settings = plan.settings
    source = parse_model(
        settings.model,
        api_base=settings.api_base,
        api_key=settings.api_key,
        sampling=settings.sampling(),
        action_style=settings.action_style,
    )
    try:
        await source.check()
        with tempfile.TemporaryDirectory(prefix="swe-agent-") as scratch:
            checkout = await asyncio.to_thread(_check_out, settings, Path(scratch), console)
            return await _work(plan, source, checkout, console)
    finally:
        await source.close()


def _check_out(settings: SolveSettings, scratch: Path, console: Console) -> Checkout | None:
    if not settings.repo:
        return None
    checkout = make_checkout(settings.repo, settings.base, scratch / "repository")
    for note in checkout.notes:
        console.print(f"{shown_repo(settings.repo)}: {note}", style="yellow", soft_wrap=True)
    return checkout


async def _work(plan: _Plan, source: ModelSource, checkout: Checkout | None, console: Console) -> Trajectory:
    settings = plan.settings
    model = source.open(INSTANCE_ID)
    async with lease(settings, plan.directory, checkout, "swe-agent solve", console.print) as leased:
        meta: dict[str, Any] = {
            "identity": dict(plan.identity),
            "image": leased.image,
            "backend": leased.backend,
            "sampling": dict(source.sampling),
        }
        if checkout is not None:
            meta["repository"] = {"source": shown_repo(settings.repo), "commit": checkout.commit}
        with LiveSteps(console, source.name, settings.step_limit) as view:
            return await run_agent(
                Task(INSTANCE_ID, plan.issue, settings.cwd, checkout.commit if checkout else None),
                model,
                leased.sandbox,
                settings.loop(),
                plan.prompts,
                directory=plan.directory,
                meta=meta,
                on_step=view.step,
            )
