"""Records of mini-swe-agent are read as what they are, in each of their forms."""

import json
from pathlib import Path
from typing import Any

import pytest
from swe_agent.cli import run
from swe_agent.mini import is_mini, read_mini
from swe_agent.runs import find_runs, open_run
from swe_agent.trajectory import AgentStatus, TrajectoryError

MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
OPENING: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "the issue"}]


def said(text: str, **extra: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"extra": extra} if extra else {})}


def user(text: str, **extra: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **({"extra": extra} if extra else {})}


def block(command: str, language: str = "bash") -> str:
    return f"THOUGHT: go\n\n```{language}\n{command}\n```"


def seen(code: int, output: str) -> str:
    return f"<returncode>{code}</returncode>\n<output>\n{output}</output>"


VERSION_1: list[dict[str, Any]] = [
    *OPENING,
    said(block("ls")),
    user(seen(0, "a\nb\n")),
    said("no block"),
    user("Please always provide EXACTLY ONE action."),
    said(block("sleep 99", "mswea_bash_command")),
    user("The last command timed out."),
    said(block("seq 9")),
    user("<returncode>1</returncode>\n<output_head>\n1\n</output_head>\n<elided_chars>\n9\n</elided_chars>\n"
         "<output_tail>\n9\n</output_tail>"),
    said(block(f"echo {MARKER} && git diff --cached")),
    user(DIFF),
]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        VERSION_1,
        {
            "info": {"exit_status": "Submitted", "submission": DIFF},
            "messages": VERSION_1,
            "trajectory_format": "mini-swe-agent-1",
        },
    ],
)
def test_version_1(value: Any) -> None:
    assert is_mini(value)
    trajectory, environment = read_mini(value, "i-1")
    assert (trajectory.instance_id, trajectory.status, environment) == ("i-1", AgentStatus.SUBMITTED, {})
    assert (trajectory.patch.decode(), trajectory.patch_source) == (DIFF, "submission")
    steps = trajectory.steps
    assert [step.action for step in steps] == ["ls", None, "sleep 99", "seq 9", f"echo {MARKER} && git diff --cached"]
    assert [step.returncode for step in steps] == [0, None, None, 1, 0]
    assert (steps[1].error, steps[1].found) == ("format", 0)
    assert steps[0].output == "a\nb\n"
    assert (steps[3].output, steps[3].truncated) == ("1\n9", True)
    assert steps[4].output == f"{MARKER}\n{DIFF}"
    assert len(trajectory.messages) == len(VERSION_1)


def version_2() -> dict[str, Any]:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}} for n in (1, 2)]
    usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    both = said("Two.", actions=[{"command": "ls"}, {"command": "false"}], timestamp=102.0, response=usage)
    return {
        "info": {
            "exit_status": "LimitsExceeded",
            "submission": "",
            "config": {"environment": {"image": "i:1", "cwd": "/repo", "timeout": 30, "env": {"PAGER": "cat"}}},
        },
        "messages": [
            OPENING[0],
            {**OPENING[1], "extra": {"timestamp": 100.0}},
            {**both, "tool_calls": calls, "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c1", **user("", raw_output="a\n", returncode=0, timestamp=103.0)}
            | {"role": "tool"},
            {"role": "tool", "tool_call_id": "c2", **user("", raw_output="", returncode=1)} | {"role": "tool"},
            user("one call, please", interrupt_type="FormatError", n_actions=2, model_response="two blocks"),
            said("Slow.", actions=[{"command": "sleep 99"}]),
            user("", raw_output="", returncode=-1, exception_type="TimeoutExpired", exception_info="late"),
            {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded", "submission": ""}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }


def test_version_2() -> None:
    trajectory, environment = read_mini(version_2(), "i-2")
    assert (trajectory.status, trajectory.patch_source) == (AgentStatus.STEP_LIMIT, "none")
    steps = trajectory.steps
    assert [step.index for step in steps] == [1, 2, 3, 4]
    assert [step.action for step in steps] == ["ls", "false", None, "sleep 99"]
    assert [step.returncode for step in steps] == [0, 1, None, -1]
    assert (steps[0].output, steps[0].reasoning, len(steps[0].tool_calls)) == ("a\n", "hm", 2)
    assert (steps[0].model_s, steps[0].exec_s) == (2.0, 1.0)
    assert (steps[0].prompt_tokens, steps[0].completion_tokens, trajectory.completion_tokens) == (7, 3, 3)
    assert (steps[2].response, steps[2].found) == ("two blocks", 2)
    assert steps[3].timed_out
    assert environment["image"] == "i:1"
    assert "exit" not in {message["role"] for message in trajectory.messages}


def test_the_responses_api_of_version_2() -> None:
    answer = {
        "object": "response",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Look."}]},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
        ],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}]},
    }
    opening = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "the issue"}]},
    ]
    result = {"type": "function_call_output", "call_id": "c1", "output": "shown"} | {
        "extra": {"raw_output": "a", "returncode": 0}
    }
    value = {"info": {}, "messages": [*opening, answer, result], "trajectory_format": "mini-swe-agent-1.1"}
    trajectory, _ = read_mini(value, "i")
    assert [(step.response, step.action, step.output) for step in trajectory.steps] == [("Look.", "ls", "a")]
    assert [message["role"] for message in trajectory.messages] == ["user", "assistant", "tool"]
    assert trajectory.messages[0]["content"] == "the issue"


def test_other_endings_are_a_fault_of_the_run() -> None:
    value = version_2()
    value["info"]["exit_status"] = "RateLimitError"
    trajectory, _ = read_mini(value, "i")
    assert (trajectory.status, trajectory.error) == (AgentStatus.AGENT_ERROR, "RateLimitError")


def test_files_are_found_shown_and_tell_their_setup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "i-2" / "i-2.traj.json"
    file.parent.mkdir()
    file.write_text(json.dumps(version_2()))
    assert list(find_runs(tmp_path)) == [file]
    opened = open_run(file.parent)
    assert (opened.name, opened.setup.image, opened.setup.cwd) == ("i-2", "i:1", "/repo")
    assert (opened.setup.exec_timeout, opened.setup.env, opened.setup.exact) == (30.0, {"PAGER": "cat"}, False)
    for argument in (file, file.parent, tmp_path):
        assert run(["show", str(argument)]) == 0
        assert "step_limit" in capsys.readouterr().out


@pytest.mark.parametrize("value", [[], [1], {}, {"messages": []}, {"schema": 1, "messages": [], "info": {}}, "x"])
def test_what_is_none_is_not_taken(value: Any) -> None:
    assert not is_mini(value)


@pytest.mark.parametrize("messages", [[5], [{"role": "assistant", "content": "x", "extra": {"actions": [{}]}}]])
def test_a_damaged_record_is_refused_with_its_file(tmp_path: Path, messages: Any) -> None:
    file = tmp_path / "a.traj.json"
    file.write_text(json.dumps({"info": {}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}))
    with pytest.raises(TrajectoryError, match=r"a\.traj\.json: no trajectory"):
        open_run(file)
