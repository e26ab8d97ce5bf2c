"""Recorded turns played again: the same text, whatever is observed. One `ReplayModel` plays one conversation.

A recording is a JSON or JSON Lines file of `{"instance_id": ..., "turns": [...]}` objects, a JSON object from instance
id to turns, a `traj.json`, a directory of an attempt, or a directory of such directories. A turn is the text, or
`{"text": ..., "finish_reason": ..., "tool_calls": [...]}` with calls as the OpenAI API has them. One object without
`instance_id` fits every instance.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from swe_exec_server.common.errors import UsageError

from swe_agent.models import FinishReason, Message, ModelResponse, ReplayExhausted, ToolCall

ANY_INSTANCE = "*"
_CALLS = TypeAdapter(tuple[ToolCall, ...])


@dataclass(frozen=True)
class RecordedTurn:
    """What a model once said, and how it ended."""

    text: str
    finish_reason: FinishReason = "stop"
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


class ReplayModel:
    """Plays `turns` in order, then raises `ReplayExhausted`."""

    def __init__(self, turns: Sequence[str | RecordedTurn], name: str = "replay") -> None:
        self._turns = [turn if isinstance(turn, RecordedTurn) else RecordedTurn(turn) for turn in turns]
        self._next = 0
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def respond(self, messages: Sequence[Message]) -> ModelResponse:
        if self._next >= len(self._turns):
            raise ReplayExhausted(f"all {len(self._turns)} recorded turns have been played")
        turn = self._turns[self._next]
        self._next += 1
        return ModelResponse(turn.text, turn.finish_reason, turn.reasoning, tool_calls=turn.tool_calls)

    async def close(self) -> None:
        return None


Recordings = Mapping[str, Sequence[str | RecordedTurn]]
"""Turns by instance id; `ANY_INSTANCE` fits those that have none of their own."""


def load_recordings(path: Path) -> Recordings:
    """Read a recording in any of the forms above. Raises `UsageError` that names the place."""
    if path.is_dir():
        return _from_directory(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"recording {path}: cannot be read ({error})") from error
    if path.suffix == ".jsonl":
        documents = [(f"{path}, line {n}", line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    else:
        documents = [(str(path), text)]
    found: dict[str, Sequence[str | RecordedTurn]] = {}
    for place, document in documents:
        for instance_id, turns in _from_document(_loads(document, place), place).items():
            if instance_id in found:
                raise UsageError(f"{place}: a second recording for {instance_id!r}; keep one")
            found[instance_id] = turns
    if not found:
        raise UsageError(f"recording {path}: no turns in it")
    return found


def turns_for(recordings: Recordings, instance_id: str) -> Sequence[str | RecordedTurn]:
    """The turns recorded for an instance. Raises `UsageError` when there are none."""
    turns = recordings.get(instance_id, recordings.get(ANY_INSTANCE))
    if turns is None:
        raise UsageError(
            f"no recorded turns for {instance_id!r}; the recording has {', '.join(sorted(recordings)[:10])}"
        )
    return turns


def _loads(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{place}: not JSON ({error}); a file of one object a line must end in .jsonl") from error


def _from_directory(path: Path) -> Recordings:
    single = path / "traj.json"
    files = [single] if single.is_file() else sorted(path.glob("*/traj.json"))
    if not files:
        raise UsageError(f"recording {path}: no traj.json in it")
    found: dict[str, Sequence[str | RecordedTurn]] = {}
    for file in files:  # the first attempt of an instance counts
        for instance_id, turns in load_recordings(file).items():
            found.setdefault(instance_id, turns)
    return found


def _from_document(value: Any, place: str) -> Recordings:
    entries = value if isinstance(value, list) else [value]
    found: dict[str, Sequence[str | RecordedTurn]] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise UsageError(
                f"{place}: a recording is an object with instance_id and turns, not {type(entry).__name__}"
            )
        if isinstance(entry.get("steps"), list):
            turns = [_turn(step, "response", place) for step in entry["steps"]]
            found[str(entry.get("instance_id") or ANY_INSTANCE)] = turns
        elif "turns" in entry:
            found[str(entry.get("instance_id") or ANY_INSTANCE)] = _turns(entry["turns"], place)
        else:
            found.update({key: _turns(turns, f"{place}, {key!r}") for key, turns in entry.items()})
    return found


def _turns(value: Any, place: str) -> list[RecordedTurn]:
    if not isinstance(value, list):
        raise UsageError(f"{place}: turns must be a list of texts")
    return [_turn(entry, "text", place) for entry in value]


def _turn(entry: Any, key: str, place: str) -> RecordedTurn:
    if isinstance(entry, str):
        return RecordedTurn(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
        raise UsageError(f"{place}: a turn is a text or an object with {key!r}")
    finish = entry.get("finish_reason", "stop")
    if finish not in get_args(FinishReason):
        raise UsageError(f"{place}: finish_reason must be one of {', '.join(get_args(FinishReason))}, not {finish!r}")
    try:
        calls = _CALLS.validate_python(entry.get("tool_calls") or ())
    except ValidationError as error:
        raise UsageError(f"{place}: tool_calls: {error.errors(include_url=False)[0]['msg']}") from error
    return RecordedTurn(entry[key], finish, entry.get("reasoning"), calls)
