"""The short test summary that pytest prints with `-rA`: one line per test, its status first.

    PASSED tests/test_a.py::test_x[1 - 2]
    FAILED tests/test_a.py::test_y[a b] - ValueError: no

An id ends at the first white space outside its brackets. Parameters may hold white space, dashes and brackets of their
own, so a bracketed id ends at the end of the line or before a ` - `: at the first such place where its brackets match.
Rows were made by parsers that cut ids at white space; matching those is for `grading.py`.
"""

import re
from collections.abc import Iterator

from swe_eval.parsers.readings import Reading, TestStatus

_STATUSES = frozenset(TestStatus)
_STATUS_FIRST = re.compile(rf"({'|'.join(TestStatus)})[ \t]+(\S.*)")
_COUNT = re.compile(r"\[\d+\](?:\s|$)")
_COLOUR_WITHOUT_ESCAPE = re.compile(r"\[\d+m")


def read_pytest(text: str) -> list[Reading]:
    """Lines that begin with a status."""
    readings = []
    for line in text.split("\n"):
        match = _STATUS_FIRST.match(line)
        if match is None:
            continue
        status, rest = TestStatus(match[1]), match[2].rstrip()
        # `SKIPPED [3] tests/test_a.py:12: reason` counts places, it names no test.
        if status is TestStatus.SKIPPED and _COUNT.match(rest):
            continue
        readings.append(Reading(test_id(rest, message_follows=status is not TestStatus.PASSED), status))
    return readings


def read_pytest_v2(text: str) -> list[Reading]:
    """The same, and old versions' `-v` lines, where the status comes last; colours may have lost their escape."""
    readings = []
    for line in text.split("\n"):
        plain = _COLOUR_WITHOUT_ESCAPE.sub("", line)
        readings += read_pytest(plain) or _status_last(plain)
    return readings


def read_pytest_options(text: str) -> list[Reading]:
    """The same as `read_pytest`; a parameter that is an absolute path counts by its last part only."""
    return [Reading(_short_path_option(test), status) for test, status in read_pytest(text)]


def read_matplotlib(text: str) -> list[Reading]:
    """The same as `read_pytest`; mouse buttons count by number, as Python before 3.11 prints them."""
    return read_pytest(text.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def test_id(rest: str, *, message_follows: bool) -> str:
    """The id at the start of what follows a status word."""
    first = rest.split(None, 1)[0]
    if "[" not in first or (first.endswith("]") and _open(first) <= 0):
        return first
    ends = [*(_ends_at_dashes(rest) if message_follows else ()), (len(rest), _open(rest))]
    closed = [(end, still_open) for end, still_open in ends if rest.endswith("]", 0, end)]
    # Parameters may hold single brackets, so the counts need not match anywhere: then the first end will do.
    best = next((end for end, still_open in closed if still_open <= 0), closed[0][0] if closed else len(first))
    return rest[:best]


test_id.__test__ = False  # type: ignore[attr-defined]  # its name, not its purpose, looks like a test


def _open(text: str, start: int = 0, end: int | None = None) -> int:
    """How many brackets more are opened than closed."""
    return text.count("[", start, end) - text.count("]", start, end)


def _ends_at_dashes(rest: str) -> Iterator[tuple[int, int]]:
    """Where each ` - ` begins, and how many brackets are open there."""
    start = still_open = 0
    while (dash := rest.find(" - ", start)) >= 0:
        still_open += _open(rest, start, dash)
        yield dash, still_open
        start = dash + 3


def _status_last(line: str) -> list[Reading]:
    """`tests/test_a.py::test_x PASSED`, with or without the percentage that follows."""
    text = line.rstrip()
    if text.endswith("%]"):
        text = text[: text.rfind("[")].rstrip()
    test, _, status = text.rpartition(" ")
    if status not in _STATUSES or "::" not in test.strip().partition(" ")[0]:
        return []
    return [Reading(test.strip(), TestStatus(status))]


def _short_path_option(test: str) -> str:
    name, bracket, option = test.partition("[")
    path = option.removesuffix("]")
    is_path = path.startswith("/") and not path.startswith("//") and "*" not in path
    # Ids with white space were cut before they were shortened, so their paths stay whole.
    if not bracket or path == option or not is_path or any(c.isspace() for c in option):
        return test
    return f"{name}[/{path.rsplit('/', 1)[-1]}]"
