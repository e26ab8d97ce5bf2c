"""The cases that play turns, where their commands really run: a Docker container and the embedded sandbox."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models import Message, ModelLost, ReplayExhausted
from swe_agent.models.scripted import ScriptedModel, bash_turn
from swe_agent.prompts import load_prompts
from swe_agent.trajectory import AgentStatus, Step, Trajectory
from swe_exec_server.embedded import EmbeddedOptions, open_embedded
from swe_exec_server.local_bubblewrap import why_unusable
from swe_exec_server.sandbox import Sandbox, SandboxSpec

SOURCE = "def hello(name): return 'hello ' + name\n"
COMMIT = "git init -q && git add -A && git -c user.name=t -c user.email=t@example.invalid commit -qm start"
WHY_NO_BUBBLEWRAP = why_unusable()
BACKENDS = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("local", marks=pytest.mark.skipif(WHY_NO_BUBBLEWRAP != "", reason=WHY_NO_BUBBLEWRAP or "-")),
]


@asynccontextmanager
async def container(backend: str, directory: Path, request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A sandbox with hello.py committed in /testbed."""
    tree = directory / "tree"
    tree.mkdir()
    image = request.getfixturevalue("docker_base_image") if backend == "docker" else "hello"
    options = EmbeddedOptions(directory / "node", max_containers=1, local_images=lambda _: tree)
    provider = open_embedded(replace(options, backend="docker" if backend == "docker" else "local"))
    try:
        async with await provider.create(SandboxSpec(image=image)) as sandbox:
            await sandbox.write_file("/testbed/hello.py", SOURCE.encode())
            assert (await sandbox.exec(COMMIT)).returncode == 0
            yield sandbox
    finally:
        await provider.close()


def kill(backend: str, sandbox: Sandbox, directory: Path) -> None:
    """What happens to a container whose machine has other plans."""
    if backend == "docker":
        client = docker.from_env()
        client.containers.get(sandbox.id.rpartition(".")[2]).kill()
        client.close()
        return
    (record,) = (directory / "node" / "sandboxes").glob("*/sandbox.json")
    os.kill(json.loads(record.read_text())["supervisor"]["pid"], signal.SIGKILL)


def model_of(turns: Sequence[Any]) -> ScriptedModel:
    raised: dict[int, Exception] = {len(turns): ReplayExhausted("no more turns")}
    raised |= {number: ModelLost(turn["raise"]) for number, turn in enumerate(turns) if isinstance(turn, dict)}

    def script(messages: Sequence[Message]) -> str:
        return bash_turn(turns[len(messages) // 2 - 1])

    return ScriptedModel(script, raise_at=raised)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_case(turns_case: dict[str, Any], backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expected, killed_after = turns_case["expect"], turns_case.get("kill_container_after")
    settings = LoopSettings(step_limit=turns_case.get("step_limit", 20), exec_timeout=60, wall_limit=120)
    async with container(backend, tmp_path, request) as sandbox:

        def watch(step: Step) -> None:
            if step.index == killed_after:
                kill(backend, sandbox, tmp_path)

        started = time.monotonic()
        trajectory: Trajectory = await run_agent(
            Task(turns_case["id"], "The greeting must be hi."),
            model_of(turns_case["turns"]),
            sandbox,
            settings,
            load_prompts(),
            on_step=watch,
        )
        assert time.monotonic() - started < expected.get("within_seconds", 120)
    assert (trajectory.status is AgentStatus.SUBMITTED) == expected.get("submitted", False)
    assert trajectory.status == expected.get("status", trajectory.status)
    assert expected.get("patch_contains", "").encode() in trajectory.patch
    assert len(trajectory.steps) == expected.get("steps", len(trajectory.steps))
    assert len(trajectory.steps) <= expected.get("steps_max", 1000)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_container_killed_while_the_model_thinks_leaves_the_last_diff(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with container(backend, tmp_path, request) as sandbox:
        turns = iter([bash_turn("sed -i 's/hello /hi /' hello.py"), bash_turn("ls")])
        model = ScriptedModel(lambda _: next(turns), latency=(3.0, 3.0))

        def watch(step: Step) -> None:
            # The diff is taken at once when the model starts to think; the machine goes a second later.
            asyncio.get_running_loop().call_later(2.0, kill, backend, sandbox, tmp_path)

        settings = LoopSettings(snapshot_delay=0.0)
        trajectory = await run_agent(Task("i", "?"), model, sandbox, settings, load_prompts(), on_step=watch)
    assert trajectory.status is AgentStatus.SANDBOX_LOST
    assert trajectory.patch_source == "snapshot"
    assert b"hi " in trajectory.patch
