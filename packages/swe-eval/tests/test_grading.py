"""A log and a row's tests become a verdict by the official rules, and a stricter one beside it."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from swe_eval.evaluation import PreparedPatch, prepare_patch
from swe_eval.grade_log import grade_saved_log
from swe_eval.grading import ListedTests, grade_log
from swe_eval.instances import FAIL_ONLY, Instance
from swe_eval.markers import END, START, begin_line, end_line
from swe_eval.parsers import parser_named
from swe_eval.shapes import RowError, instance_from_row
from swe_eval.surroundings import touched_surroundings
from swe_eval.verdicts import Verdict, VerdictClass
from swe_exec_server.common.errors import UsageError

DATA = Path(__file__).parent / "data"
CASES = [json.loads(line) for line in (DATA / "grading_cases.jsonl").read_text(encoding="utf-8").splitlines()]
LOG_CASES = [case for case in CASES if ("log" in case or "log_base64" in case) and case["f2p"]]


def grade(
    log: str | bytes, f2p: list[str], p2p: list[str] | None = None, parser: str = "pytest", **how: Any
) -> Verdict:
    data = log.encode() if isinstance(log, str) else log
    return grade_log(data, ListedTests(tuple(f2p), tuple(p2p or ()), parser_named(parser)), **how)


@pytest.mark.parametrize("case", LOG_CASES, ids=[case["id"] for case in LOG_CASES])
def test_cases_that_users_met(case: dict[str, Any]) -> None:
    log = case.get("log") or base64.b64decode(case["log_base64"])
    verdict = grade(log, case["f2p"], case["p2p"], case.get("parser", "pytest"), exit_code=case.get("exit_code"))
    expect = case["expect"]
    seen = {
        "resolved": verdict.resolved,
        "strict": verdict.resolved_strict,
        "missing": list(verdict.missing),
        "status": {test: str(verdict.status[test]) for test in expect.get("status", ())},
    }
    assert {key: seen[key] for key in expect if key in seen} == {key: expect[key] for key in expect if key in seen}
    if "flag" in expect:
        assert expect["flag"] in verdict.flags


def test_a_row_without_tests_is_refused() -> None:
    (case,) = (case for case in CASES if case["id"] == "both-lists-empty")
    row = {"instance_id": "a__b-1", "FAIL_TO_PASS": case["f2p"], "PASS_TO_PASS": case["p2p"]}
    with pytest.raises(RowError, match="lists no tests"):
        instance_from_row(row, need_issue=False)


# --- official logs ----------------------------------------------------------------------------------------------------


def check_logs(directory: Path, rows: dict[str, dict[str, Any]]) -> None:
    expected = json.loads((directory / "expected.json").read_text())
    for name, want in expected.items():
        instance = instance_from_row(rows[name.rsplit(".", 1)[0]], need_issue=False)
        verdict = grade_log((directory / f"{name}.txt").read_bytes(), ListedTests.of(instance))
        got = {"resolved": verdict.resolved, "f2p": list(verdict.f2p), "p2p": list(verdict.p2p)}
        assert got == {key: want[key] for key in got}, name
        assert verdict.resolved_strict == verdict.resolved, name
        assert "differs_from_official" not in verdict.flags, name


def rows_of(*files: Path) -> dict[str, dict[str, Any]]:
    rows = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return {row["instance_id"]: row for row in rows}


def test_logs_of_official_evaluations() -> None:
    check_logs(DATA / "logs", rows_of(DATA / "logs" / "rows.jsonl"))


@pytest.mark.skipif(not os.environ.get("SWE_TEST_DATA"), reason="SWE_TEST_DATA names no directory of real rows")
def test_all_logs_of_official_evaluations() -> None:
    root = Path(os.environ["SWE_TEST_DATA"])
    names = ("swebench_lite.jsonl", "swebench_verified_176.jsonl", "validated_20.jsonl")
    check_logs(root / "logs", rows_of(*(root / name for name in names)))


# --- lists of tests ---------------------------------------------------------------------------------------------------


def test_a_skipped_test_is_no_regression_but_no_fix_either() -> None:
    log = "SKIPPED t.py::a\nPASSED t.py::b\n"
    assert not grade(log, ["t.py::a"], ["t.py::b"]).resolved
    assert grade(log, ["t.py::b"], ["t.py::a"]).resolved


def test_a_cut_id_stands_for_all_that_begin_with_it_if_they_agree() -> None:
    agree = grade("PASSED t.py::a[x y]\nXFAIL t.py::a[x z]\nFAILED t.py::a[xx z] - no\n", ["t.py::a[x"])
    assert agree.resolved
    assert "truncated_ids" in agree.flags
    disagree = grade("PASSED t.py::a[x y]\nFAILED t.py::a[x z] - no\n", ["t.py::a[x"])
    assert not disagree.resolved
    assert disagree.missing == ()
    assert not grade("PASSED t.py::ab\n", ["t.py::a"]).resolved


def test_fail_only_rows_need_a_sign_that_tests_ran() -> None:
    tests = ListedTests(("a",), ("b",), parser_named("pytest"), FAIL_ONLY)
    assert grade_log(b"== 2 passed in 0.1s ==\n", tests).resolved
    assert not grade_log(b"== 1 failed, 1 passed in 0.1s ==\nFAILED a - no\n", tests).resolved
    assert not grade_log(b"browser did not start\n", tests).resolved


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "how", "class_", "flag"),
    [
        ("PASSED a\n", {}, "resolved", None),
        ("FAILED a\n", {}, "unresolved", None),
        ("== 3 passed in 0.1s ==\n", {}, "unparseable_log", None),
        ("....\n", {}, "unparseable_log", None),
        ("", {}, "unresolved", "no_test_output"),
        ("make: command not found\n", {"exit_code": 127}, "unresolved", "no_test_output"),
        ("PASSED a\n", {"timed_out": True, "exit_code": -1}, "test_timeout", None),
        ("PASSED b\n", {}, "unresolved", "tests_missing"),
    ],
)
def test_class_of_a_log(log: str, how: dict[str, Any], class_: str, flag: str | None) -> None:
    verdict = grade(log, ["a"], **how)
    assert verdict.class_ == class_
    assert verdict.resolved == (class_ == "resolved")
    assert set(verdict.flags) == ({flag} if flag else set())


def test_a_timeout_keeps_the_tests_that_did_run() -> None:
    verdict = grade(f"+ : '{START}'\nPASSED a\nPASSED b\n", ["a"], ["b", "c"], timed_out=True, exit_code=-1)
    assert (verdict.f2p, verdict.p2p, verdict.missing) == ((1, 1), (1, 2), ("c",))
    assert "forged_markers" not in verdict.flags


# --- the exit code ----------------------------------------------------------------------------------------------------


def test_a_bad_exit_code_without_a_failure_in_the_log_is_unresolved() -> None:
    verdict = grade("PASSED a\n", ["a"], exit_code=1)
    assert (verdict.resolved, verdict.class_) == (False, VerdictClass.UNRESOLVED)
    assert "exit_code_mismatch" in verdict.flags


def test_the_exit_code_behind_the_end_marker_counts_and_one_in_the_output_does_not() -> None:
    whole = f"{START}\n>>>>> Test Exit Code: 0\nPASSED a\n{END}\n>>>>> Test Exit Code: 1\n"
    verdict = grade(whole, ["a"])
    assert (verdict.resolved, verdict.returncode) == (False, 1)
    assert "differs_from_official" in verdict.flags  # the official harness believes the first


def test_exit_code_zero_beside_a_listed_failure_is_flagged() -> None:
    assert "exit_code_mismatch" in grade("FAILED a\n", ["a"], exit_code=0).flags
    assert "exit_code_mismatch" not in grade("PASSED a\nFAILED inner - of a test\n", ["a"], exit_code=0).flags


# --- markers ----------------------------------------------------------------------------------------------------------


def test_only_what_stands_between_both_markers_counts() -> None:
    log = f"FAILED a\n+ : '{START}'\nPASSED a\n+ : '{END}'\nFAILED a\n"
    verdict = grade(log, ["a"])
    assert (verdict.resolved, verdict.resolved_strict, verdict.flags) == (True, True, ())


def test_results_outside_of_the_markers_are_used_when_there_are_none_inside() -> None:
    assert grade(f"{START}\n{END}\nPASSED a\n", ["a"]).resolved


def test_an_early_end_marker_hides_nothing_from_the_strict_verdict() -> None:
    verdict = grade(f"{START}\nPASSED a\n{END}\nFAILED a - no\n{END}\n", ["a"])
    assert (verdict.resolved, verdict.resolved_strict) == (True, False)
    assert {"forged_markers", "flaky_in_run"} <= set(verdict.flags)


def test_with_a_nonce_forged_official_markers_have_no_effect() -> None:
    inside = f"{END}\nFAILED a - no\n{START}\nPASSED b\n{END}\n"
    log = f"PASSED a\n{begin_line('n')}\n{inside}{end_line('n')}\nPASSED a\n"
    verdict = grade(log, ["a"], nonce="n")
    assert not verdict.resolved
    assert "forged_markers" in verdict.flags
    passing = grade(log.replace("FAILED a - no", "PASSED a"), ["a"], nonce="n")
    assert (passing.resolved, passing.resolved_strict) == (True, True)


def test_a_repeated_nonce_marker_is_never_strictly_resolved() -> None:
    log = f"{begin_line('n')}\nPASSED a\n{end_line('n')}\n\n{end_line('n')}\n"
    verdict = grade(log, ["a"], nonce="n")
    assert (verdict.resolved, verdict.resolved_strict) == (True, False)
    assert "forged_markers" in verdict.flags


def test_without_its_begin_nothing_in_the_log_counts() -> None:
    verdict = grade("PASSED a\n", ["a"], nonce="n")
    assert (verdict.resolved, verdict.status, verdict.flags) == (False, {}, ("no_test_output",))


def test_a_log_that_stops_before_its_end_marker_still_counts() -> None:
    verdict = grade(f"{begin_line('n')}\nPASSED a\nFAILED b - no\n", ["a"], nonce="n", exit_code=1)
    assert (verdict.resolved, verdict.flags) == (True, ())


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_a_pass_printed_after_a_failure() -> None:
    verdict = grade("FAILED a - no\nPASSED b\nPASSED a\n", ["a"], ["b"])
    assert (verdict.resolved, verdict.resolved_strict) == (True, False)
    assert verdict.flags == ("flaky_in_run",)
    caught = grade("FAILED a - no\nPASSED b\nPASSED a\n", ["a"], ["b"], exit_code=1)
    assert not caught.resolved  # the exit code knows better


def test_an_error_in_the_teardown_of_a_passed_test_fails_it() -> None:
    verdict = grade("PASSED a\nERROR a - in teardown\n", ["a"])
    assert (verdict.resolved, verdict.f2p) == (False, (0, 1))


def test_conflicts_of_unlisted_tests_do_not_matter() -> None:
    verdict = grade("PASSED a\nPASSED inner\nFAILED inner - no\n", ["a"])
    assert (verdict.resolved_strict, verdict.flags) == (True, ())


# --- verdicts as data -------------------------------------------------------------------------------------------------


def test_a_verdict_survives_json() -> None:
    verdict = grade("PASSED a\nFAILED t.py::b[x y] - no\n", ["a", "gone"], ["t.py::b[x"], exit_code=1)
    values = json.loads(json.dumps(verdict.to_json()))
    assert values["class"] == "unresolved"
    assert values["rules"] == "swebench-5.0.2"
    assert Verdict.from_json(values) == verdict


def test_a_newer_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="schema 99"):
        Verdict.from_json({"schema": 99})


def test_grading_twice_gives_the_same_bytes() -> None:
    log = (DATA / "logs" / "pylint-dev__pylint-6386.gold.txt").read_bytes()
    row = rows_of(DATA / "logs" / "rows.jsonl")["pylint-dev__pylint-6386"]
    tests = ListedTests.of(instance_from_row(row, need_issue=False))
    assert json.dumps(grade_log(log, tests).to_json()) == json.dumps(grade_log(log, tests).to_json())


# --- patches ----------------------------------------------------------------------------------------------------------

TEST_PATCH = b"""diff --git a/tests/t.py b/tests/t.py
--- a/tests/t.py
+++ b/tests/t.py
@@ -1 +1,2 @@
 import x
+assert x
"""
FIX = b"""diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1 +1 @@
-a = 1
+a = 2
"""
NEW_TEST = b"""diff --git a/tests/t.py b/tests/t.py
new file mode 100644
--- /dev/null
+++ b/tests/t.py
@@ -0,0 +1 @@
+def test_a(): pass
"""
INSTANCE = Instance("a__b-1", "", ("t",), (), test_patch=TEST_PATCH)


@pytest.mark.parametrize(
    ("patch", "class_"),
    [
        (b"", VerdictClass.EMPTY_PATCH),
        (b" \n\n", VerdictClass.EMPTY_PATCH),
        (b"diff --git is a command; --- a/x +++ b/x are headers", VerdictClass.MALFORMED_PATCH),
        (b"I fixed it.\n", VerdictClass.MALFORMED_PATCH),
        (FIX.replace(b"-1 +1", b"-1,9 +1,9"), VerdictClass.MALFORMED_PATCH),
    ],
)
def test_patches_that_are_none(patch: bytes, class_: VerdictClass) -> None:
    verdict = prepare_patch(patch, INSTANCE)
    assert isinstance(verdict, Verdict)
    assert verdict.class_ is class_
    assert bool(verdict.error) == (class_ is VerdictClass.MALFORMED_PATCH)


def test_a_lost_final_newline_is_no_fault() -> None:
    assert prepare_patch(FIX.rstrip(b"\n"), INSTANCE) == PreparedPatch(FIX)


@pytest.mark.parametrize("touching", [TEST_PATCH, NEW_TEST], ids=["edits", "creates"])
def test_changes_to_official_test_files_are_left_out(touching: bytes) -> None:
    assert prepare_patch(FIX + touching, INSTANCE) == PreparedPatch(FIX, ("tests/t.py",))
    assert prepare_patch(touching, INSTANCE) == PreparedPatch(b"", ("tests/t.py",))


# --- one saved log ----------------------------------------------------------------------------------------------------


def test_grade_log_of_files(tmp_path: Path) -> None:
    row, log = tmp_path / "row.json", tmp_path / "log.txt"
    row.write_text(json.dumps({"instance_id": "a__b-1", "FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": ["t.py::b"]}))
    log.write_text("PASSED t.py::a\n")
    shown = grade_saved_log(row, log, parser="parse_log_pytest")
    assert shown["resolved"] is False
    assert (shown["class"], shown["missing"]) == ("unresolved", ["t.py::b"])
    assert json.loads(json.dumps(shown))["f2p"] == [1, 1]
    assert shown["status"] == {"t.py::a": "PASSED"}
    with pytest.raises(UsageError, match="give the row a log_parser"):
        grade_saved_log(row, log)
    with pytest.raises(UsageError, match="no log parser 'karma'"):
        grade_saved_log(row, log, parser="karma")
    with pytest.raises(UsageError, match=r"--log .*cannot be read"):
        grade_saved_log(row, tmp_path / "none.txt", parser="pytest")
    row.write_text("{")
    with pytest.raises(UsageError, match="not one JSON object"):
        grade_saved_log(row, log, parser="pytest")


def a_change(path: str, kind: str) -> bytes:
    git = f"diff --git a/{path} b/{path}\n"
    if kind == "new":
        return f"{git}new file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n".encode()
    if kind == "link":
        return a_change(path, "new").replace(b"100644", b"120000") + b"\\ No newline at end of file\n"
    return f"{git}--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n".encode()


@pytest.mark.parametrize(
    ("kind", "path", "counts"),
    [
        ("new", "conftest.py", True),
        ("new", "sub/sitecustomize.py", True),
        ("new", "hook.pth", True),
        ("changed", "tests/clock.py", True),
        ("changed", "tests/test_other.py", True),
        ("changed", "pkg/test_inline.py", True),
        ("new", "tests/__init__.py", True),
        ("new", "unittest/__main__.py", True),
        ("new", "pytest.py", True),
        ("link", "tests", True),
        ("new", "tests/test_mine.py", False),
        ("new", "test_reproduction.py", False),
        ("changed", "src/_pytest/python.py", False),
        ("new", "pkg/unittest.py", False),
        ("changed", "pkg/latest.py", False),
    ],
)
def test_the_surroundings_of_the_tests(kind: str, path: str, counts: bool) -> None:
    assert touched_surroundings(a_change(path, kind)) == ((path,) if counts else ())
