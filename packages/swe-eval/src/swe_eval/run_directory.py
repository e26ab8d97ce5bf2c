"""The directory of a run: found again by the same command, refused to another, held by one process at a time."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.files import write_json
from swe_exec_server.common.settings import flag_name

from swe_eval.results import RESULTS

RUN_FILE = "run.json"
LOCK_FILE = ".lock"
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
        if directory.is_dir() and any(entry.name != LOCK_FILE for entry in directory.iterdir()):
            raise UsageError(f"{directory} is not empty and holds no run; use another --output-dir")
        return False
    try:
        old = json.loads(record.read_text(encoding="utf-8"))["identity"]
        difference = first_difference(old, json.loads(json.dumps(identity, default=str)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{record} cannot be read ({error}); use another --output-dir or --fresh") from error
    if difference:
        raise UsageError(
            f"{directory} holds a run with other settings ({difference}); use another --output-dir or --fresh"
        )
    return True


def claim(directory: Path, identity: Mapping[str, Any], *, fresh: bool) -> bool:
    """Make the directory this run's. True when it continues an earlier start of the same run. Raises like `check`."""
    try:
        if fresh:
            _move_aside(directory)
        if check(directory, identity):
            return True
        write_json(directory / RUN_FILE, {"schema": SCHEMA, "identity": identity})
    except OSError as error:
        raise UsageError(f"{directory} cannot be written ({_reason(error)}); use another --output-dir") from error
    return False


def _move_aside(directory: Path) -> None:
    """Nothing written is lost: an earlier run moves into a directory beside it.

    Its results move first and its record last, so that a kill in between leaves a run that can be resumed.
    """
    entries = [entry for entry in directory.iterdir() if entry.name != LOCK_FILE] if directory.is_dir() else []
    if not entries:
        return
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    aside = directory.with_name(f"{directory.name}.before-{stamp}")
    aside.mkdir()
    for entry in sorted(entries, key=lambda entry: (entry.name == RUN_FILE, entry.name != RESULTS)):
        entry.rename(aside / entry.name)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory for this process, making it if it is missing; what was made and stayed empty goes again.

    The lock ends with the process, however it ends. Raises `UsageError` when another process holds it, or when nothing
    can be written there.
    """
    lock_file = directory / LOCK_FILE
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        handle = _lock(lock_file)
    except BlockingIOError as error:
        raise UsageError(f"another process works in {directory}; wait for it or use another --output-dir") from error
    except OSError as error:
        raise UsageError(f"{directory} cannot be written ({_reason(error)}); use another --output-dir") from error
    try:
        yield
    finally:
        lock_file.unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):
            for place in missing:
                place.rmdir()


def _lock(lock_file: Path) -> int:
    """The descriptor that holds the lock. Raises OSError; BlockingIOError when another process holds it."""
    while True:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before us may have removed the file between our two calls: then ours locks nothing.
            if lock_file.exists() and os.path.samestat(os.fstat(handle), lock_file.stat()):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _reason(error: OSError) -> str:
    """What the system says, without the paths that the caller names better."""
    return error.strerror or str(error)
