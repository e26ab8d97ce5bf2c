"""The published schema is that of the types, and records keep to it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from swe_agent.cli import run
from swe_agent.models.scripted import tool_turn
from swe_agent.schemas import published_schema, render, trajectory_schema
from swe_agent.trajectory import AgentStatus, Step, Trajectory


def test_the_published_file_is_up_to_date() -> None:
    assert published_schema() == render(trajectory_schema()), "python -m swe_agent.schemas prints the new one"


def test_show_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--json-schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "traj.json"


def record(tmp_path: Path) -> Any:
    response = tool_turn("ls")
    steps = [
        Step(1, "```bash\nls\n```", action="ls", returncode=0, output="x", completion_tokens=3),
        Step(2, "", tool_calls=response.tool_calls, error="truncated", found=1, finish_reason="length"),
    ]
    messages: list[Any] = [{"role": "user", "content": "?"}]
    messages += [{"role": "assistant", "content": "", "tool_calls": list(response.tool_calls)}]
    messages += [{"role": "tool", "content": "told", "tool_call_id": "call_1"}]
    Trajectory("i", AgentStatus.SUBMITTED, steps=steps, messages=messages, patch=b"x").save(tmp_path)
    return json.loads((tmp_path / "traj.json").read_text())


def test_a_record_keeps_to_the_schema(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(trajectory_schema())
    jsonschema.validate(record(tmp_path), trajectory_schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["status"], "fine"),
        (["schema"], 99),
        (["patch", "sha256"], "x"),
        (["steps", 0, "index"], "one"),
        (["steps", 0, "finish_reason"], "tired"),
        (["messages", 0, "role"], "robot"),
    ],
)
def test_a_wrong_record_does_not(tmp_path: Path, path: list[Any], value: Any) -> None:
    content = target = record(tmp_path)
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, trajectory_schema())


def test_every_key_of_a_record_is_described_by_the_types(tmp_path: Path) -> None:
    schema = trajectory_schema()
    content = record(tmp_path)
    assert content.keys() == schema["properties"].keys() == set(schema["required"])
    assert content["steps"][0].keys() == schema["$defs"]["Step"]["properties"].keys()
    assert schema["$defs"]["Step"]["properties"]["returncode"]["description"].startswith("of the command")
