"""`swe-eval grade-log`: one saved log becomes a verdict, without a container."""

import json
from pathlib import Path
from typing import Any

from swe_exec_server.common.errors import UsageError

from swe_eval.grading import ListedTests, grade_log
from swe_eval.parsers import UnknownParserError, parser_for, parser_named
from swe_eval.shapes import RowError, instance_from_row
from swe_eval.verdicts import Verdict

SHOWN = ("resolved", "resolved_strict", "class", "missing", "flags", "status", "f2p", "p2p", "parser", "rules")


def grade_saved_log(
    row_file: Path, log_file: Path, *, exit_code: int | None = None, parser: str | None = None
) -> dict[str, Any]:
    """What is printed as JSON: the verdict's evidence, `f2p` and `p2p` as [passed, of].

    The row needs instance_id, the two lists, and repo or log_parser unless `parser` is given. Raises `UsageError`.
    """
    row = _row(row_file)
    try:
        instance = instance_from_row(row, str(row_file), need_issue=False)
        chosen = parser_named(parser) if parser else parser_for(instance)
    except (RowError, UnknownParserError) as error:
        raise UsageError(str(error)) from error
    tests = ListedTests(instance.fail_to_pass, instance.pass_to_pass, chosen, instance.eval_type)
    try:
        log = log_file.read_bytes()
    except OSError as error:
        raise UsageError(f"--log {log_file}: cannot be read ({error.strerror})") from error
    return shown(grade_log(log, tests, exit_code=exit_code))


def shown(verdict: Verdict) -> dict[str, Any]:
    """The part of a verdict that a log can tell."""
    values = verdict.to_json()
    return {"schema": values["schema"], **{name: values[name] for name in SHOWN}}


def _row(path: Path) -> object:
    """One row: a JSON object, or the only line of a JSON Lines file."""
    try:
        rows = json.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise UsageError(f"--row {path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--row {path}: not one JSON object ({error})") from error
    if isinstance(rows, list) and len(rows) == 1:
        return rows[0]
    return rows
