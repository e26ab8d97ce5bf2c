"""`--data` becomes instances: a name, a file, a directory, or several of them separated by commas.

Everything is checked before anything runs: each row has its shape recognised, ids are unique over all files, and what
is wrong is named with file and line in one `UsageError`. Every file's SHA-256 is recorded, so that a run can say what
it was made from.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from swe_exec_server.common.errors import UsageError

from swe_eval.instances import Instance
from swe_eval.shapes import RowError, instance_from_row

SAMPLE = "sample"
SHOWN_ERRORS = 3
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class NamedSet:
    """A data set known by name.

    Attributes:
        data_source: what its rows count as when they do not say so themselves.
        variable: the environment variable that holds its file; PROMPT_DATA is asked first.
    """

    data_source: str
    variable: str


NAMED: Mapping[str, NamedSet] = {
    "verified": NamedSet("princeton-nlp/SWE-bench_Verified", "VERIFIED_DATA"),
    "lite": NamedSet("princeton-nlp/SWE-bench_Lite", "VERIFIED_DATA"),
    "swe-gym": NamedSet("SWE-Gym/SWE-Gym", "SWEGYM_DATA"),
}
GENERAL_VARIABLE = "PROMPT_DATA"


@dataclass(frozen=True)
class DataFile:
    """A file that rows came from. `sha256` is of its bytes as stored (compressed, where it is)."""

    path: str
    sha256: str
    rows: int


@dataclass(frozen=True)
class Dataset:
    """What `--data` named. Instances keep the order of their files and rows."""

    name: str
    instances: tuple[Instance, ...]
    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class _Row:
    """One row as read, or why it could not be."""

    where: str
    value: Any = None
    problem: str = ""


def load(spec: str, *, environ: Mapping[str, str]) -> Dataset:
    """The instances that `spec` names. Raises `UsageError`."""
    parts = [part.strip() for part in spec.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"--data is empty; give a path or one of {', '.join([SAMPLE, *NAMED])}")
    instances: list[Instance] = []
    files: list[DataFile] = []
    problems: list[str] = []
    for part in parts:
        named = NAMED.get(part)
        if part == SAMPLE:
            sources = [_read_sample()]
        else:
            path = Path(_file_of(part, named, environ, alone=len(parts) == 1)) if named else _existing(part)
            sources = [_read(file) for file in _files_of(path)]
        for file, rows in sources:
            files.append(file)
            for row in rows:
                instance = _instance(row, problems)
                if instance is not None:
                    instances.append(_with_source(instance, named))
    if problems:
        raise UsageError(_summary(problems))
    if not instances:
        raise UsageError(f"--data {spec}: no rows in {', '.join(file.path for file in files)}")
    _refuse_duplicates(instances)
    return Dataset(spec, tuple(instances), tuple(files))


def _file_of(name: str, named: NamedSet, environ: Mapping[str, str], *, alone: bool) -> str:
    """The local file of a named set. With several names each needs its own variable: one file can not be both."""
    variables = (GENERAL_VARIABLE, named.variable) if alone else (named.variable, GENERAL_VARIABLE)
    for variable in variables:
        path = environ.get(variable, "").strip()
        if path:
            if not Path(path).exists():
                raise UsageError(f"--data {name}: {variable}={path} does not exist; set it to a file of rows")
            return path
    raise UsageError(
        f"--data {name} needs a local file of its rows: give its path (--data FILE) or set {' or '.join(variables)}"
    )


def _existing(part: str) -> Path:
    path = Path(part).expanduser()
    if not path.exists():
        names = ", ".join([SAMPLE, *NAMED])
        raise UsageError(f"--data {part}: neither a known name ({names}) nor a file or directory that exists")
    return path


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and _is_row_file(file.relative_to(path)))
    if not found:
        raise UsageError(f"--data {path}: no row files in this directory ({', '.join(SUFFIXES)})")
    return found


def _is_row_file(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and not any(part.startswith(".") for part in path.parts)


def _read_sample() -> tuple[DataFile, list[_Row]]:
    from swe_eval.bundled import sample_rows  # only this name needs the bundled repositories

    rows = sample_rows()
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return DataFile(SAMPLE, digest, len(rows)), [_Row(f"{SAMPLE}, row {n}", row) for n, row in enumerate(rows, 1)]


def _read(path: Path) -> tuple[DataFile, list[_Row]]:
    try:
        stored = path.read_bytes()
        data = gzip.decompress(stored) if path.name.endswith(".gz") else stored
        if path.name.endswith(".parquet"):
            rows = [_Row(f"{path}, row {n}", row) for n, row in enumerate(pq.read_table(BytesIO(data)).to_pylist(), 1)]
        elif path.name.removesuffix(".gz").endswith(".json"):
            rows = list(_json_rows(path, data))
        else:
            rows = list(_jsonl_rows(path, data))
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise UsageError(f"--data {path}: cannot be read ({error})") from error
    return DataFile(str(path), hashlib.sha256(stored).hexdigest(), len(rows)), rows


def _jsonl_rows(path: Path, data: bytes) -> Iterator[_Row]:
    """One object a line. A byte order mark, CRLF, blank lines and runs of NUL (a crashed writer's) do no harm."""
    for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        text = line.strip(b"\0 \t\r")
        if not text:
            continue
        try:
            yield _Row(f"{path}:{number}", json.loads(text))
        except (ValueError, RecursionError) as error:
            yield _Row(f"{path}:{number}", problem=f"no JSON ({error})")


def _json_rows(path: Path, data: bytes) -> Iterator[_Row]:
    """A list of rows, one row, or `{"data": [rows]}`; a file of JSON Lines with this suffix is read as such."""
    text = data.removeprefix(_BOM).strip(b"\0 \t\r\n")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if b"\n" in text and text.startswith(b"{"):
            yield from _jsonl_rows(path, data)
        else:
            yield _Row(str(path), problem=f"no JSON ({error})")
        return
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    for number, row in enumerate(value if isinstance(value, list) else [value], 1):
        yield _Row(f"{path}, row {number}", row)


def _instance(row: _Row, problems: list[str]) -> Instance | None:
    if row.problem:
        problems.append(f"{row.where}: {row.problem}")
        return None
    try:
        return instance_from_row(row.value, row.where)
    except RowError as error:
        problems.append(str(error))
        return None


def _with_source(instance: Instance, named: NamedSet | None) -> Instance:
    if named is None or instance.data_source:
        return instance
    return replace(instance, data_source=named.data_source)


def _summary(problems: list[str]) -> str:
    more = len(problems) - SHOWN_ERRORS
    shown = "; ".join(problems[:SHOWN_ERRORS])
    return shown + (f"; and {more} more row{'s' if more > 1 else ''} like that" if more > 0 else "")


def _refuse_duplicates(instances: list[Instance]) -> None:
    seen: dict[str, str] = {}
    problems = []
    for instance in instances:
        if instance.instance_id in seen:
            problems.append(f"{instance.instance_id} stands twice: {seen[instance.instance_id]} and {instance.where}")
        seen.setdefault(instance.instance_id, instance.where)
    if problems:
        raise UsageError(f"{_summary(problems)}; keep one of each")
