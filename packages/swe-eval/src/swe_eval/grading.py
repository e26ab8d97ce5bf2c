"""A test log becomes a verdict. Pure: the same log, tests, exit code and nonce give the same verdict, bit for bit.

The official rules (`swebench-5.0.2`):

- a listed test that the log does not name has failed; of several statuses the last one counts;
- XFAIL passes; SKIPPED fails for FAIL_TO_PASS and is no regression for PASS_TO_PASS;
- a listed id that was cut at a space inside its brackets stands for the ids that begin with it, if they agree;
- only what stands between the markers counts (everything, where a log has none);
- an exit code other than 0 while no failure was read means that the log does not describe the run: not resolved.

An exit code of 0 never makes anything resolved. Running the tests is for `evaluation.py`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swe_eval.instances import FAIL_ONLY, PASS_AND_FAIL, Instance
from swe_eval.markers import Output, test_output
from swe_eval.parsers import Parser, Reading, TestStatus, clean, decode, parser_for, shows_that_tests_ran
from swe_eval.parsers.official import official_verdict
from swe_eval.verdicts import Flag, Verdict, VerdictClass

_FROM_WORST = (
    TestStatus.ERROR,
    TestStatus.FAILED,
    TestStatus.SKIPPED,
    TestStatus.XPASS,
    TestStatus.XFAIL,
    TestStatus.PASSED,
)


@dataclass(frozen=True)
class ListedTests:
    """What a row says about its tests, and the parser that reads their log."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    parser: Parser
    eval_type: str = PASS_AND_FAIL

    @classmethod
    def of(cls, instance: Instance) -> "ListedTests":
        """The tests of an instance. Raises `UnknownParserError`."""
        return cls(instance.fail_to_pass, instance.pass_to_pass, parser_for(instance), instance.eval_type)


class _Statuses:
    """The statuses that were read, asked by listed id."""

    def __init__(self, statuses: Mapping[str, TestStatus]) -> None:
        self._statuses = statuses
        self._sorted = sorted(statuses)

    def __bool__(self) -> bool:
        return bool(self._statuses)

    def ids(self, listed: str) -> list[str]:
        """The read ids that a listed one stands for: itself, or all that a cut id is the beginning of."""
        if listed in self._statuses:
            return [listed]
        if not is_cut(listed):
            return []
        beginning = listed + " "
        found = []
        for read in self._sorted[bisect_left(self._sorted, beginning) :]:
            if not read.startswith(beginning):
                break
            found.append(read)
        return found

    def status(self, listed: str) -> TestStatus | None:
        """The status of a listed id; None when it was not read, or when a cut id's candidates disagree."""
        found = [self._statuses[read] for read in self.ids(listed)]
        return found[-1] if found and len({status.passes for status in found}) == 1 else None

    def any_failure(self) -> bool:
        return any(status.fails for status in self._statuses.values())


def is_cut(test: str) -> bool:
    """Whether a listed id ends inside its brackets, as the parsers that made old rows left them."""
    return test.count("[") > test.count("]")


def grade_log(
    log: bytes,
    tests: ListedTests,
    *,
    exit_code: int | None = None,
    timed_out: bool = False,
    nonce: str | None = None,
) -> Verdict:
    """The verdict that a log gives.

    Args:
        log: the output of the evaluation script, or of the tests alone.
        exit_code: of the test command; None where only the log may tell.
        timed_out: the tests were stopped; what did run keeps its status.
        nonce: the markers to look for; without one the official ones are taken.
    """
    raw = decode(log)
    text = clean(raw)
    output = test_output(text, nonce)
    readings = tests.parser.read(output.official)
    widest = readings if output.widest == output.official else tests.parser.read(output.widest)
    if not readings and not nonce:
        # Some runners write their results outside the markers; the official harness looks there too.
        readings = widest = tests.parser.read(text)
    last = _Statuses(dict(readings))
    code = None if timed_out else exit_code if exit_code is not None else output.exit_code
    ran = bool(last) or shows_that_tests_ran(output.official if nonce else text)

    f2p, p2p = _counts(tests, last, ran)
    all_pass = f2p == len(tests.fail_to_pass) and p2p == len(tests.pass_to_pass)
    unexplained = code not in (None, 0) and bool(last) and not last.any_failure()
    resolved = all_pass and ran and not unexplained and not timed_out
    worst = _Statuses(_worst(widest))
    strict_counts = _counts(tests, worst, ran)
    listed = (*tests.fail_to_pass, *tests.pass_to_pass)
    return Verdict(
        class_=_class(resolved, timed_out, bool(last), ran),
        resolved=resolved,
        resolved_strict=resolved and strict_counts == (f2p, p2p) and (not output.forged or output.trusted),
        flags=_flags(
            {
                Flag.DIFFERS_FROM_OFFICIAL: not timed_out
                and _differs(raw, output, tests, code, nonce, (resolved, f2p, p2p)),
                Flag.FLAKY_IN_RUN: _conflicting(widest, listed, worst),
                Flag.FORGED_MARKERS: output.forged and not (timed_out and not nonce),
                Flag.EXIT_CODE_MISMATCH: unexplained or (code == 0 and _listed_failure(last, listed)),
                Flag.NO_TEST_OUTPUT: not ran,
                Flag.TESTS_MISSING: bool(last) and any(not last.ids(test) for test in listed),
                Flag.TRUNCATED_IDS: any(is_cut(test) and last.ids(test) not in ([], [test]) for test in listed),
            }
        ),
        f2p=(f2p, len(tests.fail_to_pass)),
        p2p=(p2p, len(tests.pass_to_pass)),
        missing=tuple(test for test in listed if not last.ids(test)),
        status=dict(readings),
        parser=tests.parser.name,
        returncode=code,
        timed_out=timed_out,
    )


def _counts(tests: ListedTests, statuses: _Statuses, ran: bool) -> tuple[int, int]:
    """How many of each list passed."""
    if tests.eval_type == FAIL_ONLY:
        # The log names only what fails, so silence is success - if anything ran at all.
        both = (tests.fail_to_pass, tests.pass_to_pass)
        f2p, p2p = (sum(statuses.status(test) is not TestStatus.FAILED for test in listed) for listed in both)
        return (f2p, p2p) if ran else (0, 0)
    f2p = sum(_passes(statuses.status(test)) for test in tests.fail_to_pass)
    p2p = sum(_passes(statuses.status(test), or_skipped=True) for test in tests.pass_to_pass)
    return f2p, p2p


def _passes(status: TestStatus | None, *, or_skipped: bool = False) -> bool:
    return status is not None and (status.passes or (or_skipped and status is TestStatus.SKIPPED))


def _worst(readings: Sequence[Reading]) -> dict[str, TestStatus]:
    worst: dict[str, TestStatus] = {}
    for test, status in readings:
        known = worst.get(test, status)
        worst[test] = min(known, status, key=_FROM_WORST.index)
    return worst


def _conflicting(readings: Sequence[Reading], listed: Iterable[str], statuses: _Statuses) -> bool:
    """Whether a listed test has a passing and a failing status."""
    passed = {reading.test for reading in readings if reading.status.passes}
    both = passed & {reading.test for reading in readings if reading.status.fails}
    return bool(both) and any(read in both for test in listed for read in statuses.ids(test))


def _listed_failure(statuses: _Statuses, listed: Iterable[str]) -> bool:
    return any(status is not None and status.fails for status in map(statuses.status, listed))


def _differs(
    raw: str, output: Output, tests: ListedTests, code: int | None, nonce: str | None, ours: tuple[bool, int, int]
) -> bool:
    """Whether the official harness would say something else of this log, or count other tests."""
    official = official_verdict(
        test_output(raw, nonce).official if nonce else raw,
        tests.parser.name,
        tests.fail_to_pass,
        tests.pass_to_pass,
        eval_type=tests.eval_type,
        exit_code=code,
    )
    return official is not None and (official.resolved, official.f2p, official.p2p) != ours


def _class(resolved: bool, timed_out: bool, named: bool, ran: bool) -> VerdictClass:
    if timed_out:
        return VerdictClass.TEST_TIMEOUT
    if resolved:
        return VerdictClass.RESOLVED
    return VerdictClass.UNPARSEABLE_LOG if ran and not named else VerdictClass.UNRESOLVED


def _flags(flags: Mapping[Flag, bool]) -> tuple[str, ...]:
    return tuple(flag.value for flag, is_set in flags.items() if is_set)
