"""What a model is to the loop: messages in, one response out. The whole vocabulary, no I/O.

A model that cannot answer raises one of the three exceptions below; each ends the run with a status of its own.
A model belongs to whoever made it: the loop never closes one, so many runs may share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, Protocol

from typing_extensions import TypedDict  # pydantic reads it, and wants this one before Python 3.12

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "other"]


class ToolFunction(TypedDict):
    """What a tool call asks for. `arguments` is JSON, as text."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """One tool call of a response, in the shape of the OpenAI API."""

    id: str
    type: Literal["function"]
    function: ToolFunction


class Message(TypedDict):
    """One entry of the conversation, in the shape of the OpenAI API.

    An assistant's entry may hold tool calls; each is answered by an entry with role `tool` and its id.
    """

    role: Role
    content: str
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]


@dataclass(frozen=True)
class ModelResponse:
    """One answer.

    Attributes:
        text: what the conversation goes on with.
        finish_reason: `length` when the answer was cut by a token limit.
        reasoning: thoughts that the server returned apart from the text; never parsed for commands.
        tool_calls: calls in the order made, arguments as the model wrote them, be they JSON or not.
        prompt_tokens: tokens that the model read, None when not told.
        completion_tokens: tokens that it wrote, reasoning included, None when not told.
        latency: wall seconds of the request that was answered; retries before it are not counted.
    """

    text: str
    finish_reason: FinishReason = "stop"
    reasoning: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float = 0.0
    tool_calls: tuple[ToolCall, ...] = ()


class Model(Protocol):
    """Answers conversations. Safe for many at once unless the implementation says otherwise.

    One that also has an attribute `sampling` (JSON types, no secrets) gets it recorded in meta.json.
    """

    @property
    def name(self) -> str: ...

    async def respond(self, messages: Sequence[Message]) -> ModelResponse:
        """Raises `ModelLost`, `ContextExhausted` or `ReplayExhausted`."""
        ...

    async def close(self) -> None: ...


class ModelLost(Exception):
    """The server is dead or refuses us for good. Its text is one line: what happened and what to do."""


class ContextExhausted(Exception):
    """The conversation no longer fits the model's context."""


class ReplayExhausted(Exception):
    """All recorded turns have been played."""
