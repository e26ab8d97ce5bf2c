"""Every row shape becomes the same `Instance`; a wrong row is one line with its place."""

import json
from datetime import datetime
from typing import Any

import pytest
from swe_eval.instances import FAIL_ONLY
from swe_eval.shapes import RowError, instance_from_row

RAW: dict[str, Any] = {
    "instance_id": "a__b-1",
    "repo": "a/b",
    "base_commit": "0" * 40,
    "problem_statement": "It breaks.\r\n",
    "hints_text": "",
    "patch": "diff --git a/x b/x\r\n",
    "test_patch": "",
    "version": "4.3",
    "created_at": "2022-03-03T15:14:54Z",
    "FAIL_TO_PASS": '["t.py::a[x", "t.py::b"]',
    "PASS_TO_PASS": "[]",
}


def test_original_rows_with_lists_as_json_text() -> None:
    instance = instance_from_row(RAW, "rows.jsonl:1")
    assert instance.fail_to_pass == ("t.py::a[x", "t.py::b")  # a truncated id stays as it is
    assert instance.pass_to_pass == ()
    assert instance.patch == b"diff --git a/x b/x\r\n"
    assert (instance.image, instance.data_source, instance.eval_script) == (None, None, None)
    assert instance.row is RAW


@pytest.mark.parametrize("tests", [["t::a"], ("t::a",), '["t::a"]', "['t::a']"])
def test_test_lists_in_every_spelling(tests: object) -> None:
    assert instance_from_row({**RAW, "FAIL_TO_PASS": tests}).fail_to_pass == ("t::a",)


def test_version_5_columns() -> None:
    row = {**RAW, "image": "i:latest", "log_parser": "parse_log_django", "eval_type": "fail_only", "eval_script": "x\n"}
    instance = instance_from_row(row)
    assert (instance.image, instance.log_parser, instance.eval_type) == ("i:latest", "parse_log_django", FAIL_ONLY)
    assert instance.eval_script == "x\n"


@pytest.mark.parametrize("column", ["image", "image_name", "docker_image"])
def test_image_columns(column: str) -> None:
    assert instance_from_row({**RAW, column: "own/image:1"}).image == "own/image:1"


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "json-text"])
def test_slime_rows(as_text: bool) -> None:
    inner = json.dumps(RAW) if as_text else RAW
    row = {"text": "Fix it.", "metadata": {"instance": inner, "data_source": "SWE-Gym/SWE-Gym"}}
    instance = instance_from_row(row)
    assert (instance.instance_id, instance.data_source) == ("a__b-1", "SWE-Gym/SWE-Gym")
    assert instance.prompt == "Fix it."


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "json-text"])
def test_rows_with_prompt_instance_and_data_source(as_text: bool) -> None:
    messages = [{"role": "user", "content": "Fix it."}]
    inner = json.dumps(RAW) if as_text else RAW
    instance = instance_from_row({"prompt": messages, "instance": inner, "data_source": "swe-gym"})
    assert instance.prompt == ({"role": "user", "content": "Fix it."},)
    assert (instance.problem_statement, instance.data_source) == ("It breaks.\r\n", "swe-gym")


def test_mixed_columns_fill_what_the_inner_instance_lacks() -> None:
    inner = {key: value for key, value in RAW.items() if key != "version"}
    outer = {"instance": {**inner, "eval_script": None}, "version": 4.2, "eval_script": "run\n", "repo": "outer/repo"}
    instance = instance_from_row(outer)
    assert (instance.version, instance.eval_script, instance.repo) == ("4.2", "run\n", "a/b")


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ({"test_cmd": "make test"}, "make test"),
        ({"test_cmds": ["pip list", "pytest -rA"]}, "pip list\npytest -rA"),
        ({"install_config": {"test_cmd": "pytest -rA", "log_parser": "pytest"}}, "pytest -rA"),
    ],
)
def test_rows_with_their_own_test_command(columns: dict[str, Any], command: str) -> None:
    assert instance_from_row({**RAW, **columns}).test_cmd == command


def test_dates_and_numbers_of_parquet_become_text() -> None:
    moment = datetime.fromisoformat("2022-03-03T15:14:54+00:00")
    instance = instance_from_row({**RAW, "created_at": moment, "version": 3})
    assert (instance.created_at, instance.version) == ("2022-03-03T15:14:54+00:00", "3")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instance_id": None}, "no instance_id"),
        ({"instance_id": "../../etc"}, "safe file name"),
        ({"instance_id": "a" * 201}, "has 201 characters"),
        ({"cwd": "testbed"}, "cwd must be an absolute path"),
        ({"cwd": "/a\0b"}, "cwd must be an absolute path"),
        ({"test_cmd": "a\0b"}, "test_cmd holds a NUL"),
        ({"test_cmds": ["a", "\0"]}, "test_cmds holds a NUL"),
        ({"eval_script": "a\0b"}, "eval_script holds a NUL"),
        ({"FAIL_TO_PASS": "[" * 100_000}, "no JSON list"),
        ({"metadata": {"instance": "[" * 100_000}}, "instance is text but no JSON"),
        ({"FAIL_TO_PASS": "[]"}, "lists no tests"),
        ({"FAIL_TO_PASS": None}, "no FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": "t.py::a"}, "no JSON list"),
        ({"FAIL_TO_PASS": [1]}, "list of test ids"),
        ({"problem_statement": " "}, "neither problem_statement nor prompt"),
        ({"patch": 3}, "patch must be text, this is a number"),
        ({"metadata": {"instance": "{"}}, "instance is text but no JSON"),
        ({"prompt": [{"role": "user"}]}, "role and content"),
        ({"eval_type": "sometimes"}, "pass_and_fail or fail_only"),
        ({"test_timeout": -1}, "positive number of seconds"),
    ],
)
def test_wrong_rows_are_refused_with_their_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError) as caught:
        instance_from_row({**RAW, **change}, "rows.jsonl:7")
    assert str(caught.value).startswith("rows.jsonl:7: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_that_is_no_object() -> None:
    with pytest.raises(RowError, match="this is a list"):
        instance_from_row([RAW], "rows.json, row 1")


def test_grading_needs_no_issue_text() -> None:
    row = {"instance_id": "a__b-1", "FAIL_TO_PASS": ["t::a"], "PASS_TO_PASS": []}
    assert instance_from_row(row, need_issue=False).instance_id == "a__b-1"
