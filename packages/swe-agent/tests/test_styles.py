"""Both action styles behind their one protocol: what is run, what is told, and what the conversation holds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_agent.actions import Action, FormatError
from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models import ModelResponse, ToolCall
from swe_agent.models.replay import RecordedTurn, ReplayModel, load_recordings, turns_for
from swe_agent.models.scripted import tool_turn
from swe_agent.prompts import MARKER, load_prompts
from swe_agent.styles import BASH_TOOL, STYLE_NAMES, parse_tool_calls, style_of
from swe_agent.trajectory import AgentStatus, Trajectory, load_trajectory
from swe_exec_server.common.errors import UsageError
from swe_exec_server.sandbox import Sandbox

SETTINGS = LoopSettings(exec_timeout=20, wall_limit=60, snapshot_timeout=5, action_style="tools")
TASK = Task("repo__hello-1", "The greeting must be hi.")
SUBMIT = f"echo {MARKER}"


def call(arguments: str, name: str = "bash", call_id: str = "c1") -> ToolCall:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def response(*calls: ToolCall, **fields: Any) -> ModelResponse:
    return replace(ModelResponse("", tool_calls=calls), **fields)


LS = call('{"command": "ls"}')


@pytest.mark.parametrize(
    ("given_response", "expected"),
    [
        (response(LS), Action("ls")),
        (response(call('{"command": "a\\nb", "why": "x"}')), Action("a\nb")),
        (response(call('{"command": "a\\u0000b \\ud800"}')), Action("ab ?")),
        (response(), FormatError("format", 0)),
        (response(text="```bash\nls\n```"), FormatError("format", 0)),
        (response(LS, call('{"command": "pwd"}', call_id="c2")), FormatError("format", 2)),
        (response(LS, call("{", call_id="c2")), FormatError("format", 2)),
        (response(LS, finish_reason="length"), FormatError("truncated", 1)),
        (response(call('{"comm'), finish_reason="length"), FormatError("truncated", 1)),
    ],
)
def test_what_a_response_asks_for(given_response: ModelResponse, expected: object) -> None:
    assert parse_tool_calls(given_response) == expected


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        (call("ls"), "not valid JSON"),
        (call('["ls"]'), "no object with a text 'command'"),
        (call("{}"), "no object with a text 'command'"),
        (call('{"command": 7}'), "no object with a text 'command'"),
        (call('{"command": " \\n"}'), "the command is empty"),
        (call('{"command": "ls"}', name="python"), "no tool 'python'"),
    ],
)
def test_a_faulty_call_is_named(faulty: ToolCall, fault: str) -> None:
    error = parse_tool_calls(response(faulty))
    assert isinstance(error, FormatError)
    assert (error.kind, error.found) == ("format", 0)
    assert fault in error.fault


@given(st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_every_call_is_answered_and_readable_again(calls: list[tuple[str, str]]) -> None:
    style = style_of("tools")
    made = [call(arguments, name, f"c{number}") for number, (name, arguments) in enumerate(calls)]
    said = style.said(response(*made))
    assert [entry["id"] for entry in said.get("tool_calls", [])] == [entry["id"] for entry in made]
    for entry, original in zip(said.get("tool_calls", []), made, strict=True):
        arguments = json.loads(entry["function"]["arguments"])
        assert isinstance(arguments, dict)
        assert original["function"]["arguments"] in (entry["function"]["arguments"], arguments.get("not_json"))
    answers = style.answer(made, "told")
    assert len(answers) == max(1, len(made))
    assert [answer.get("tool_call_id", "") for answer in answers] == ([entry["id"] for entry in made] or [""])
    assert {answer["role"] for answer in answers} == ({"tool"} if made else {"user"})


@given(st.text(), st.integers(0, 2))
def test_exactly_one_command_or_an_error_with_another_number(command: str, others: int) -> None:
    calls = [call(json.dumps({"command": command}), call_id=f"c{n}") for n in range(others + 1)]
    parsed = parse_tool_calls(response(*calls))
    if others or not command.replace("\0", "").strip():
        assert isinstance(parsed, FormatError)
        assert parsed.found == (others + 1 if others else 0)
    else:
        assert isinstance(parsed, Action)


Play = Callable[..., Any]


@pytest.fixture
def play(sandbox: Sandbox, tmp_path: Path) -> Play:
    async def run(*turns: ModelResponse, **changes: Any) -> Trajectory:
        recorded = [RecordedTurn(turn.text, turn.finish_reason, None, turn.tool_calls) for turn in turns]
        prompts = load_prompts(style="tools")
        settings = replace(SETTINGS, **changes)
        return await run_agent(TASK, ReplayModel(recorded), sandbox, settings, prompts, directory=tmp_path / "run")

    return run


async def test_a_run_by_tool_calls(play: Play, tmp_path: Path) -> None:
    trajectory = await play(tool_turn("sed -i 's/hello /hi /' hello.py", "Edit."), tool_turn(SUBMIT, call_id="c2"))
    assert trajectory.status is AgentStatus.SUBMITTED
    assert b"+print('hi world')" in trajectory.patch
    assert [message["role"] for message in trajectory.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert trajectory.messages[3]["tool_call_id"] == "call_1"
    assert trajectory.messages[3]["content"].startswith("Exit code: 0")
    assert "```" not in trajectory.messages[0]["content"] + trajectory.messages[1]["content"]
    assert load_trajectory(tmp_path / "run") == trajectory
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert (meta["settings"]["action_style"], meta["prompts"]["name"]) == ("tools", "tools")


async def test_errors_are_told_in_the_form_of_the_calls_and_nothing_is_run(play: Play, sandbox: Any) -> None:
    two = response(LS, call('{"command": "touch b"}', call_id="c2"))
    trajectory = await play(response(text="Done."), two, response(call("ls")), tool_turn(SUBMIT), max_format_errors=9)
    assert [(step.error, step.found) for step in trajectory.steps[:3]] == [("format", 0), ("format", 2), ("format", 0)]
    told = [message for message in trajectory.messages[2:] if message["role"] in ("user", "tool")]
    assert [message.get("tool_call_id") for message in told] == [None, "c1", "c2", "c1"]
    assert "calls no tool" in told[0]["content"]
    assert "2 tool calls" in told[1]["content"]
    assert "not valid JSON" in told[3]["content"]
    assert sandbox.commands == [SUBMIT]
    assert trajectory.steps[2].tool_calls[0]["function"]["arguments"] == "ls"


async def test_a_recorded_run_by_tool_calls_plays_again(play: Play, tmp_path: Path) -> None:
    first = await play(tool_turn("echo x > y"), tool_turn(SUBMIT))
    turns = [
        turn for turn in turns_for(load_recordings(tmp_path / "run"), TASK.instance_id) if not isinstance(turn, str)
    ]
    assert [turn.tool_calls for turn in turns] == [step.tool_calls for step in first.steps]


def test_a_recording_with_faulty_calls_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"turns": [{"text": "", "tool_calls": [{"id": "x"}]}]}))
    with pytest.raises(UsageError, match="tool_calls"):
        load_recordings(tmp_path / "r.json")


@pytest.mark.parametrize("name", STYLE_NAMES)
def test_each_style_has_its_prompts(name: str) -> None:
    style = style_of(name)  # type: ignore[arg-type]
    prompts = load_prompts(style=style.name)
    error = prompts.format_error(found=2, fault="", cwd="/testbed", step_limit=5, exec_timeout=9.0, marker=MARKER)
    assert "2 " in error
    assert list(style.tools) == ([BASH_TOOL] if name == "tools" else [])
