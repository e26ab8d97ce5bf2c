"""A recorded run, whoever recorded it: a run directory of ours, or a `.traj.json` of mini-swe-agent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from swe_exec_server.sandbox import DEFAULT_CWD

from swe_agent.limits import LoopSettings
from swe_agent.mini import FOREIGN_SUFFIX, is_mini, read_mini
from swe_agent.models import Message
from swe_agent.trajectory import META_FILE, TRAJECTORY_FILE, Trajectory, TrajectoryError, load_trajectory


@dataclass(frozen=True)
class Setup:
    """What a run's commands were run in, as far as the record tells.

    Attributes:
        backend: `local` for the embedded sandbox, where nothing else will do the same.
        repository: `source` and `commit` of a repository that was put into the container.
        exact: whether recorded output is the command's, byte by byte; else its end was trimmed.
    """

    image: str = ""
    cwd: str = DEFAULT_CWD
    env: Mapping[str, str] = field(default_factory=dict)
    exec_timeout: float = LoopSettings.exec_timeout
    max_output_bytes: int = LoopSettings.max_output_bytes
    backend: Literal["auto", "local"] = "auto"
    repository: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True


@dataclass(frozen=True)
class RecordedRun:
    """A trajectory and what it was made in."""

    name: str
    trajectory: Trajectory
    setup: Setup


def open_run(path: Path) -> RecordedRun:
    """Read a run directory, a traj.json, or a mini-swe-agent file. Raises `TrajectoryError`."""
    file = _file_of(path)
    if file.name == TRAJECTORY_FILE:
        return RecordedRun(file.parent.name, load_trajectory(file), _setup(file.with_name(META_FILE)))
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{file}: cannot be read ({error})") from error
    if not is_mini(value):
        return RecordedRun(file.stem, load_trajectory(file), _setup(file.with_name(META_FILE)))
    name = file.name.removesuffix(FOREIGN_SUFFIX)
    try:
        trajectory, environment = read_mini(value, name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TrajectoryError(f"{file}: no trajectory of mini-swe-agent ({type(error).__name__}: {error})") from error
    setup = Setup(
        image=str(environment.get("image") or ""),
        cwd=str(environment.get("cwd") or "") or DEFAULT_CWD,
        env={str(key): str(value) for key, value in dict(environment.get("env") or {}).items()},
        exec_timeout=float(environment.get("timeout") or Setup.exec_timeout),
        exact=False,
    )
    return RecordedRun(name, trajectory, setup)


def find_runs(directory: Path) -> Sequence[Path]:
    """The runs one level below a directory, ours and others', by name."""
    return sorted([*directory.glob(f"*/{TRAJECTORY_FILE}"), *directory.glob(f"*/*{FOREIGN_SUFFIX}")])


def seen_at(trajectory: Trajectory, index: int) -> list[Message]:
    """The messages that the model saw when it gave the response of step `index` (from 1)."""
    responses = [number for number, message in enumerate(trajectory.messages) if message["role"] == "assistant"]
    end = responses[index - 1] if index <= len(responses) else len(trajectory.messages)
    return trajectory.messages[:end]


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    own = path / TRAJECTORY_FILE
    others = sorted(path.glob(f"*{FOREIGN_SUFFIX}"))
    return others[0] if not own.is_file() and len(others) == 1 else own


def _setup(file: Path) -> Setup:
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Setup()
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{file}: cannot be read ({error})") from error
    settings: Mapping[str, Any] = meta.get("settings") or {}
    local = meta.get("backend") == "local"
    return Setup(
        image="" if local else str(meta.get("image") or ""),
        backend="local" if local else "auto",
        cwd=str(meta.get("cwd") or DEFAULT_CWD),
        exec_timeout=float(settings.get("exec_timeout") or Setup.exec_timeout),
        max_output_bytes=int(settings.get("max_output_bytes") or Setup.max_output_bytes),
        repository=dict(meta.get("repository") or {}),
    )
