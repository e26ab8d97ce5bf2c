"""Every row shape in use becomes an `Instance`; the shape is recognised row by row.

| shape | recognised by |
|---|---|
| slime | `metadata` holds `instance` (object or JSON text); the prompt is `text` |
| SkyRL, SWE-Gym | `instance` (object or JSON text) beside `prompt` (text or messages) and `data_source` |
| SWE-bench, original and from version 5 on, and rows with a test command of their own | the columns themselves |

Columns may be mixed: what the inner instance lacks is taken from the outer row. A wrong row raises `RowError`, one line
with its file, its line and what is missing.
"""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from swe_eval.instances import DEFAULT_CWD, EVAL_TYPES, PASS_AND_FAIL, Instance, Prompt

Row = Mapping[str, Any]

IMAGE_COLUMNS = ("image", "image_name", "docker_image")
_SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
LONGEST_ID = 200
"""Characters; with the attempt's number the id is a directory's name, which file systems end at 255 bytes."""


class RowError(ValueError):
    """A row that cannot be used: where it stands and what is wrong with it."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where
        self.problem = problem


@dataclass(frozen=True)
class _Shaped:
    """A row with its wrapping taken off."""

    columns: Row
    data_source: str | None
    prompt: Prompt | None


def instance_from_row(row: object, where: str = "", *, need_issue: bool = True) -> Instance:
    """The instance of one row. Raises `RowError`.

    `need_issue=False` accepts rows without an issue text: enough to grade a log, not to run an agent.
    """
    if not isinstance(row, Mapping):
        raise RowError(where, f"a row must be a JSON object, this is {_kind(row)}")
    shaped = _unwrap(row, where)
    columns = shaped.columns
    instance_id = _instance_id(columns, where)
    fail_to_pass = _tests(columns, "FAIL_TO_PASS", where)
    pass_to_pass = _tests(columns, "PASS_TO_PASS", where)
    if not fail_to_pass and not pass_to_pass:
        raise RowError(where, f"{instance_id} lists no tests: FAIL_TO_PASS and PASS_TO_PASS are both empty")
    problem = _text(columns, "problem_statement", where)
    if need_issue and not problem.strip() and not shaped.prompt:
        raise RowError(where, f"{instance_id} has neither problem_statement nor prompt")
    eval_type = _optional(columns, "eval_type", where) or PASS_AND_FAIL
    if eval_type not in EVAL_TYPES:
        raise RowError(where, f"{instance_id}: eval_type {eval_type!r} is not known; it is {' or '.join(EVAL_TYPES)}")
    return Instance(
        instance_id=instance_id,
        problem_statement=problem,
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        repo=_text(columns, "repo", where),
        base_commit=_text(columns, "base_commit", where),
        hints_text=_text(columns, "hints_text", where),
        patch=_text(columns, "patch", where).encode("utf-8", "surrogatepass"),
        test_patch=_text(columns, "test_patch", where).encode("utf-8", "surrogatepass"),
        version=_scalar(columns.get("version")),
        data_source=shaped.data_source,
        image=next(filter(None, (_optional(columns, name, where) for name in IMAGE_COLUMNS)), None),
        eval_script=_command(columns, "eval_script", where),
        test_cmd=_test_command(columns, where),
        log_parser=_optional(columns, "log_parser", where) or _optional(_install_config(columns), "log_parser", where),
        eval_type=eval_type,
        cwd=_cwd(columns, where),
        test_timeout=_seconds(columns, "test_timeout", where),
        created_at=_scalar(columns.get("created_at")),
        prompt=shaped.prompt,
        row=row,
        where=where,
    )


def _unwrap(row: Row, where: str) -> _Shaped:
    outer: Row = row
    metadata = _object(row.get("metadata"), "metadata", where)
    if metadata is not None and metadata.get("instance") is not None:
        outer = {**row, **metadata}
    inner = _object(outer.get("instance"), "instance", where)
    columns = outer if inner is None else {**outer, **{key: value for key, value in inner.items() if value is not None}}
    return _Shaped(
        columns=columns,
        data_source=_optional(outer, "data_source", where) or _optional(columns, "data_source", where),
        prompt=_prompt(row, where),
    )


def _object(value: object, name: str, where: str) -> Row | None:
    """`value` as an object; JSON text is read, absent and empty values are None."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError(where, f"{name} is text but no JSON ({error})") from error
    if value is None or value == "":
        return None
    if not isinstance(value, Mapping):
        raise RowError(where, f"{name} must be an object or its JSON text, this is {_kind(value)}")
    return value


def _prompt(row: Row, where: str) -> Prompt | None:
    """The prompt of an RL row, kept for export and for agents that want the row's own wording."""
    value = row.get("prompt") if row.get("prompt") is not None else row.get("text")
    if value is None or isinstance(value, str):
        return value or None
    if not isinstance(value, list | tuple):
        raise RowError(where, f"prompt must be text or a list of messages, this is {_kind(value)}")
    messages = []
    for message in value:
        if not isinstance(message, Mapping) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            raise RowError(where, "each message of prompt needs role and content as text")
        messages.append({"role": message["role"], "content": message["content"]})
    return tuple(messages) or None


def _instance_id(columns: Row, where: str) -> str:
    value = columns.get("instance_id")
    if not isinstance(value, str) or not value:
        raise RowError(where, f"no instance_id (columns: {', '.join(sorted(map(str, columns))) or 'none'})")
    if not _SAFE_ID.fullmatch(value):
        raise RowError(where, f"instance_id {_start(value)!r} is no safe file name: letters, digits and . _ + - only")
    if len(value) > LONGEST_ID:
        raise RowError(where, f"instance_id {_start(value)!r} has {len(value)} characters; {LONGEST_ID} are the most")
    return value


def _tests(columns: Row, name: str, where: str) -> tuple[str, ...]:
    """Test ids, given as a list or as its JSON (or Python) text. Truncated ids stay as they are."""
    value = columns.get(name)
    if value is None:
        raise RowError(where, f"{columns.get('instance_id')}: no {name}")
    if isinstance(value, str):
        value = _read_list(value, name, where)
    if not isinstance(value, list | tuple) or not all(isinstance(test, str) for test in value):
        raise RowError(where, f"{columns.get('instance_id')}: {name} must be a list of test ids")
    return tuple(value)


def _read_list(text: str, name: str, where: str) -> object:
    if not text.strip():
        return []
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise RowError(where, f"{name} is text but no JSON list") from error


def _text(columns: Row, name: str, where: str) -> str:
    value = columns.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RowError(where, f"{name} must be text, this is {_kind(value)}")
    return value


def _cwd(columns: Row, where: str) -> str:
    value = _optional(columns, "cwd", where) or DEFAULT_CWD
    if not value.startswith("/") or "\0" in value:
        raise RowError(where, f"cwd must be an absolute path, this is {_start(value)!r}")
    return value


def _command(columns: Row, name: str, where: str) -> str | None:
    """A text that a shell is to run: it can not hold a NUL."""
    value = _optional(columns, name, where)
    if value and "\0" in value:
        raise RowError(where, f"{name} holds a NUL character, which no shell takes")
    return value


def _optional(columns: Row, name: str, where: str) -> str | None:
    value = _text(columns, name, where)
    return value if value.strip() else None


def _install_config(columns: Row) -> Row:
    config = columns.get("install_config")
    return config if isinstance(config, Mapping) else {}


def _test_command(columns: Row, where: str) -> str | None:
    """`test_cmd` (text), `test_cmds` (a list, run in order), or either inside `install_config`."""
    for holder in (columns, _install_config(columns)):
        for name in ("test_cmd", "test_cmds"):
            value = holder.get(name)
            if isinstance(value, list | tuple) and value and all(isinstance(line, str) for line in value):
                return _command({name: "\n".join(value)}, name, where)
            if isinstance(value, str):
                if command := _command(holder, name, where):
                    return command
                continue
            if value:
                raise RowError(where, f"{name} must be text or a list of texts, this is {_kind(value)}")
    return None


def _seconds(columns: Row, name: str, where: str) -> float | None:
    value = columns.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise RowError(where, f"{name} must be a positive number of seconds, this is {value!r}")
    return float(value)


def _scalar(value: object) -> str:
    """Versions and dates come as text, numbers or dates, depending on the file format."""
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, date) else str(value)


def _start(text: str) -> str:
    """As much of a text as a message has room for."""
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(value: object) -> str:
    names = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}
    return names.get(type(value), type(value).__name__)
