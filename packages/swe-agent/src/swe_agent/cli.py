"""`swe-agent solve|show|parse`."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swe_exec_server.common.errors import EXIT_DONE, UsageError, run_cli

from swe_agent import __version__
from swe_agent.actions import Action, parse_action
from swe_agent.settings import ParseSettings, ShowSettings, SolveSettings
from swe_agent.solve import solve
from swe_agent.trajectory import TRAJECTORY_FILE, Trajectory, TrajectoryError, load_trajectory
from swe_agent.viewer import make_console, print_runs, print_trajectory

PROG = "swe-agent"


def _solve(argv: Sequence[str]) -> int:
    """let a model work on one issue in a container"""
    return solve(SolveSettings.load(f"{PROG} solve", argv))


def _show(argv: Sequence[str]) -> int:
    """show a recorded run: status, steps, patch"""
    settings = ShowSettings.load(f"{PROG} show", argv)
    console = make_console(sys.stdout)
    if (settings.run / TRAJECTORY_FILE).is_file() or settings.run.is_file():
        print_trajectory(console, _load(settings.run), settings.full)
        return EXIT_DONE
    files = sorted(settings.run.glob(f"*/{TRAJECTORY_FILE}"))
    if not files:
        raise UsageError(f"{settings.run}: no {TRAJECTORY_FILE} there or one level below; name a run directory")
    print_runs(console, [(file.parent.name, _load(file)) for file in files])
    return EXIT_DONE


def _parse(argv: Sequence[str]) -> int:
    """print what the loop would do with a response"""
    settings = ParseSettings.load(f"{PROG} parse", argv)
    # Line ends are part of what is parsed: no translation.
    parsed = parse_action(sys.stdin.buffer.read().decode("utf-8", "replace"), settings.finish_reason)
    answer = {"action": parsed.command} if isinstance(parsed, Action) else {"error": parsed.kind, "found": parsed.found}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return EXIT_DONE


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {"solve": _solve, "show": _show, "parse": _parse}


def _load(path: Path) -> Trajectory:
    try:
        return load_trajectory(path)
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
