"""Files that survive a kill at any moment: atomic replacement and append-only JSON Lines.

A reader never sees half a file. A JSON Lines file whose writer was killed may end in half a line: `read_jsonl` leaves
it out, and `JsonlWriter` cuts it off before it appends.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace `path` with `data` (text as UTF-8); makes parent directories."""
    payload = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 - mkstemp made it private
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Replace `path` with `value` as indented JSON."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def read_jsonl(path: Path) -> Iterator[Any]:
    """The objects of a JSON Lines file; nothing when it does not exist, a half-written last line is left out.

    Raises ValueError naming the line when any other line is no JSON.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: not JSON ({error})") from error


class JsonlWriter:
    """Appends one JSON object a line; each is on disk when `append` returns. For one process at a time.

    When a line cannot be written whole (a full disk), nothing of it stays and `append` raises OSError.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self._cut_half_line()

    def _cut_half_line(self) -> None:
        end = self._file.seek(0, os.SEEK_END)
        position = end
        while position > 0:
            step = min(4096, position)
            self._file.seek(position - step)
            found = self._file.read(step).rfind(b"\n")
            if found >= 0:
                position = position - step + found + 1
                break
            position -= step
        if position != end:
            self._file.truncate(position)

    def append(self, value: Any) -> None:
        line = memoryview(json.dumps(value, ensure_ascii=False, default=str).encode() + b"\n")
        end = self._file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):
                self._file.truncate(end)
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
