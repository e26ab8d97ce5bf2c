"""The two ways in which a model asks for a command, behind one protocol: fenced blocks and tool calls. Pure.

A style says what a request carries beside the messages, what is to be run of a response, and how the conversation goes
on: the assistant's entry, and what answers it. Both styles promise the same: exactly one command a turn; anything else
is an error told to the model, and nothing of it is run.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from swe_agent.actions import Action, FormatError, parse_action
from swe_agent.models import Message, ModelResponse, ToolCall

StyleName = Literal["fenced", "tools"]
STYLE_NAMES: tuple[StyleName, ...] = get_args(StyleName)

TOOL_NAME = "bash"
BASH_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Runs one command in a new bash in the repository's directory; returns what it prints.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command; it may have several lines."}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}


class ActionStyle(Protocol):
    """See the module's promise."""

    @property
    def name(self) -> StyleName: ...

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """What a request offers as `tools`; empty for none."""
        ...

    def parse(self, response: ModelResponse) -> Action | FormatError:
        """The one command to run, or why there is none."""
        ...

    def said(self, response: ModelResponse) -> Message:
        """The assistant's entry of the conversation."""
        ...

    def answer(self, tool_calls: Sequence[ToolCall], text: str) -> list[Message]:
        """What answers a response that made `tool_calls`: an observation, or why nothing was run."""
        ...


class FencedStyle:
    """One fenced bash block in the text; observations are the user's entries."""

    name: StyleName = "fenced"
    tools: Sequence[Mapping[str, Any]] = ()

    def parse(self, response: ModelResponse) -> Action | FormatError:
        return parse_action(response.text, response.finish_reason)

    def said(self, response: ModelResponse) -> Message:
        return {"role": "assistant", "content": response.text}

    def answer(self, tool_calls: Sequence[ToolCall], text: str) -> list[Message]:
        return [{"role": "user", "content": text}]


class ToolStyle:
    """One call of the tool `bash`; every call of a response is answered by an entry with its id.

    A response without any call is answered by the user. Requests leave `parallel_tool_calls` alone: servers that are
    told to allow no second call drop it unseen, and the first would run.
    """

    name: StyleName = "tools"
    tools: Sequence[Mapping[str, Any]] = (BASH_TOOL,)

    def parse(self, response: ModelResponse) -> Action | FormatError:
        return parse_tool_calls(response)

    def said(self, response: ModelResponse) -> Message:
        message: Message = {"role": "assistant", "content": response.text}
        if response.tool_calls:
            message["tool_calls"] = [_sendable(call) for call in response.tool_calls]
        return message

    def answer(self, tool_calls: Sequence[ToolCall], text: str) -> list[Message]:
        if not tool_calls:
            return [{"role": "user", "content": text}]
        return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in tool_calls]


_STYLES: Mapping[StyleName, ActionStyle] = {"fenced": FencedStyle(), "tools": ToolStyle()}


def style_of(name: StyleName) -> ActionStyle:
    """The style of that name."""
    return _STYLES[name]


def parse_tool_calls(response: ModelResponse) -> Action | FormatError:
    """The command of a response's only tool call, or why there is none."""
    calls = response.tool_calls
    if response.finish_reason == "length":
        return FormatError("truncated", len(calls))
    if len(calls) != 1:
        return FormatError("format", len(calls))
    command, fault = _command(calls[0])
    return FormatError("format", 0, fault) if fault else Action(command)


def _command(call: ToolCall) -> tuple[str, str]:
    """The command of a call and what is wrong with it; one of the two is empty."""
    function = call["function"]
    if function["name"] != TOOL_NAME:
        return "", f"there is no tool {function['name']!r}, only {TOOL_NAME!r}"
    try:
        arguments = json.loads(function["arguments"])
    except ValueError as error:
        return "", f"the arguments are not valid JSON ({error})"
    command = arguments.get("command") if isinstance(arguments, dict) else None
    if not isinstance(command, str):
        return "", "the arguments are no object with a text 'command'"
    # No shell can be given a NUL or half a surrogate pair; JSON can carry both.
    command = command.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return (command, "") if command.strip() else ("", "the command is empty")


def _sendable(call: ToolCall) -> ToolCall:
    """A call as a server takes it back: templates read the arguments, and what is no JSON object makes them fail."""
    function = call["function"]
    try:
        readable = isinstance(json.loads(function["arguments"]), dict)
    except ValueError:
        readable = False
    if readable:
        return call
    wrapped = json.dumps({"not_json": function["arguments"]}, ensure_ascii=False)
    return {**call, "function": {"name": function["name"], "arguments": wrapped}}
