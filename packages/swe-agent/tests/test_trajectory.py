"""Records are read back as they were, whatever moment their writer was killed at."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swe_agent.actions import ErrorKind
from swe_agent.models import FinishReason, Role
from swe_agent.trajectory import AgentStatus, PatchSource, Step, Trajectory, TrajectoryError, load_trajectory

SECONDS = st.floats(0, 1e6)
COUNT = st.none() | st.integers(0, 10**7)
CALLS = st.fixed_dictionaries(
    {
        "id": st.text(),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.text(), "arguments": st.text()}),
    }
)
STEPS = st.builds(
    Step,
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    index=st.integers(1, 99),
    response=st.text(),
    finish_reason=st.sampled_from(get_args(FinishReason)),
    reasoning=st.none() | st.text(),
    action=st.none() | st.text(),
    error=st.none() | st.sampled_from(get_args(ErrorKind)),
    found=COUNT,
    returncode=st.none() | st.integers(-1, 255),
    output=st.text(),
    output_bytes=st.integers(0, 10**9),
    timed_out=st.booleans(),
    truncated=st.booleans(),
    observation=st.text(),
    model_s=SECONDS,
    exec_s=SECONDS,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
)
TRAJECTORIES = st.builds(
    Trajectory,
    instance_id=st.text(min_size=1),
    status=st.sampled_from(AgentStatus),
    error=st.text(),
    steps=st.lists(STEPS, max_size=4),
    messages=st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(get_args(Role)), "content": st.text()},
            optional={"tool_calls": st.lists(CALLS, max_size=2), "tool_call_id": st.text()},
        ),
        max_size=4,
    ),
    patch=st.binary(),
    patch_source=st.sampled_from(get_args(PatchSource)),
    base_commit=st.text("0123456789abcdef", max_size=40),
    started_at=st.just("2026-01-02T03:04:05.678+00:00"),
    elapsed=SECONDS,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(TRAJECTORIES)
def test_round_trip(tmp_path: Path, trajectory: Trajectory) -> None:
    trajectory.save(tmp_path, {"model": "m"})
    assert load_trajectory(tmp_path) == trajectory
    assert load_trajectory(tmp_path / "traj.json") == trajectory
    assert (tmp_path / "patch.diff").read_bytes() == trajectory.patch


def test_the_record_tells_schema_totals_and_checksum(tmp_path: Path) -> None:
    steps = [Step(1, "a", prompt_tokens=10, completion_tokens=2), Step(2, "b", prompt_tokens=20, completion_tokens=3)]
    Trajectory("i", AgentStatus.SUBMITTED, steps=steps, patch=b"x\n", patch_source="diff").save(tmp_path, {"seed": 1})
    value = json.loads((tmp_path / "traj.json").read_text())
    assert (value["schema"], value["prompt_tokens"], value["completion_tokens"]) == (1, 30, 5)
    assert value["patch"]["bytes"] == 2
    assert value["patch"]["sha256"] == "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
    assert json.loads((tmp_path / "meta.json").read_text()) == {"schema": 1, "seed": 1}


def test_a_patch_newer_than_the_record_of_a_killed_run_does_not_count(tmp_path: Path) -> None:
    Trajectory("i", steps=[Step(1, "a")]).save(tmp_path)
    (tmp_path / "patch.diff").write_bytes(b"written, then killed before traj.json")
    assert load_trajectory(tmp_path).patch == b""


def test_a_changed_patch_is_refused(tmp_path: Path) -> None:
    Trajectory("i", patch=b"-old\n", patch_source="diff").save(tmp_path)
    (tmp_path / "patch.diff").write_bytes(b"+new\n")
    with pytest.raises(TrajectoryError, match="size or checksum"):
        load_trajectory(tmp_path)


def _edited(directory: Path, **changes: Any) -> None:
    file = directory / "traj.json"
    value = json.loads(file.read_text())
    file.write_text(json.dumps(value | changes))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": 99}, "newer version"),
        ({"schema": None}, "no schema number"),
        ({"status": "fine"}, "fine"),
        ({"steps": [{"index": 1}]}, "0.response"),
        ({"messages": [{"role": "robot", "content": ""}]}, "0.role"),
        ({"patch": {"source": "diff", "bytes": 5, "sha256": "0"}}, "patch.diff"),
        ({"patch": {"source": "guess", "bytes": 0, "sha256": ""}}, "guess"),
    ],
)
def test_a_damaged_record_is_refused_in_one_line_with_its_file(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    Trajectory("i").save(tmp_path)
    _edited(tmp_path, **changes)
    with pytest.raises(TrajectoryError) as refused:
        load_trajectory(tmp_path)
    assert complaint in str(refused.value)
    assert str(tmp_path / "traj.json") in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "[]", "{}", "not json", '{"schema": 1}'])
def test_what_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "traj.json").write_text(content)
    with pytest.raises(TrajectoryError):
        load_trajectory(tmp_path)
    with pytest.raises(TrajectoryError, match="cannot be read"):
        load_trajectory(tmp_path / "nowhere")


SAVER = """
import sys
from pathlib import Path
from swe_agent.trajectory import Step, Trajectory
trajectory = Trajectory("i")
number = 0
while True:
    number += 1
    trajectory.steps.append(Step(number, "response " * 200))
    trajectory.patch = b"%d\\n" % number * 50
    trajectory.save(Path(sys.argv[1]), {"number": number})
    if number == 3:
        print("going", flush=True)
"""


def test_kill_at_any_moment_leaves_whole_files(tmp_path: Path) -> None:
    for round_number in range(5):
        directory = tmp_path / str(round_number)
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(directory)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.02 + 0.013 * round_number)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        steps = json.loads((directory / "traj.json").read_text())["steps"]
        assert len(steps) >= 3
        patch = (directory / "patch.diff").read_bytes()
        assert patch == patch[: len(patch) // 50] * 50
        assert int(patch.split(b"\n")[0]) in (len(steps), len(steps) + 1)
        json.loads((directory / "meta.json").read_text())
