"""What an attempt ends in: exactly one class, the evidence, and two answers to "resolved?".

`resolved` follows the official rules on the statuses that our parsers read. `resolved_strict` is true only where
nothing speaks against it: of several statuses of a test the worst counts, no forged markers, no exit code against it,
no changed surroundings of the tests.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from swe_eval.parsers import TestStatus

SCHEMA = 1
RULES = "swebench-5.0.2"


class VerdictClass(StrEnum):
    """The eleven ends of an attempt."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY_PATCH = "empty_patch"
    MALFORMED_PATCH = "malformed_patch"
    APPLY_FAILED = "apply_failed"
    POLICY_VIOLATION = "policy_violation"
    TEST_TIMEOUT = "test_timeout"
    UNPARSEABLE_LOG = "unparseable_log"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    NOT_RUN = "not_run"


class Flag(StrEnum):
    """What a reader of a verdict should know."""

    DIFFERS_FROM_OFFICIAL = "differs_from_official"
    """The official harness reads less in this log and counts differently."""
    FLAKY_IN_RUN = "flaky_in_run"
    """A listed test both passed and failed."""
    FORGED_MARKERS = "forged_markers"
    """The markers around the test output stand more often, or in another order, than the script writes them."""
    EXIT_CODE_MISMATCH = "exit_code_mismatch"
    """The exit code contradicts the statuses that were read."""
    NO_TEST_OUTPUT = "no_test_output"
    """No sign that any test ran."""
    TESTS_MISSING = "tests_missing"
    """Tests ran, but not all that are listed."""
    TRUNCATED_IDS = "truncated_ids"
    """The row lists ids cut at white space; they were matched by their beginning."""
    TEST_FILES_DROPPED = "test_files_dropped"
    """The patch touched official test files; those parts were left out."""
    TEST_SETUP_CHANGED = "test_setup_changed"
    """The patch changed what decides how tests run: helpers, conftest.py, other tests, a stand-in for the runner."""
    CONTAINER_ENDED = "container_ended"
    """The container ended itself under the tests, every time that they were tried."""
    FUZZ_USED = "fuzz_used"
    """The patch applied only where its context was allowed to differ."""
    LOG_TRUNCATED = "log_truncated"
    """The middle of the log is lost."""
    KILLED_BY_LIMITS = "killed_by_limits"
    """The container ran into its own memory, process or disk limit."""


@dataclass(frozen=True)
class Verdict:
    """How an attempt was judged.

    Attributes:
        f2p, p2p: (passed, listed) of FAIL_TO_PASS and PASS_TO_PASS.
        missing: listed tests that the log gives no status, in the row's order.
        status: every test that the log names -> its last status.
        parser: official name of the parser that read the log.
        rules: which official rule set `resolved` follows.
        returncode: the test command's exit code, where it is known.
        apply_by: the step of the apply chain that took the patch, empty when there was none.
        dropped: files whose hunks were left out of the patch.
        error: one line for a person, where something went wrong.
    """

    class_: VerdictClass
    resolved: bool = False
    resolved_strict: bool = False
    flags: tuple[str, ...] = ()
    f2p: tuple[int, int] = (0, 0)
    p2p: tuple[int, int] = (0, 0)
    missing: tuple[str, ...] = ()
    status: Mapping[str, TestStatus] = field(default_factory=dict)
    parser: str = ""
    rules: str = RULES
    returncode: int | None = None
    timed_out: bool = False
    apply_by: str = ""
    dropped: tuple[str, ...] = ()
    error: str = ""

    @classmethod
    def without_tests(cls, class_: VerdictClass, *, error: str = "", flags: tuple[str, ...] = ()) -> Self:
        """The verdict of an attempt whose tests did not run."""
        return cls(class_=class_, error=error, flags=flags)

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON types; `class` without the underscore that Python needs."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        del values["class_"]
        values["class"] = self.class_.value
        values["status"] = {test: status.value for test, status in self.status.items()}
        return {"schema": SCHEMA, **values}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises ValueError for a schema that is newer than this program."""
        if values.get("schema") != SCHEMA:
            raise ValueError(f"a verdict of schema {values.get('schema')!r} cannot be read; known is {SCHEMA}")
        fields = {key: value for key, value in values.items() if key not in ("schema", "class")}
        for name in ("flags", "f2p", "p2p", "missing", "dropped"):
            fields[name] = tuple(fields[name])
        fields["status"] = {test: TestStatus(status) for test, status in fields["status"].items()}
        return cls(class_=VerdictClass(values["class"]), **fields)
