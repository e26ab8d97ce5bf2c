"""Each log format, line by line, and that no log makes a parser raise or slow."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_eval.instances import Instance
from swe_eval.parsers import (
    PARSERS,
    REPOSITORIES,
    TestStatus,
    UnknownParserError,
    clean,
    decode,
    parser_for,
    parser_named,
    shows_that_tests_ran,
)
from swe_eval.parsers.official import official_verdict

DATA = Path(__file__).parent / "data"


def read(parser: str, text: str) -> dict[str, str]:
    return {test: status.value for test, status in parser_named(parser).read(clean(text))}


@pytest.mark.parametrize(
    ("line", "test", "status"),
    [
        ("PASSED t.py::a", "t.py::a", "PASSED"),
        ("PASSED t.py::a[x y]", "t.py::a[x y]", "PASSED"),
        ("PASSED t.py::a[x y]  ", "t.py::a[x y]", "PASSED"),
        ("PASSED t.py::a[[] - x]", "t.py::a[[] - x]", "PASSED"),
        ("PASSED t.py::a printed by someone", "t.py::a", "PASSED"),
        ("FAILED t.py::a - assert x[0] == y[1]", "t.py::a", "FAILED"),
        ("FAILED t.py::a[1 - 2] - ValueError: x[3]", "t.py::a[1 - 2]", "FAILED"),
        ("FAILED t.py::a[x y] - E - F", "t.py::a[x y]", "FAILED"),
        ("FAILED t.py::a[x y]", "t.py::a[x y]", "FAILED"),
        ("FAILED t.py::a[cut by a narrow terminal", "t.py::a[cut", "FAILED"),
        ("ERROR t.py::a - fixture 'x' not found", "t.py::a", "ERROR"),
        ("ERROR t.py", "t.py", "ERROR"),
        ("XFAIL t.py::a - why [not]", "t.py::a", "XFAIL"),
        ("XPASS t.py::a[b c] why", "t.py::a[b", "XPASS"),
        ("SKIPPED t.py::a", "t.py::a", "SKIPPED"),
        ("\x1b[1;32mPASSED\x1b[0m t.py::\x1b[1ma\x1b[0m", "t.py::a", "PASSED"),
        ("PASSED [100%]", "[100%]", "PASSED"),  # rows of pytest's own tests list it
    ],
)
def test_pytest_summary_lines(line: str, test: str, status: str) -> None:
    assert read("pytest", line) == {test: status}


@pytest.mark.parametrize(
    "line",
    ["SKIPPED [3] t.py:12: why", "PASSEDt.py::a", " PASSED t.py::a", "PASSED", "t.py::a PASSED", "PASSED: t.py::a", ""],
)
def test_what_is_no_pytest_summary_line(line: str) -> None:
    assert read("pytest", line) == {}


def test_pytest_v2_reads_a_status_at_the_end_and_colours_that_lost_their_escape() -> None:
    text = "t.py::a PASSED\nt.py::b[x y] FAILED      [ 12%]\n[32mPASSED[0m t.py::[1mc[0m\nno id PASSED\n PASSED\n"
    assert read("pytest_v2", text) == {"t.py::a": "PASSED", "t.py::b[x y]": "FAILED", "t.py::c": "PASSED"}


def test_pytest_options_shorten_absolute_paths_only() -> None:
    text = "PASSED t.py::a[/x/y/z.txt]\nPASSED t.py::a[//x/y]\nPASSED t.py::a[/x/*/y]\nPASSED t.py::a[x/y]\n"
    assert list(read("requests", text)) == ["t.py::a[/z.txt]", "t.py::a[//x/y]", "t.py::a[/x/*/y]", "t.py::a[x/y]"]


def test_matplotlib_numbers_its_mouse_buttons() -> None:
    assert read("matplotlib", "PASSED t.py::a[MouseButton.LEFT-MouseButton.RIGHT]") == {"t.py::a[1-3]": "PASSED"}


def test_sympy_letters_and_headings() -> None:
    text = (
        "test_a ok\ntest_b F\ntest_c E\ntest_d f\ntest_e   ok                 [OK]\ntest_g F [FAIL]\n"
        "test_h takes long w\n________ sympy/x/tests/test_y.py:test_b ________\ntest_i okay\n"
    )
    assert read("sympy", text) == {
        "test_a": "PASSED",
        "test_b": "FAILED",
        "test_c": "ERROR",
        "test_d": "XFAIL",
        "test_e": "PASSED",
        "test_g": "FAILED",
        "test_h": "SKIPPED",
        "sympy/x/tests/test_y.py:test_b": "FAILED",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test_x (app.tests.B) ... ok", {"test_x (app.tests.B)": "PASSED"}),
        ("test_x (app.tests.B.test_x) ... ok", {"test_x (app.tests.B.test_x)": "PASSED"}),
        ("test_y (app.tests.B)\nNames this (see a.b) test ... ok", {"Names this (see a.b) test": "PASSED"}),
        ("Applying x...test_z (a.t.B) ... ok", {"test_z (a.t.B)": "PASSED"}),
        ("test_x (a.t.B) ... Testing against Django\nmany lines\nok", {"test_x (a.t.B)": "PASSED"}),
        ("test_x (a.t.B) ... skipped 'no ... ok'", {"test_x (a.t.B)": "SKIPPED"}),
        ("test_x (a.t.B) ... \nok\nERROR", {"test_x (a.t.B)": "PASSED"}),
        ("test_x (a.t.B) ... \nthe process died", {}),
        ("ok", {}),
        ("FAIL: test_x (a.t.B)", {}),
        ("A docstring ... ok", {"A docstring": "PASSED"}),
    ],
)
def test_django(text: str, expected: dict[str, str]) -> None:
    assert read("django", text) == expected


def test_a_failure_section_counts_for_the_test_that_has_a_docstring() -> None:
    rule = "=" * 70
    text = (
        f"test_y (a.t.B)\nA docstring ... what it prints\nok\n{rule}\nFAIL: test_y (a.t.B)\nA docstring\n{'-' * 70}\n"
    )
    assert read("django", text) == {"A docstring": "FAILED"}
    assert read("unittest", text) == {"a.t.B.test_y": "FAILED"}


SUITE = {
    "A.test_cleanup": "FAILED",
    "A.test_doc": "PASSED",
    "A.test_doc_fails": "FAILED",
    "A.test_error": "ERROR",
    "A.test_fail": "FAILED",
    "A.test_ok": "PASSED",
    "A.test_print": "PASSED",
    "A.test_print2": "PASSED",
    "A.test_print3": "PASSED",
    "A.test_skip": "SKIPPED",
    "A.test_skip2": "SKIPPED",
    "A.test_sub": "FAILED",
    "A.test_sub_doc": "FAILED",
    "A.test_sub_msg": "FAILED",
    "A.test_sub_skip": "SKIPPED",
    "A.test_sub_zok": "PASSED",
    "A.test_xfail": "XFAIL",
    "A.test_xpass": "FAILED",
    "B.setUpClass": "ERROR",
    "C.test_c": "SKIPPED",
    "D.test_last": "PASSED",
}


@pytest.mark.parametrize("version", ["3.6", "3.9", "3.11", "3.13"])
def test_real_unittest_output_reads_the_same_for_every_python(version: str) -> None:
    text = decode((DATA / "unittest" / f"python-{version}.txt").read_bytes())
    assert read("unittest", text) == {f"tests.test_mod.{test}": status for test, status in SUITE.items()}


def test_unittest_of_python_2_has_no_subtests() -> None:
    statuses = read("unittest", decode((DATA / "unittest" / "python-2.7.txt").read_bytes()))
    assert statuses["tests.test_mod.A.test_sub"] == "ERROR"
    assert statuses["tests.test_mod.A.test_doc"] == "PASSED"


@pytest.mark.parametrize(
    ("text", "ran"),
    [
        ("===== 3 passed in 0.12s =====", True),
        ("== 1 failed, 2 passed, 1 warning in 3.00s (0:00:03) ==", True),
        ("3 passed in 0.12s", True),
        ("tests/test_a.py ..F.s", True),
        ("..F.                                  [100%]", True),
        ("Ran 12 tests in 0.003s", True),
        ("== tests finished: 10 passed, in 0.03 seconds ==", True),
        ("===== no tests ran in 0.01s =====", False),
        ("Ran 0 tests in 0.000s", False),
        ("Traceback (most recent call last):\nSyntaxError: invalid syntax\n...\n", False),
        ("collected 3 items", False),
    ],
)
def test_signs_that_tests_ran(text: str, ran: bool) -> None:
    assert shows_that_tests_ran(text) is ran


def test_every_repository_has_a_parser_and_names_come_long_and_short() -> None:
    assert all(name in PARSERS for name in REPOSITORIES.values())
    assert parser_named("parse_log_django") is parser_named("django")
    assert parser_named("parse_log_pytest_v2").name == parser_named("sphinx").name == "parse_log_pytest_v2"


def test_the_rows_own_parser_wins_over_the_repositorys() -> None:
    instance = Instance("a__b-1", "", ("t",), (), repo="Django/django")
    assert parser_for(instance).name == "parse_log_django"
    own = Instance("a__b-1", "", ("t",), (), repo="django/django", log_parser="unittest")
    assert parser_for(own).name == "parse_log_unittest"


def test_unknown_parsers_name_the_choices() -> None:
    with pytest.raises(UnknownParserError, match=r"'karma'; there are .*django.*unittest"):
        parser_named("karma")
    with pytest.raises(UnknownParserError, match=r"^a__b-1: no log parser is known for repository 'a/b'"):
        parser_for(Instance("a__b-1", "", ("t",), (), repo="a/b"))


def test_one_byte_that_is_no_utf8_and_all_line_ends() -> None:
    text = decode(b"\xff\xfe\r\nPASSED t.py::a\rFAILED t.py::b\r\n")
    assert read("pytest", text) == {"t.py::a": "PASSED", "t.py::b": "FAILED"}


WORDS = [
    *TestStatus,
    "ok",
    " ... ",
    "[",
    "]",
    " - ",
    "::",
    "test_a (a.b.C)",
    "\n",
    "FAIL: ",
    "=" * 70,
    "\x1b[1m",
    "[5%]",
]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=30).map("".join))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for name, parser in PARSERS.items():
        readings = parser.read(clean(text))
        assert all(isinstance(reading.status, TestStatus) for reading in readings)
        official_verdict(text, f"parse_log_{name}", ["a["], ["b"], eval_type="pass_and_fail", exit_code=1)


@pytest.mark.parametrize(
    "piece",
    [
        " ... ", "test_a (a.b.C) ... ", "test_a (a.b.C) [", "FAILED a[", " - ", "a::", "1 passed in ", "\x1b]", "\x1b[",
        "_ a.py:b", " ok", "=", "[5%] ", "skipped '", "a.b.", "t (", " ", "PASSED ",
        "x ... Testing against Django installed in ", "SKIPPED [", "____",
    ],
)  # fmt: skip
def test_hostile_lines_take_linear_time(piece: str) -> None:
    """One line of 400 kB; the slowest pattern that was quadratic took minutes on it."""
    text = f"FAILED t.py::a[{piece * (400_000 // len(piece))}"
    started = time.process_time()
    for name in ("pytest_v2", "pytest_options", "sympy", "django", "unittest"):
        parser = parser_named(name)
        cleaned = clean(text + "\n" + text[15:])
        parser.read(cleaned)
        shows_that_tests_ran(cleaned)
        official_verdict(text[15:], parser.name, ["a["], ["b"], eval_type="pass_and_fail", exit_code=1)
    assert time.process_time() - started < 20
