"""The command line."""

import argparse
import sys

from . import __version__, to_text


def build_parser():
    parser = argparse.ArgumentParser(prog="mdplain", description="Markdown to plain text.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Markdown file, or - for standard input")
    parser.add_argument("--width", type=int, help="fill paragraphs to this many columns")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(argv=None):
    """Write every file as text; returns the exit status."""
    args = build_parser().parse_args(argv)
    for name in args.files:
        with open(name, encoding="utf-8") as file:
            print(to_text(file.read(), args.width))
