"""Wrong input becomes one clear line and exit code 2, before any work starts.

Exit codes of every tool: 0 done, 1 done but something could not be judged, 2 refused before work, 130 on Ctrl-C.
"""

import os
import sys
from collections.abc import Callable

EXIT_DONE = 0
EXIT_INCOMPLETE = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


class UsageError(Exception):
    """Input that a person must change. Its text is one line: what is wrong and what to do."""


def one_line(text: object) -> str:
    """`text` with every run of white space folded, so that an error stays one line."""
    return " ".join(str(text).split())


def run_cli(prog: str, main: Callable[[], int]) -> int:
    """Run `main` and turn `UsageError` and Ctrl-C into their exit codes; a bug keeps its traceback."""
    try:
        return main()
    except UsageError as error:
        print(f"{prog}: {one_line(error)}", file=sys.stderr)  # noqa: T201 - the one place that prints errors
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left (`| head`): not our failure, and nothing may be written any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
