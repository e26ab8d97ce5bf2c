"""The verbose output of the standard library's unittest, which Django's runner shares. Python 2.7 to 3.14.

    test_a (app.tests.B) ... ok                      until 3.10
    test_a (app.tests.B.test_a) ... FAIL             from 3.11 on
    test_b (app.tests.B)
    First line of its docstring ... skipped 'why'
    test_c (app.tests.B) ... what the test prints
    ok                                               the status comes when the test is over
    test_d (app.tests.B) ... test_e (app.tests.B) ... ok      a failed subtest leaves no status until 3.10 ...
      test_d (app.tests.B.test_d) (i=1) ... FAIL              ... and a line of its own from 3.11 on

Below, each failure has a section headed `FAIL:` or `ERROR:`; it counts for the test, also where its status was lost.
An unexpected success fails the run, so it is a failure here. A test that never ended (the process died) has no status.

Tests are named in one of two ways: as printed, docstrings included (`django`), or `module.Class.test` (`unittest`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from swe_eval.parsers.readings import Reading, TestStatus

_STATUSES = {
    "ok": TestStatus.PASSED,
    "OK": TestStatus.PASSED,
    "FAIL": TestStatus.FAILED,
    "ERROR": TestStatus.ERROR,
    "expected failure": TestStatus.XFAIL,
    "unexpected success": TestStatus.FAILED,
}
_SECTIONS = {"FAIL": TestStatus.FAILED, "ERROR": TestStatus.ERROR, "UNEXPECTED SUCCESS": TestStatus.FAILED}
_DOTS = " ... "
_RULE = re.compile(r"[=-]{70}")
_SECTION = re.compile(rf"({'|'.join(_SECTIONS)}): (.*)")
# What precedes a description on its line is output without a line end; a word of prose in front is no such thing.
# What follows it are a subtest's message and parameters.
_DESCRIPTION = re.compile(r"(?:^|(?<=[^\w\s]))([^\W\d]\w*) \(([\w<>]+(?:\.[\w<>]+)+)\)(?=$| [\[(])")


@dataclass(frozen=True)
class _Test:
    """A test as its line announces it; `docstring` is its second line, where it has one."""

    method: str
    path: str
    docstring: str = ""

    @property
    def printed(self) -> str:
        return f"{self.method} ({self.path})"


Naming = Callable[[_Test], str]


def read_django(text: str) -> list[Reading]:
    """Tests named as printed: `test_a (app.tests.B)`, or by their docstring's first line where they have one."""
    return _Reader(lambda test: test.docstring or test.printed, by_text=True).read(text)


def read_unittest(text: str) -> list[Reading]:
    """Tests named `module.Class.test`, whatever the Python version and with or without docstrings."""
    return _Reader(_dotted, by_text=False).read(text)


def _dotted(test: _Test) -> str:
    is_full = test.path.rsplit(".", 1)[-1] == test.method
    return test.path if is_full else f"{test.path}.{test.method}"


def _status(text: str) -> TestStatus | None:
    text = text.strip()
    if text.startswith(("skipped '", 'skipped "')):
        return TestStatus.SKIPPED
    return _STATUSES.get(text)


def _glued_status(text: str) -> TestStatus | None:
    """The status at the end of what a test printed without a line end: `no newlineok`."""
    return next((status for word, status in _STATUSES.items() if text.rstrip().endswith(word)), None)


def _description(text: str) -> _Test | None:
    """The test that `text` ends with the announcement of; a subtest stands for its test."""
    text = text.strip()
    match = _DESCRIPTION.search(text) if text.endswith((")", "]")) else None
    return _Test(match[1], match[2]) if match else None


class _Reader:
    """Walks over the lines once, knowing which test is announced, which is running and what it printed last."""

    def __init__(self, naming: Naming, *, by_text: bool) -> None:
        self._naming = naming
        self._by_text = by_text
        self._readings: list[Reading] = []
        self._announced: _Test | None = None
        self._running: _Test | None = None
        self._printed = ""
        self._docstrings: dict[str, str] = {}

    def read(self, text: str) -> list[Reading]:
        after_rule = False
        for line in text.split("\n"):
            section = _SECTION.fullmatch(line) if after_rule else None
            after_rule = _RULE.fullmatch(line) is not None
            if section:
                self._section(_SECTIONS[section[1]], section[2])
            elif after_rule:
                self._start(None)
            elif _DOTS in f"{line} ":
                self._status_line(f"{line} ")
            else:
                self._plain_line(line)
        return self._readings

    def _give(self, test: _Test, status: TestStatus) -> None:
        self._readings.append(Reading(self._naming(test), status))

    def _start(self, test: _Test | None) -> None:
        """Another test begins, or the list ends: only now is it known what was the last line the old one printed."""
        if self._running is not None and (status := _glued_status(self._printed)):
            self._give(self._running, status)
        self._running, self._printed, self._announced = test, "", None

    def _section(self, status: TestStatus, heading: str) -> None:
        test = _description(heading)
        if test is not None:
            self._give(_Test(test.method, test.path, self._docstrings.get(test.printed, "")), status)

    def _plain_line(self, line: str) -> None:
        status = _status(line)
        if self._running is not None and status is not None:
            self._give(self._running, status)
            self._running, self._announced = None, None
            return
        self._announced = _description(line)
        if self._announced is None:
            self._printed = line

    def _status_line(self, line: str) -> None:
        """`test ... status`, or several tests of which all but the last have no status."""
        parts = line.split(_DOTS)
        for number, (left, right) in enumerate(pairwise(parts)):
            # A skip's reason may hold dots; every other status is all that is left.
            is_last = number == len(parts) - 2
            status = _status(right) if is_last or right.lstrip().startswith("skipped ") else None
            test = self._test_before_dots(left)
            if test is not None:
                self._start(test)
                if status is not None:
                    self._give(test, status)
                    self._running = None
                    return
            elif self._by_text and status is not None:
                self._readings.append(Reading(left.strip(), status))
                return
        self._printed = parts[-1]

    def _test_before_dots(self, left: str) -> _Test | None:
        announced, self._announced = self._announced, None
        if announced is None:
            return _description(left)
        self._docstrings[announced.printed] = left.strip()
        return _Test(announced.method, announced.path, left.strip())
