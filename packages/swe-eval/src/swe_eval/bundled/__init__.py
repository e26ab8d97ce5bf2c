"""A small benchmark of our own, shipped inside the wheel: repositories, issues, tests and recorded solutions.

`sample_rows()` gives the tasks as SWE-bench rows. `recorded_turns("gold")` solves all of them;
`recorded_turns("mixed")`, one recording per task by `sample/mixed.json`, ends as `expected_classes("mixed")` lists.
"""

import json
from typing import Any

from swe_eval.bundled.identity import image_name
from swe_eval.bundled.tasks import SAMPLE, SAMPLE_NAMES, read_json, read_text, recordings, repo_files

__all__ = [
    "GOLD",
    "MIXED",
    "SAMPLE_NAMES",
    "expected_classes",
    "image_name",
    "recorded_turns",
    "recording_names",
    "recordings",
    "repo_files",
    "sample_rows",
]

GOLD = "gold"
MIXED = "mixed"


def sample_rows() -> list[dict[str, Any]]:
    """All tasks as rows with SWE-bench's columns, plus `image`, `test_cmd`, `log_parser` and `data_source`."""
    return [
        {
            **read_json(instance_id, "instance.json"),
            "problem_statement": read_text(instance_id, "issue.md"),
            "patch": read_text(instance_id, "gold.patch"),
            "test_patch": read_text(instance_id, "test.patch"),
            "image": image_name(instance_id),
        }
        for instance_id in SAMPLE_NAMES
    ]


def recording_names() -> list[str]:
    """Names for `replay:<name>`: `gold` (every task), `mixed` (every task), then those that only some tasks have."""
    others = {name for instance_id in SAMPLE_NAMES for name in recordings(instance_id)} - {GOLD, MIXED}
    return [GOLD, MIXED, *sorted(others)]


def recorded_turns(name: str) -> dict[str, list[str]]:
    """instance_id -> the assistant texts of recording `name`, for those tasks that have it.

    Raises KeyError, with the known names, for an unknown one.
    """
    return {instance_id: list(record["turns"]) for instance_id, record in _chosen(name).items()}


def expected_classes(name: str) -> dict[str, str]:
    """instance_id -> the verdict class that recording `name` must end in, for those tasks that have it.

    Raises KeyError, with the known names, for an unknown one.
    """
    return {instance_id: str(record["expected_class"]) for instance_id, record in _chosen(name).items()}


def _chosen(name: str) -> dict[str, dict[str, Any]]:
    if name not in recording_names():
        raise KeyError(f"no recording {name!r}; there are {', '.join(recording_names())}")
    mixed: dict[str, str] = json.loads((SAMPLE / "mixed.json").read_bytes()) if name == MIXED else {}
    chosen = {}
    for instance_id in SAMPLE_NAMES:
        record = recordings(instance_id).get(mixed.get(instance_id, name))
        if record is not None:
            chosen[instance_id] = record
    return chosen
