"""python -m logsift [--level LEVEL] [--since TIME] [--until TIME] [--logger PATTERN] FILE"""

import argparse
import sys
from datetime import datetime

from .filters import Filter
from .reader import read_log
from .record import LEVELS


def main(argv=None):
    parser = argparse.ArgumentParser(prog="logsift")
    parser.add_argument("file")
    parser.add_argument("--level", choices=list(LEVELS), default="DEBUG")
    parser.add_argument("--since", type=datetime.fromisoformat)
    parser.add_argument("--until", type=datetime.fromisoformat)
    parser.add_argument("--logger", default="*")
    args = parser.parse_args(argv)
    wanted = Filter(args.level, args.since, args.until, args.logger)
    try:
        for record in filter(wanted, read_log(args.file)):
            print(record)
    except OSError as error:
        print("logsift: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
