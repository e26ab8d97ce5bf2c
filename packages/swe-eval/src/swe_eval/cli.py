"""`swe-eval`: the main command, `swe-eval compare` and `swe-eval grade-log`."""

import json
import sys
from pathlib import Path

from pydantic_settings import SettingsConfigDict
from rich.console import Console
from swe_exec_server.common.errors import EXIT_DONE, run_cli
from swe_exec_server.common.settings import ToolSettings, setting

from swe_eval.command import evaluate
from swe_eval.comparison import compare, read_run, show
from swe_eval.grade_log import grade_saved_log
from swe_eval.settings import EvalSettings

PROG = "swe-eval"


class GradeLogSettings(ToolSettings):
    """Grade one saved test log; the verdict as JSON on stdout."""

    model_config = SettingsConfigDict(env_prefix="")

    row: Path
    """JSON file of the instance: instance_id, FAIL_TO_PASS, PASS_TO_PASS, and repo or log_parser."""
    log: Path
    """What the tests printed."""
    exit_code: int | None = None
    """Exit code of the test command, if known."""
    parser: str = ""
    """Log parser instead of the row's."""


class CompareSettings(ToolSettings):
    """Compare two finished runs: what both, one or neither resolved, and whether that may be chance."""

    model_config = SettingsConfigDict(env_prefix="")

    first: Path = setting(positional=True)
    """Directory of a run."""
    second: Path = setting(positional=True)
    """Directory of another."""
    force: bool = False
    """Compare the instances that both have, even if the data differ."""
    as_json: bool = False
    """Print JSON instead of a table."""


def main() -> None:
    """Entry point of `swe-eval`."""
    sys.exit(run_cli(PROG, lambda: run(sys.argv[1:])))


def run(argv: list[str]) -> int:
    """Dispatch to a command; without one the main command runs."""
    if argv[:1] == ["grade-log"]:
        return _grade_log(GradeLogSettings.load(f"{PROG} grade-log", argv[1:]))
    if argv[:1] == ["compare"]:
        return _compare(CompareSettings.load(f"{PROG} compare", argv[1:]))
    return evaluate(EvalSettings.load(PROG, argv), Console(stderr=False))


def _grade_log(settings: GradeLogSettings) -> int:
    verdict = grade_saved_log(settings.row, settings.log, exit_code=settings.exit_code, parser=settings.parser or None)
    sys.stdout.write(json.dumps(verdict, ensure_ascii=False, indent=2) + "\n")
    return EXIT_DONE


def _compare(settings: CompareSettings) -> int:
    first, second = read_run(settings.first), read_run(settings.second)
    comparison = compare(first, second, force=settings.force)
    if settings.as_json:
        sys.stdout.write(json.dumps(comparison.to_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        show(first, second, comparison, Console())
    return EXIT_DONE
