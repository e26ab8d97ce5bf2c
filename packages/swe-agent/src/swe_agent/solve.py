"""`swe-agent solve`: one issue, one container, one run directory.

The same command again shows a run that has ended, and starts one over that was killed, or that lost its model server or
its container.
"""

import asyncio
import fcntl
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INCOMPLETE, UsageError
from swe_exec_server.common.settings import flag_name, read_token
from swe_exec_server.sandbox import Sandbox, SandboxProvider, SandboxSpec
from swe_exec_server.wire import SandboxError

from swe_agent.loop import Task, run_agent
from swe_agent.models.factory import ModelSource, parse_model
from swe_agent.prompts import Prompts, load_prompts
from swe_agent.settings import SolveSettings
from swe_agent.trajectory import (
    META_FILE,
    TRAJECTORY_FILE,
    Trajectory,
    TrajectoryError,
    load_trajectory,
)
from swe_agent.viewer import make_console, print_patch, print_step, print_summary

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
    _print_patch(trajectory.patch)
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
    prompts = load_prompts(settings.prompt)
    identity = settings.identity() | {
        "issue": hashlib.sha256(issue.encode()).hexdigest(),
        "prompt": prompts.sha256,
    }
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
        settings.model, api_base=settings.api_base, api_key=settings.api_key, sampling=settings.sampling()
    )
    try:
        await source.check()
        provider = await _open_provider(plan)
        try:
            return await _work(plan, source, provider, console)
        finally:
            await provider.close()
    finally:
        await source.close()


async def _open_provider(plan: _Plan) -> SandboxProvider:
    """Exec servers or this machine's Docker engine. Imported late: what starts an engine is slow to import."""
    from swe_exec_server.connect import open_provider
    from swe_exec_server.embedded import EmbeddedOptions, docker_answers

    settings = plan.settings
    if not settings.exec_server_urls and (why := docker_answers()):
        raise UsageError(f"{why}; start Docker, or name machines that have it with --exec-server-urls")
    options = EmbeddedOptions(plan.directory, backend="docker", max_containers=1)
    return await open_provider(settings.exec_server_urls, read_token(settings.token, settings.token_file), options)


async def _work(plan: _Plan, source: ModelSource, provider: SandboxProvider, console: Console) -> Trajectory:
    settings = plan.settings
    model = source.open(INSTANCE_ID)
    sandbox = await _lease(provider, settings)
    try:
        with console.status(f"{source.name} is at work", spinner="dots"):
            return await run_agent(
                Task(INSTANCE_ID, plan.issue, settings.cwd),
                model,
                sandbox,
                settings.loop(),
                plan.prompts,
                directory=plan.directory,
                meta={"identity": dict(plan.identity), "image": settings.image, "sampling": dict(source.sampling)},
                on_step=lambda step: print_step(console, step),
            )
    finally:
        await sandbox.close()


async def _lease(provider: SandboxProvider, settings: SolveSettings) -> Sandbox:
    try:
        if not await provider.has_image(settings.image):
            raise UsageError(f"image {settings.image!r} is not there; fetch it first: docker pull {settings.image}")
        return await provider.create(SandboxSpec(image=settings.image, cwd=settings.cwd, owner="swe-agent solve"))
    except SandboxError as error:
        raise UsageError(f"no container from image {settings.image!r}: {error}") from error


def _print_patch(patch: bytes) -> None:
    if sys.stdout.isatty():
        print_patch(make_console(sys.stdout), patch)
    else:
        sys.stdout.buffer.write(patch)
        sys.stdout.buffer.flush()
