"""The directory of a run: found again by the same command, refused to another, held by one process at a time."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.files import write_json
from swe_exec_server.common.settings import flag_name

RUN_FILE = "run.json"
SCHEMA = 1


def default_directory(name: str, identity: Mapping[str, Any]) -> Path:
    """`runs/<name>-<hash of what makes the run what it is>`."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
    return Path("runs") / f"{name}-{digest[:10]}"


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first setting that differs, as `--flag: old, now new`; None when none does."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            return f"{flag_name(key)}: {old.get(key)!r} then, {new.get(key)!r} now"
    return None


def check(directory: Path, identity: Mapping[str, Any]) -> bool:
    """Whether the directory holds an earlier start of this run. Writes nothing.

    Raises `UsageError` when it belongs to a run with other settings, or holds something else.
    """
    record = directory / RUN_FILE
    if not record.is_file():
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty and holds no run; use another --output-dir")
        return False
    try:
        old = json.loads(record.read_text(encoding="utf-8"))["identity"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{record} cannot be read ({error}); use another --output-dir or --fresh") from error
    difference = first_difference(old, json.loads(json.dumps(identity, default=str)))
    if difference:
        raise UsageError(
            f"{directory} holds a run with other settings ({difference}); use another --output-dir or --fresh"
        )
    return True


def claim(directory: Path, identity: Mapping[str, Any], *, fresh: bool) -> bool:
    """Make the directory this run's. True when it continues an earlier start of the same run. Raises like `check`."""
    if fresh and directory.exists():
        # Nothing written is lost: the earlier run moves aside.
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        directory.rename(directory.with_name(f"{directory.name}.before-{stamp}"))
    if check(directory, identity):
        return True
    write_json(directory / RUN_FILE, {"schema": SCHEMA, "identity": identity})
    return False


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. The lock ends with the process, however it ends."""
    lock_file = directory.with_name(f".{directory.name}.lock")
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process works in {directory}; wait for it or use another --output-dir"
            ) from error
        yield
    finally:
        os.close(handle)
