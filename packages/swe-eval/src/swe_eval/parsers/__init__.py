"""Test logs -> which test ended how. One small pure function per log format; a table says which repository uses which.

A parser gives every status it reads, in the order of the log. What to make of a test that is named twice is for
`grading.py` to say. Logs come from untrusted code: parsers never raise and take time linear in the length of the log.
"""

from swe_eval.parsers.readings import Parser, Reading, TestStatus, clean, decode, shows_that_tests_ran
from swe_eval.parsers.registry import (
    PARSERS,
    REPOSITORIES,
    UnknownParserError,
    parser_for,
    parser_named,
)

__all__ = [
    "PARSERS",
    "REPOSITORIES",
    "Parser",
    "Reading",
    "TestStatus",
    "UnknownParserError",
    "clean",
    "decode",
    "parser_for",
    "parser_named",
    "shows_that_tests_ran",
]
