"""`swe-eval` and `python -m swe_eval`. Imports what takes a second only where Ctrl-C already ends in one exit code."""

import signal
import sys


def main() -> None:
    """Entry point of `swe-eval`. SIGTERM ends a run as Ctrl-C does: containers given back, results kept."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        from swe_eval.cli import main as run_main

        run_main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
