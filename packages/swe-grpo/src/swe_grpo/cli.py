"""`swe-grpo`: resolves and checks the settings of a training run."""

import json
import sys

from swe_exec_server.common.errors import EXIT_DONE, UsageError, run_cli

from swe_grpo.settings import GrpoSettings

PROG = "swe-grpo"


def main() -> None:
    """Entry point of `swe-grpo`."""
    sys.exit(run_cli(PROG, lambda: run(sys.argv[1:])))


def run(argv: list[str]) -> int:
    """Print the resolved settings of `--dry-run`; refuse anything else, since this version holds no trainer."""
    settings = GrpoSettings.load(PROG, argv)
    if not settings.dry_run:
        raise UsageError("this version holds no trainer yet; --dry-run prints the resolved settings")
    sys.stdout.write(json.dumps(settings.public(), indent=2) + "\n")
    return EXIT_DONE
