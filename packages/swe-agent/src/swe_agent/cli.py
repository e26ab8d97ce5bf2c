"""`swe-agent solve|show|replay|parse`."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from swe_exec_server.common.errors import EXIT_DONE, UsageError, run_cli

from swe_agent import __version__
from swe_agent.actions import Action, parse_action
from swe_agent.mini import FOREIGN_SUFFIX
from swe_agent.replaying import replay
from swe_agent.runs import RecordedRun, find_runs, open_run, seen_at
from swe_agent.schemas import published_schema
from swe_agent.settings import ParseSettings, ReplaySettings, ShowSettings, SolveSettings
from swe_agent.solve import solve
from swe_agent.trajectory import TRAJECTORY_FILE, Trajectory, TrajectoryError
from swe_agent.viewer import (
    make_console,
    print_errors,
    print_messages,
    print_runs,
    print_step,
    print_trajectory,
    write_patch,
)

PROG = "swe-agent"


def _solve(argv: Sequence[str]) -> int:
    """let a model work on one issue in a container"""
    return solve(SolveSettings.load(f"{PROG} solve", argv))


def _show(argv: Sequence[str]) -> int:
    """show a recorded run: status, steps, patch, what the model saw"""
    settings = ShowSettings.load(f"{PROG} show", argv)
    if settings.json_schema or settings.run is None:
        sys.stdout.write(published_schema())
        return EXIT_DONE
    console = make_console(sys.stdout)
    several = [] if _is_run(settings.run) else find_runs(settings.run)
    if several:
        print_runs(console, [(file.parent.name, _load(file).trajectory) for file in several])
        return EXIT_DONE
    if settings.run.is_dir() and not _is_run(settings.run):
        raise UsageError(f"{settings.run}: no {TRAJECTORY_FILE} there or one level below; name a run directory")
    return _show_run(console, settings, _load(settings.run).trajectory)


def _show_run(console: Console, settings: ShowSettings, trajectory: Trajectory) -> int:
    last = len(trajectory.steps)
    for flag, number in (("--step", settings.step), ("--context", settings.context)):
        if number is not None and number > last:
            raise UsageError(f"{flag} {number}: the run has {last} steps")
    if settings.patch:
        write_patch(trajectory.patch)
    elif settings.context is not None:
        print_messages(console, seen_at(trajectory, settings.context))
    elif settings.step is not None:
        print_step(console, trajectory.steps[settings.step - 1], full=True)
    elif settings.errors:
        print_errors(console, trajectory, settings.full)
    else:
        print_trajectory(console, trajectory, settings.full)
    return EXIT_DONE


def _replay(argv: Sequence[str]) -> int:
    """run a recorded run's commands again and report the first difference"""
    return replay(ReplaySettings.load(f"{PROG} replay", argv))


def _parse(argv: Sequence[str]) -> int:
    """print what the loop would do with a response"""
    settings = ParseSettings.load(f"{PROG} parse", argv)
    # Line ends are part of what is parsed: no translation.
    parsed = parse_action(sys.stdin.buffer.read().decode("utf-8", "replace"), settings.finish_reason)
    answer = {"action": parsed.command} if isinstance(parsed, Action) else {"error": parsed.kind, "found": parsed.found}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return EXIT_DONE


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "solve": _solve,
    "show": _show,
    "replay": _replay,
    "parse": _parse,
}


def _is_run(path: Path) -> bool:
    return path.is_file() or (path / TRAJECTORY_FILE).is_file() or len(list(path.glob(f"*{FOREIGN_SUFFIX}"))) == 1


def _load(path: Path) -> RecordedRun:
    try:
        return open_run(path)
    except TrajectoryError as error:
        raise UsageError(str(error)) from error


def usage() -> str:
    """The text of `swe-agent --help`."""
    commands = "".join(f"  {name:8}{command.__doc__}\n" for name, command in COMMANDS.items())
    return (
        f"usage: {PROG} COMMAND [options]\n\n"
        "A step-limited coding agent: model, one bash command, observation, patch.\n\n"
        f"commands:\n{commands}\n"
        f"{PROG} COMMAND --help tells the options of a command; {PROG} --version the version.\n"
    )


def run(argv: Sequence[str]) -> int:
    """Run one command line. Returns the exit code; raises `UsageError`."""
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(usage())
        return EXIT_DONE
    if argv[0] == "--version":
        sys.stdout.write(f"{PROG} {__version__}\n")
        return EXIT_DONE
    command = COMMANDS.get(argv[0])
    if command is None:
        raise UsageError(f"unknown command {argv[0]!r}; choose one of {', '.join(COMMANDS)}")
    return command(argv[1:])


def main() -> None:
    """Entry point of `swe-agent`."""
    sys.exit(run_cli(PROG, lambda: run(sys.argv[1:])))
