"""Reads what mini-swe-agent records: `.traj.json` files of its versions 1 and 2. Pure: JSON in, `Trajectory` out.

Version 1 wrote a bare list of messages, later `trajectory_format: mini-swe-agent-1`: commands stand in fenced blocks
of the text and results in the observations. Version 2 (`mini-swe-agent-1.1`) keeps commands, raw output and exit codes
in `extra` of each message, and may run several commands of one response: each becomes a step of its own here, the
response standing at the first. What a record does not tell stays empty: a step without an exit code has None.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from swe_agent.models import Message, ToolCall
from swe_agent.prompts import MARKER
from swe_agent.trajectory import AgentStatus, Step, Trajectory

FOREIGN_SUFFIX = ".traj.json"

_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n```", re.DOTALL)
_RETURNCODE = re.compile(r"<returncode>(-?\d+)</returncode>")
_OUTPUT = re.compile(r"<output>\n?(.*)</output>", re.DOTALL)
_CUT = re.compile(
    r"<output_head>\n?(.*?)\n?</output_head>.*?<output_tail>\n?(.*?)\n?</output_tail>",
    re.DOTALL,
)
_STATUS = {
    "Submitted": AgentStatus.SUBMITTED,
    "LimitsExceeded": AgentStatus.STEP_LIMIT,
    "TimeExceeded": AgentStatus.TIME_LIMIT,
    "RepeatedFormatError": AgentStatus.FORMAT_ERRORS,
    "ContextWindowExceededError": AgentStatus.CONTEXT_EXHAUSTED,
    "": AgentStatus.CANCELLED,
}


def is_mini(value: Any) -> bool:
    """Whether a JSON value is such a record."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, dict) and ("role" in entry or "type" in entry) for entry in value)
    if not isinstance(value, dict) or "schema" in value:
        return False
    known = str(value.get("trajectory_format", "")).startswith("mini-swe-agent")
    return isinstance(value.get("messages"), list) and (known or "info" in value)


def read_mini(value: Any, instance_id: str) -> tuple[Trajectory, Mapping[str, Any]]:
    """The trajectory, and the configuration of the environment (`image`, `cwd`, `env`, `timeout`; may be empty).

    Raises AttributeError, KeyError, TypeError or ValueError for what `is_mini` took and is none.
    """
    entries: Sequence[Mapping[str, Any]] = value if isinstance(value, list) else value["messages"]
    info = {} if isinstance(value, list) else dict(value.get("info") or {})
    turns, opening = _turns(entries)
    ending = turns[-1].ending if turns else None
    exit_status = str(info.get("exit_status") or _extra(ending or {}).get("exit_status") or "")
    submission = str(info.get("submission") or _extra(ending or {}).get("submission") or "")
    steps: list[Step] = []
    for turn in turns:
        steps += _steps(turn, len(steps) + 1)
    if not exit_status and steps and _hands_in(steps[-1]):
        exit_status = "Submitted"  # version 1 told it by its last message alone
        submission = submission or (_text(turns[-1].answers[-1]) if turns[-1].answers else "")
    if exit_status == "Submitted" and steps:
        steps[-1] = replace(steps[-1], returncode=0, output=f"{MARKER}\n{submission}", observation="")
    times = [time for entry in entries if (time := _time(entry)) is not None]
    status = _STATUS.get(exit_status, AgentStatus.AGENT_ERROR)
    patch = submission.encode("utf-8", "replace") if "diff " in submission else b""
    trajectory = Trajectory(
        instance_id=str(info.get("instance_id") or instance_id),
        status=status,
        error="" if exit_status in _STATUS else exit_status,
        steps=steps,
        messages=[*opening, *(message for turn in turns for message in turn.messages())],
        patch=patch,
        patch_source="submission" if patch else "none",
        started_at=datetime.fromtimestamp(times[0], UTC).isoformat(timespec="milliseconds") if times else "",
        elapsed=times[-1] - times[0] if times else 0.0,
    )
    return trajectory, dict((info.get("config") or {}).get("environment") or {})


@dataclass
class _Turn:
    """An assistant's entry (None where only its refusal was kept) and what answered it, up to the next."""

    said: Mapping[str, Any] | None
    before: float | None
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    ending: Mapping[str, Any] | None = None

    def messages(self) -> list[Message]:
        entries = [entry for entry in (self.said, *self.answers) if entry is not None]
        return [_message(entry) for entry in entries]


def _turns(entries: Sequence[Mapping[str, Any]]) -> tuple[list[_Turn], list[Message]]:
    opening: list[Message] = []
    turns: list[_Turn] = []
    last: float | None = None
    for entry in entries:
        extra = _extra(entry)
        if _is_assistant(entry):
            turns.append(_Turn(entry, last))
        elif extra.get("interrupt_type") == "FormatError" and (not turns or turns[-1].answers):
            turns.append(_Turn(None, last, [entry]))
        elif not turns:
            opening.append(_message(entry))
        elif entry.get("role") == "exit" or "exit_status" in extra:
            turns[-1].ending = entry
        else:
            turns[-1].answers.append(entry)
        last = _time(entry) or last
    return turns, opening


def _steps(turn: _Turn, index: int) -> list[Step]:
    if turn.said is None:
        extra = _extra(turn.answers[0])
        found = extra.get("n_actions")
        response = str(extra.get("model_response") or "")
        return [Step(index, response, error="format", found=found or 0, observation=_text(turn.answers[0]))]
    usage = (_extra(turn.said).get("response") or {}).get("usage") or {}
    base = Step(
        index,
        _text(turn.said),
        reasoning=turn.said.get("reasoning_content"),
        tool_calls=_calls(turn.said),
        model_s=max(0.0, (_time(turn.said) or 0.0) - turn.before) if turn.before and _time(turn.said) else 0.0,
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
    )
    commands = _commands(turn.said)
    if not commands or ("actions" not in _extra(turn.said) and len(commands) != 1):
        told = "\n".join(_text(answer) for answer in turn.answers)
        return [replace(base, error="format", found=len(commands), observation=told)]
    steps = []
    for number, command in enumerate(commands):
        empty = Step(index + number, "", prompt_tokens=None)
        step = replace(base if number == 0 else empty, action=command)
        answer = turn.answers[number] if number < len(turn.answers) else None
        steps.append(step if answer is None else _with_result(step, answer, _time(turn.said)))
    return steps


def _with_result(step: Step, answer: Mapping[str, Any], asked: float | None) -> Step:
    extra, text = _extra(answer), _text(answer)
    ended = _time(answer)
    step = replace(step, observation=text, exec_s=max(0.0, ended - asked) if ended and asked else 0.0)
    if "raw_output" in extra:
        output = str(extra["raw_output"])
        timed_out = extra.get("exception_type") == "TimeoutExpired"
        size = len(output.encode("utf-8", "replace"))
        return replace(step, returncode=extra.get("returncode"), output=output, output_bytes=size, timed_out=timed_out)
    code = _RETURNCODE.search(text)
    if code is None:
        return step
    whole, cut = _OUTPUT.search(text), _CUT.search(text)
    output = whole[1] if whole else "\n".join(cut.groups()) if cut else ""
    size = len(output.encode("utf-8", "replace"))
    return replace(
        step, returncode=int(code[1]), output=output, output_bytes=size, truncated=whole is None and bool(cut)
    )


def _commands(said: Mapping[str, Any]) -> list[str]:
    actions = _extra(said).get("actions")
    if actions is not None:
        return [str(action["command"]) for action in actions]
    return [match.strip() for match in _BLOCK.findall(_text(said))]


def _hands_in(step: Step) -> bool:
    return step.action is not None and MARKER in step.action and step.returncode is None


def _is_assistant(entry: Mapping[str, Any]) -> bool:
    return entry.get("role") == "assistant" or entry.get("object") == "response"


def _extra(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = entry.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _time(entry: Mapping[str, Any]) -> float | None:
    found = _extra(entry).get("timestamp", entry.get("timestamp"))
    return float(found) if isinstance(found, int | float) else None


def _text(entry: Mapping[str, Any]) -> str:
    """The text of an entry of either API; parts that are no text are left out."""
    content = entry.get("content", entry.get("output"))
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(_part_text(part) for part in parts if isinstance(part, Mapping))


def _part_text(part: Mapping[str, Any]) -> str:
    return _text(part) if isinstance(part.get("content"), list) else str(part.get("text") or "")


def _calls(said: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for call in said.get("tool_calls") or []:
        function = call["function"]
        name, arguments = str(function["name"]), function["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append({"id": str(call["id"]), "type": "function", "function": {"name": name, "arguments": text}})
    for item in said.get("output") or []:
        if isinstance(item, Mapping) and item.get("type") == "function_call":
            function_call = {"name": str(item["name"]), "arguments": str(item["arguments"])}
            calls.append(
                {
                    "id": str(item["call_id"]),
                    "type": "function",
                    "function": {"name": function_call["name"], "arguments": function_call["arguments"]},
                }
            )
    return tuple(calls)


def _message(entry: Mapping[str, Any]) -> Message:
    if entry.get("type") == "function_call_output":
        return {"role": "tool", "content": _text(entry), "tool_call_id": str(entry.get("call_id", ""))}
    if _is_assistant(entry):
        message: Message = {"role": "assistant", "content": _text(entry)}
        if calls := _calls(entry):
            message["tool_calls"] = list(calls)
        return message
    if entry.get("role") == "tool":
        return {"role": "tool", "content": _text(entry), "tool_call_id": str(entry.get("tool_call_id", ""))}
    return {"role": "system" if entry.get("role") == "system" else "user", "content": _text(entry)}
