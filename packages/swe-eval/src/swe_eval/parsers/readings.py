"""The words that parsers and grading share, and what all formats have in common: bytes, colours, signs of a run."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class TestStatus(StrEnum):
    """How one test ended, in pytest's words."""

    __test__ = False  # not for pytest to collect

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    ERROR = "ERROR"
    XFAIL = "XFAIL"
    XPASS = "XPASS"

    @property
    def passes(self) -> bool:
        """Whether a listed test with this status counts as passed."""
        return self in (TestStatus.PASSED, TestStatus.XFAIL, TestStatus.XPASS)

    @property
    def fails(self) -> bool:
        """Whether the test ran and did not succeed."""
        return self in (TestStatus.FAILED, TestStatus.ERROR)


class Reading(NamedTuple):
    """One status that a log gives one test."""

    test: str
    status: TestStatus


@dataclass(frozen=True)
class Parser:
    """A log format: its official name and how to read it (text without colours -> statuses in order)."""

    name: str
    read: Callable[[str], list[Reading]]


_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movement
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # window titles and links
    r"|\x1b[@-Z\\^_]"
)


def decode(log: bytes) -> str:
    """A log as text: UTF-8 with U+FFFD for every other byte, all line ends as newlines."""
    return log.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def clean(text: str) -> str:
    """Text without terminal escape sequences."""
    return _ESCAPES.sub("", text)


_RAN = re.compile(
    r"=+ .*\b\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed)\b.* in [\d.]+"  # pytest's last line
    r"|\d+ (?:passed|failed|errors?)\b.* in [\d.]+"  # the same with -q
    r"|\S+\.py [.FEsxX]+(?:\s|$)"  # pytest, one line of dots per file
    r"|[.FEsxX]{4,}(?:\s*\[ *\d+%\])?$|[.FEsxX]+\s*\[ *\d+%\]$"  # dots alone
    r"|Ran [1-9]\d* tests? in [\d.]+s"  # unittest
    r"|=+ tests finished: .*\d+ (?:passed|failed|exceptions)"  # sympy
)
_LONGEST_SIGN = 500


def shows_that_tests_ran(text: str) -> bool:
    """Whether a log has dots or a summary line: tests ran, even if none is named."""
    return any(len(line) <= _LONGEST_SIGN and _RAN.match(line) for line in text.split("\n"))
