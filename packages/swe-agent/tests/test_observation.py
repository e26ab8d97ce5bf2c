"""What the model reads of a result."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_agent.observation import clean_text, elide, is_binary, render_observation
from swe_agent.prompts import Prompts, load_prompts
from swe_exec_server.sandbox import ExecResult


def result(output: bytes, returncode: int = 0, timed_out: bool = False, dropped: int = 0) -> ExecResult:
    return ExecResult(returncode, output, len(output) + dropped, timed_out, dropped > 0, 1.5)


def render(prompts: Prompts, output: bytes, limit: int = 10000, returncode: int = 0, dropped: int = 0) -> str:
    shown = result(output, returncode, dropped=dropped)
    return render_observation(shown, prompts, timeout=180, max_chars=limit)


def test_case_ansi_in_output(prompts: Prompts) -> None:
    lines = (Path(__file__).parent / "data" / "agent_cases.jsonl").read_text(encoding="utf-8").splitlines()
    case = next(case for case in map(json.loads, lines) if case["id"] == "ansi-in-output")
    shown = render(prompts, case["output"].encode())
    assert case["expect"]["observation_contains"] in shown
    assert case["expect"]["observation_has_no"] not in shown


def test_exit_code_and_output_are_shown(prompts: Prompts) -> None:
    shown = render(prompts, b"no such file\n", returncode=2)
    assert "Exit code: 2" in shown
    assert "no such file" in shown


def test_the_duration_is_shown_only_for_a_time_out(prompts: Prompts) -> None:
    assert "1.5" not in render(prompts, b"x")
    shown = render_observation(result(b"partial\n", -1, timed_out=True), prompts, timeout=180)
    assert "180 seconds" in shown
    assert "partial" in shown
    assert "Exit code" not in shown


def test_no_output_is_said(prompts: Prompts) -> None:
    assert "no output" in render(prompts, b"\n")


def test_long_output_keeps_head_and_tail_and_tells_the_number_between(prompts: Prompts) -> None:
    shown = render(prompts, b"H" + b"x" * 30000 + b"T")
    assert "20002 characters" in shown
    assert "Output, shortened:\nHx" in shown
    assert "xT" in shown
    assert len(shown) < 10300


def test_what_the_node_left_out_is_counted_too(prompts: Prompts) -> None:
    assert "5000 characters" in render(prompts, b"head tail", dropped=5000)
    assert "5010 characters" in render(prompts, b"x" * 20, limit=10, dropped=5000)


def test_output_of_exactly_the_limit_is_whole(prompts: Prompts) -> None:
    assert "left out" not in render(prompts, b"y" * 10000)


@pytest.mark.parametrize("output", [b"\x7fELF\x02\x01\x01" + b"\0" * 50, bytes(range(256)) * 4, b"\0\1\2\3"])
def test_binary_is_named_and_not_shown(prompts: Prompts, output: bytes) -> None:
    shown = render(prompts, output)
    assert f"binary ({len(output)} bytes)" in shown
    assert "ELF" not in shown


@pytest.mark.parametrize(
    "output",
    [
        b"",
        "Grüße, größer\n".encode("latin-1") + b"plain text " * 5,
        "日本語\n".encode(),
        b"\x1b[1m\x1b[0m ok",
        b"src/first.py\0src/second.py\0",
    ],
)
def test_text_is_not_called_binary(output: bytes) -> None:
    assert not is_binary(output.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b]0;title\x07a", "a"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended\nnext", "\nnext"),
        ("\x1b(Ba\x1b=b\x1bMc", "abc"),
        ("\x1b[38;5;196mred\x1b[K", "red"),
        ("a\x08ab\x08b", "ab"),
        ("one\rtwo\r\nthree", "one\ntwo\nthree"),
        ("a\0b", "a\nb"),
        ("bell\x07 tab\t del\x7f c1\x85", "bell tab\t del c1"),
    ],
)
def test_escapes_and_controls_are_removed(text: str, plain: str) -> None:
    assert clean_text(text) == plain


@given(st.text(st.sampled_from("\x1b[]0;m\x07\x08\x9b\r\n\\PxX(B\0\t\x7f")))
def test_nothing_that_moves_a_terminal_is_left(text: str) -> None:
    assert not set(clean_text(text)) - set("[]0;m\\PxX(B\n\t")


@given(st.text(), st.integers(0, 50))
def test_elision_loses_no_count(text: str, limit: int) -> None:
    cut = elide(text, limit)
    assert len(cut.head) + cut.omitted + len(cut.tail) == len(text)
    assert len(cut.head) + len(cut.tail) <= max(limit, 0)
    assert text.startswith(cut.head)
    assert text.endswith(cut.tail)


@given(st.binary(max_size=400), st.integers(0, 300), st.integers(0, 255), st.integers(0, 10**6))
def test_any_output_becomes_an_observation_within_its_limit(
    output: bytes, limit: int, returncode: int, dropped: int
) -> None:
    given_result, prompts = result(output, returncode, dropped=dropped), load_prompts()
    shown = render_observation(given_result, prompts, timeout=9.0, max_chars=limit)
    empty = replace(given_result, output=b"", output_bytes=0, truncated=False)
    frame = render_observation(empty, prompts, timeout=9.0)
    assert shown.startswith(f"Exit code: {returncode}")
    assert len(shown) <= limit + len(frame) + 120
    assert "\x1b" not in shown
    assert shown == clean_text(shown)
