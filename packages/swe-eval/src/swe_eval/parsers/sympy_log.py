"""The verbose output of sympy's own runner, `bin/test --verbose`.

    sympy/printing/tests/test_mathematica.py[10]
    test_Integer ok
    test_Sum F                                                    [FAIL]
    ________ sympy/printing/tests/test_mathematica.py:test_Sum ________

Tests are known by their bare function names, failures by file and name too.
"""

import re

from swe_eval.parsers.readings import Reading, TestStatus

_LETTERS = {
    "ok": TestStatus.PASSED,
    "F": TestStatus.FAILED,
    "E": TestStatus.ERROR,
    "f": TestStatus.XFAIL,
    "X": TestStatus.XPASS,
    "s": TestStatus.SKIPPED,
    "w": TestStatus.SKIPPED,
}
_LINE = re.compile(r"\s*(test_\S*)(?:\s.*)?\s(ok|[FEfXsw])(?:\s+\[(?:OK|FAIL)\])?\s*")
_HEADING = re.compile(r"_+ (\S+\.py:\S+) _+")
_LONGEST_HEADING = 500


def read_sympy(text: str) -> list[Reading]:
    """A status letter or `ok` after the name; a heading per failure."""
    readings = []
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            readings.append(Reading(match[1], _LETTERS[match[2]]))
        elif len(line) <= _LONGEST_HEADING and (match := _HEADING.fullmatch(line.strip())):
            readings.append(Reading(match[1], TestStatus.FAILED))
    return readings
