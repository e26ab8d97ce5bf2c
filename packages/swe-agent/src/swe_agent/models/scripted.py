"""A deterministic double: a function of the conversation says what the model says. For tests, load runs and demos.

The same script, seed and conversation give the same response and the same latency.
"""

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swe_agent.models import Message, ModelResponse, ToolCall
from swe_agent.styles import TOOL_NAME

Script = Callable[[Sequence[Message]], str | ModelResponse]


class ScriptedModel:
    """Answers with `script(messages)`.

    Args:
        script: gives the text, or a whole response (for finish reasons and token counts).
        latency: seconds, drawn evenly from [low, high] with `seed`; None answers at once.
        raise_at: call number (from 0) to the exception raised instead of an answer.
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        latency: tuple[float, float] | None = None,
        seed: int = 0,
        raise_at: Mapping[int, Exception] | None = None,
    ) -> None:
        self._script = script
        self._name = name
        self._latency = latency
        self._random = random.Random(seed)
        self._raise_at = dict(raise_at or {})
        self.calls = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def sampling(self) -> dict[str, Any]:
        return {"latency": list(self._latency)} if self._latency else {}

    async def respond(self, messages: Sequence[Message]) -> ModelResponse:
        call, self.calls = self.calls, self.calls + 1
        latency = self._random.uniform(*self._latency) if self._latency else 0.0
        if latency:
            await asyncio.sleep(latency)
        if call in self._raise_at:
            raise self._raise_at[call]
        answer = self._script(messages)
        if isinstance(answer, ModelResponse):
            return answer
        return ModelResponse(answer, latency=latency)

    async def close(self) -> None:
        return None


def tool_turn(command: str, thought: str = "", call_id: str = "call_1") -> ModelResponse:
    """A response that asks for one command by a tool call."""
    arguments = json.dumps({"command": command}, ensure_ascii=False)
    call: ToolCall = {"id": call_id, "type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
    return ModelResponse(thought, tool_calls=(call,))


def bash_turn(command: str, thought: str = "") -> str:
    """A response that holds one command, in a fence longer than any inside the command."""
    fence = "```"
    while fence in command:
        fence += "`"
    return f"{thought}\n\n{fence}bash\n{command}\n{fence}\n".lstrip()
