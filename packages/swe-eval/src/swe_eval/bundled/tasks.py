"""Reads the bundled tasks' files, byte for byte, from a checkout or an installed wheel alike.

A task is a directory `sample/<instance_id>/`: `instance.json`, `issue.md`, `history.json`, `repo/`, `gold.patch`,
`test.patch` and `recordings/<name>.json`.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

SAMPLE = files("swe_eval.bundled") / "sample"

SAMPLE_NAMES: tuple[str, ...] = tuple(
    sorted(entry.name for entry in SAMPLE.iterdir() if (entry / "instance.json").is_file())
)
"""The instance ids of all bundled tasks, sorted."""


def task_directory(instance_id: str) -> Traversable:
    """The directory of one task. Raises KeyError with the known ids for an unknown one."""
    if instance_id not in SAMPLE_NAMES:
        raise KeyError(f"no bundled task {instance_id!r}; there are {', '.join(SAMPLE_NAMES)}")
    return SAMPLE / instance_id


def read_json(instance_id: str, name: str) -> Any:
    """The parsed JSON file `name` of one task."""
    return json.loads((task_directory(instance_id) / name).read_bytes())


def read_text(instance_id: str, name: str) -> str:
    """The text file `name` of one task, with its line ends as they are (a patch may have CRLF lines)."""
    return (task_directory(instance_id) / name).read_bytes().decode()


def repo_files(instance_id: str) -> dict[str, bytes]:
    """The base tree of one task: POSIX path relative to the repository's root -> contents, sorted by path."""
    return dict(sorted(_walk(task_directory(instance_id) / "repo", "")))


def _walk(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        # Installers byte-compile every .py file of a wheel, the sample repositories' included.
        if entry.name == "__pycache__" or entry.name.endswith(".pyc"):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def recordings(instance_id: str) -> dict[str, dict[str, Any]]:
    """All recordings of one task by name; each has `name`, `why`, `expected_class` and `turns`."""
    directory = task_directory(instance_id) / "recordings"
    found = (json.loads(entry.read_bytes()) for entry in directory.iterdir() if entry.name.endswith(".json"))
    return {record["name"]: record for record in sorted(found, key=lambda record: str(record["name"]))}
