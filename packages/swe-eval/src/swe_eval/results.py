"""What a run leaves behind: results.jsonl as attempts end, then summary.json and predictions.jsonl.

Every attempt has exactly one row in results.jsonl and is in exactly one class, so the classes of a summary always sum
to its total. All three files can be made again from results.jsonl and the attempts' directories.
"""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.files import read_jsonl, write_atomic, write_json

from swe_eval.stats import wilson_interval
from swe_eval.verdicts import VerdictClass

SCHEMA = 1
RESULTS, SUMMARY, PREDICTIONS = "results.jsonl", "summary.json", "predictions.jsonl"
NOT_JUDGED = frozenset({VerdictClass.INFRA_ERROR, VerdictClass.AGENT_ERROR, VerdictClass.NOT_RUN})
"""Classes that say nothing about the model; with any of them the exit code is 1."""


class RecordError(Exception):
    """The records of a run cannot be written; its text says why. The run stops, what is recorded stays."""


class AttemptResult(BaseModel):
    """One row of results.jsonl.

    Attributes:
        exit_status: how the agent's run ended (`AgentStatus`), empty when there was none.
        patch_source: where the patch came from: `diff`, `submission`, `snapshot` or `none`.
        f2p, p2p: [passed, listed] of FAIL_TO_PASS and PASS_TO_PASS.
        elapsed: wall seconds from the first lease asked for to the verdict; queueing included.
        run_dir: the attempt's directory, relative to the run's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: int = SCHEMA
    instance_id: str
    attempt: int = 0
    class_: VerdictClass
    resolved: bool
    resolved_strict: bool = False
    flags: tuple[str, ...] = ()
    exit_status: str = ""
    patch_source: str = "none"
    n_steps: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    f2p: tuple[int, int] = (0, 0)
    p2p: tuple[int, int] = (0, 0)
    image: str = ""
    error: str = ""
    elapsed: float = 0.0
    finished_at: str = ""
    run_dir: str = ""

    def to_row(self) -> dict[str, Any]:
        """The row as JSON types; `class` and `schema` without the underscore that Python needs."""
        values = self.model_dump(mode="json")
        return {key.rstrip("_"): value for key, value in values.items()}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "AttemptResult":
        """The inverse of `to_row`; raises pydantic's ValidationError for anything else."""
        return cls.model_validate(
            {f"{key}_" if key in {"class", "schema"} else key: value for key, value in row.items()}
        )


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_results(directory: Path) -> list[AttemptResult]:
    """All rows of a run so far, one per attempt: of a repeated one the last counts. Raises `UsageError`."""
    latest: dict[tuple[str, int], AttemptResult] = {}
    try:
        for row in read_jsonl(directory / RESULTS):
            result = AttemptResult.from_row(row)
            latest[result.instance_id, result.attempt] = result
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{directory / RESULTS} cannot be read: {error}; mend it or pass --fresh") from error
    return list(latest.values())


def summarize(results: Sequence[AttemptResult], *, model: str, data: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a run. `classes` names all eleven and sums to `total`; averages are over attempts that ran."""
    counts = Counter(result.class_ for result in results)
    resolved = sum(result.resolved for result in results)
    bounds = wilson_interval(resolved, len(results))
    ran = [result for result in results if result.class_ is not VerdictClass.NOT_RUN]
    return {
        "schema": SCHEMA,
        "total": len(results),
        "resolved": resolved,
        "resolve_rate": resolved / len(results) if results else 0.0,
        "resolve_rate_interval95": [bounds.low, bounds.high],
        "classes": {name.value: counts[name] for name in VerdictClass},
        "model": model,
        "data": data,
        "avg_steps": statistics.fmean(result.n_steps for result in ran) if ran else 0.0,
        "avg_elapsed_s": statistics.fmean(result.elapsed for result in ran) if ran else 0.0,
        "timestamp": now(),
        "args": dict(args),
    }


def prediction(result: AttemptResult, patch: bytes, model: str) -> dict[str, str]:
    """One line in SWE-bench's prediction form. Bytes that are no UTF-8 are replaced: that form holds text only."""
    return {
        "instance_id": result.instance_id,
        "model_name_or_path": model,
        "model_patch": patch.decode("utf-8", "replace"),
    }


def write_summary(directory: Path, summary: Mapping[str, Any]) -> None:
    write_json(directory / SUMMARY, summary)


def write_predictions(directory: Path, results: Iterable[AttemptResult], model: str) -> None:
    """predictions.jsonl from the attempts' patch.diff files; attempts that left none are not in it."""
    lines = []
    for result in results:
        path = directory / result.run_dir / "patch.diff"
        if result.run_dir and path.is_file():
            lines.append(json.dumps(prediction(result, path.read_bytes(), model), ensure_ascii=False) + "\n")
    write_atomic(directory / PREDICTIONS, "".join(lines))
