"""Reads what an OpenAI-compatible chat endpoint answers. Pure: JSON in, `ModelResponse` or a reason out."""

import json
import re
from typing import Any

from swe_agent.models import FinishReason, ModelResponse, ToolCall

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "max_tokens": "length",
}
_TOO_LONG = re.compile(
    r"context[ _]length|context[ _]window|context[ _]size|max(?:imum)?[ _](?:context|model[ _]len)"
    r"|(?:prompt|input|request|messages?)\b.{0,60}\btoo (?:long|large|many tokens)|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|input|prompt)",
    re.IGNORECASE | re.DOTALL,
)


class CompletionError(ValueError):
    """An answer with status 200 that holds no chat completion."""


def parse_completion(body: Any, latency: float) -> ModelResponse:
    """The first choice of a chat completion. Raises `CompletionError` when there is none."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        reasoning = _text(message.get("reasoning_content") or message.get("reasoning")) or None
        calls = _tool_calls(message.get("tool_calls"))
        finish = _FINISH.get(str(choice.get("finish_reason")), "other")
        usage = body.get("usage") or {}
        counts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CompletionError("it has no choices[0].message") from error
    prompt, completion = (count if isinstance(count, int) else None for count in counts)
    return ModelResponse(
        text=text,
        finish_reason=finish,
        reasoning=reasoning,
        prompt_tokens=prompt,
        completion_tokens=completion,
        latency=latency,
        tool_calls=calls,
    )


def _tool_calls(value: Any) -> tuple[ToolCall, ...]:
    """The calls of a message. Each gets an id where the server gave none: its answer must be able to name it."""
    calls: list[ToolCall] = []
    for number, entry in enumerate(value or [], 1):
        function = entry["function"]
        arguments = function.get("arguments")
        # Some servers send the object itself, others the text of it.
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        text = text.encode("utf-8", "replace").decode("utf-8")
        name = str(function.get("name") or "")
        calls.append(
            {
                "id": str(entry.get("id") or f"call_{number}"),
                "type": "function",
                "function": {"name": name, "arguments": text},
            }
        )
    return tuple(calls)


def _text(content: Any) -> str:
    """Content as text: a string, nothing at all, or a list of parts of which the text parts count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    raise TypeError("content is neither text nor a list of parts")


def error_text(body: Any, fallback: str) -> str:
    """The message of an error answer in any of the shapes in use, else the start of the raw text."""
    found = body
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    if isinstance(found, dict | list) or not found:
        found = fallback
    return " ".join(str(found).split())[:500]


def says_context_exceeded(body: Any, text: str) -> bool:
    """Whether a 400 answer means that the conversation is longer than the model's context."""
    error = body.get("error", body) if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code == "context_length_exceeded" or bool(_TOO_LONG.search(text))
