"""What the agent loop costs beside model and commands, side by side with mini-swe-agent, and under load.

Steps: the same commands in the same image, the model's answers recorded and there at once, each agent with its own way
into the container and its record written to disk as it does by default. Runs of both alternate, so that a busy moment
of the machine hits them both; the containers are made before the clock starts. The commands' own time is in both.

Load: many loops in one process, a scripted model whose latency is drawn with a seed, the scripted sandbox. What a step
takes beyond the drawn latency and the sandbox's is what the loop, its record and its waiting for the processor add.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _agent_steps import CWD, SETUP, steps
from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models.replay import ReplayModel
from swe_agent.models.scripted import ScriptedModel, bash_turn
from swe_agent.prompts import load_prompts
from swe_agent.trajectory import AgentStatus, Step
from swe_exec_server.embedded import EmbeddedOptions, open_embedded
from swe_exec_server.sandbox import SandboxSpec
from swe_exec_server.scripted_sandbox import DEFAULT_LATENCY, ScriptedSandbox

HERE = Path(__file__).parent
OURS, PEER = "swe-agent", "mini-swe-agent"
TASK = Task("bench", "The greeting must be hi.", CWD)
PROMPTS = load_prompts()
LATENCY = (0.5, 1.5)
OUTPUT = b"".join(b"line %d of a test log that is as long as such lines are\n" % number for number in range(40))


async def our_run(image: str, rounds: int, directory: Path) -> float:
    """Milliseconds a step of one run."""
    commands = steps(rounds)
    model = ReplayModel([bash_turn(command, "Next.") for command in commands])
    provider = open_embedded(EmbeddedOptions(directory, backend="docker", max_containers=1))
    try:
        async with await provider.create(SandboxSpec(image=image, cwd=CWD)) as sandbox:
            await sandbox.exec(SETUP)
            settings = LoopSettings(step_limit=len(commands))
            begun = time.perf_counter()
            trajectory = await run_agent(TASK, model, sandbox, settings, PROMPTS, directory=directory / "run")
            elapsed = time.perf_counter() - begun
    finally:
        await provider.close()
    if trajectory.status is not AgentStatus.SUBMITTED or b'+    return "hi " + name' not in trajectory.patch:
        raise RuntimeError(f"{OURS} ended with {trajectory.status} {trajectory.error}")
    return elapsed / len(commands) * 1e3


def install_peer(scratch: Path) -> Path:
    """The interpreter of an environment with the peer. Raises RuntimeError."""
    uv = shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not on the PATH")
    _quiet(uv, "venv", "-q", str(scratch / PEER))
    python = scratch / PEER / "bin" / "python"
    _quiet(uv, "pip", "install", "-q", "--python", str(python), PEER)
    return python


def peer_run(python: Path, image: str, rounds: int, directory: Path) -> float:
    """Milliseconds a step of one run."""
    said = _quiet(str(python), str(HERE / "_agent_peer.py"), image, str(rounds), str(directory))
    return float(said.splitlines()[-1])


def _quiet(*command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    environment["MSWEA_SILENT_STARTUP"] = "1"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(said[-1] if said else f"{command[0]} failed")
    return done.stdout


def compare(image: str, rounds: int, runs: int, peer: bool) -> dict[str, list[float]]:
    """Milliseconds a step of each run, by agent."""
    taken: dict[str, list[float]] = {OURS: [], PEER: []}
    with tempfile.TemporaryDirectory(prefix="swe-bench-") as name:
        scratch = Path(name)
        python = install_peer(scratch) if peer else None
        for number in range(runs):
            directory = scratch / f"run-{number}"
            directory.mkdir()
            taken[OURS].append(asyncio.run(our_run(image, rounds, directory)))
            if python is not None:
                taken[PEER].append(peer_run(python, image, rounds, directory))
    return taken


@dataclass(frozen=True)
class Added:
    """What steps take beyond model and sandbox, in milliseconds."""

    loops: int
    steps: int
    p50: float
    p95: float
    p99: float
    most: float


async def one_loop(seed: int, count: int, directory: Path, start: asyncio.Event) -> list[float]:
    """Milliseconds that each step of one loop takes beyond its drawn latency and the sandbox's."""
    draws = random.Random(seed)
    model = ScriptedModel(lambda _: bash_turn(f"pytest -q {seed}", "I look " * 60), latency=LATENCY, seed=seed)
    sandbox = ScriptedSandbox(lambda _: (0, OUTPUT))
    times: list[float] = []

    def note(step: Step) -> None:
        times.append(time.perf_counter())

    await start.wait()
    times.append(time.perf_counter())
    settings = LoopSettings(step_limit=count, snapshot_delay=None)
    await run_agent(TASK, model, sandbox, settings, PROMPTS, directory=directory, on_step=note)
    spans = [later - earlier for earlier, later in itertools.pairwise(times)]
    return [(span - draws.uniform(*LATENCY) - DEFAULT_LATENCY) * 1e3 for span in spans]


async def load(loops: int, count: int) -> Added:
    """All loops at once in this process, each writing its record."""
    with tempfile.TemporaryDirectory(prefix="swe-bench-") as name:
        start = asyncio.Event()
        tasks = [asyncio.create_task(one_loop(seed, count, Path(name) / str(seed), start)) for seed in range(loops)]
        await asyncio.sleep(0.5)
        start.set()
        added = sorted(value for one in await asyncio.gather(*tasks) for value in one)

    def share(part: float) -> float:
        return added[min(len(added) - 1, int(len(added) * part))]

    return Added(loops, count, share(0.5), share(0.95), share(0.99), added[-1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/bench/agent", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image", default="swe-base:bookworm", help="with bash and git [%(default)s]")
    parser.add_argument("--runs", type=int, default=5, help="of each agent, in turn [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="over the 12 commands, in each run [%(default)s]")
    parser.add_argument("--loops", type=int, default=128, help="at once, under load [%(default)s]")
    parser.add_argument("--steps", type=int, default=20, help="of each of them [%(default)s]")
    parser.add_argument("--no-peer", action="store_true", help="without mini-swe-agent")
    parser.add_argument("--output", type=Path, help="write everything as JSON")
    options = parser.parse_args()
    taken = compare(options.image, options.rounds, options.runs, not options.no_peer)
    added = asyncio.run(load(options.loops, options.steps))
    medians = {name: statistics.median(values) for name, values in taken.items() if values}
    found: list[tuple[str, float, str, bool]] = []
    if PEER in medians:
        ratio = medians[OURS] / medians[PEER]
        found.append((f"time a step / {PEER}'s", ratio, "<= 0.125", ratio <= 0.125))
    found.append((f"p95 ms added to a step, {added.loops} loops", added.p95, "< 5", added.p95 < 5))
    print("| | ms a step | of the peer's |\n|---|---|---|")
    for name, median in medians.items():
        print(
            f"| {name} | {median:.1f} | {median / medians[PEER]:.3f} |"
            if PEER in medians
            else f"| {name} | {median:.1f} | - |"
        )
    print("\n| loops at once | steps | added p50 ms | p95 | p99 | most |\n|---|---|---|---|---|---|")
    print(
        f"| {added.loops} | {added.steps} | {added.p50:.1f} | {added.p95:.1f} | {added.p99:.1f} | {added.most:.1f} |\n"
    )
    for name, value, goal, met in found:
        print(f"{name}: {value:.3g} ({goal}: {'met' if met else 'NOT met'})")
    if options.output:
        record: dict[str, Any] = {
            "schema": 1,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "steps_ms": taken,
            "load": asdict(added),
            "goals": [{"name": name, "value": value, "goal": goal, "met": met} for name, value, goal, met in found],
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(met for *_, met in found) else 1
