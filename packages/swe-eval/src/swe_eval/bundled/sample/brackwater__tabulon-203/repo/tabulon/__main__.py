"""python -m tabulon FILE [--format plain|markdown] [--delimiter ,]"""

import argparse
import sys

from . import read_table, render
from .render import FORMATS


def main(argv=None):
    parser = argparse.ArgumentParser(prog="tabulon")
    parser.add_argument("file")
    parser.add_argument("--format", choices=sorted(FORMATS), default="plain")
    parser.add_argument("--delimiter", default=",")
    args = parser.parse_args(argv)
    with open(args.file, encoding="utf-8", newline="") as file:
        header, rows = read_table(file.read(), args.delimiter)
    print(render(header, rows, args.format))
    return 0


if __name__ == "__main__":
    sys.exit(main())
