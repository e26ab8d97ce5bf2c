"""The exec server against `docker exec`, the Docker SDK, swe-rex and mini-swe-agent, back to back in one run.

Everything is measured on one container per subject with the command `echo hi`, checked answer by answer. Ours is a real
`swe-exec-server` process on loopback with its own namespace; nothing is left behind. The peers from the registry are
installed into a directory of their own; one that cannot be is left out with a line that says so.
"""

import argparse
import http.client
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
from _measure import COMMAND, EXPECTED, Latency, load, rows, seconds_of

HERE = Path(__file__).parent
OURS, CLI, SDK = "swe-exec-server", "docker exec", "Docker SDK"
WARM = f"{OURS}, warm pool"
PEERS = {"swe-rex": ("swe-rex", "aiohttp"), "mini-swe-agent": ("mini-swe-agent",)}
"""What to install; swe-rex's client imports aiohttp without asking for it."""
LABEL = "swe-bench-exec"


class Client:
    """One keep-alive connection to our server: the least that a client can cost."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"{path}: {answer}")
        return answer

    def create(self, image: str) -> str:
        return str(self.ask("/container/create", {"image": image})["container_id"])

    def exec(self, container: str) -> None:
        answer = self.ask("/container/exec", {"container_id": container, "command": COMMAND})
        if answer["output"] != EXPECTED:
            raise RuntimeError(f"{OURS} answered {answer}")

    def destroy(self, container: str) -> None:
        self.ask("/container/destroy", {"container_id": container})

    def cycle(self, image: str) -> None:
        container = self.create(image)
        self.exec(container)
        self.destroy(container)


@contextmanager
def our_server(*more: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server of its own, and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from swe_exec_server.cli import main; main()"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*command, "--port", str(port), "--max-containers", "32", *more], stderr=log)
        try:
            _wait_for(port, process)
            yield port, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"{OURS} ended at once with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{OURS} does not listen on port {port}")


@dataclass(frozen=True)
class Subject:
    """What is measured: `connect()` gives one thread's call, `cycle` creates, runs one command and destroys."""

    name: str
    connect: Callable[[], Callable[[], object]]
    cycle: Callable[[], object]


def measure(subjects: list[Subject], seconds: float, cycles: int, levels: list[int]) -> dict[str, dict[str, Any]]:
    """Each subject in turn at each level and for each cycle, so that a busy moment of the machine hits them all."""
    latencies: dict[str, list[Latency]] = {subject.name: [] for subject in subjects}
    taken: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for level in levels:
        for subject in subjects:
            latencies[subject.name].append(load(subject.connect, level, seconds))
    for _ in range(cycles):
        for subject in subjects:
            taken[subject.name].append(seconds_of(subject.cycle) * 1e3)
    return {name: {"exec": rows(latencies[name]), "cycle_ms": statistics.median(taken[name])} for name in latencies}


@contextmanager
def ours(image: str) -> Iterator[Subject]:
    with our_server() as (port, _):
        client = Client(port)
        container = client.create(image)

        def connect() -> Callable[[], object]:
            own = Client(port)
            return lambda: own.exec(container)

        yield Subject(OURS, connect, lambda: client.cycle(image))


def measure_warm(image: str, cycles: int) -> dict[str, Any] | None:
    """The same cycle from a warm pool; None where the server has none. Between two cycles the pool may refill."""
    text = subprocess.run([sys.executable, "-c", "from swe_exec_server.cli import main; main()", "--help"],
                          capture_output=True, text=True, check=False).stdout  # fmt: skip
    if "--warm" not in text:
        return None
    taken = []
    with our_server("--warm", f"{image}=4") as (port, _):
        client = Client(port)
        time.sleep(5)
        for _ in range(cycles):
            taken.append(seconds_of(lambda: client.cycle(image)) * 1e3)
            time.sleep(1.5)
    return {"exec": [], "cycle_ms": statistics.median(taken)}


@contextmanager
def docker_exec(image: str) -> Iterator[Subject]:
    def run(*words: str) -> str:
        return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout

    def call(container: str) -> None:
        if (said := run("exec", container, "bash", "-c", COMMAND)) != EXPECTED:
            raise RuntimeError(f"docker exec answered {said!r}")

    def start() -> str:
        return run("run", "-d", "--label", LABEL, image, "sleep", "3600").strip()

    def cycle() -> None:
        container = start()
        call(container)
        run("rm", "-f", container)

    container = start()
    try:
        yield Subject(CLI, lambda: lambda: call(container), cycle)
    finally:
        run("rm", "-f", container)


@contextmanager
def docker_sdk(image: str) -> Iterator[Subject]:
    client = docker.from_env(max_pool_size=32)

    def start() -> Any:
        return client.containers.run(image, ["sleep", "3600"], detach=True, labels=[LABEL])

    def call(container: Any) -> None:
        if (answer := container.exec_run(["bash", "-c", COMMAND])).output != EXPECTED.encode():
            raise RuntimeError(f"the Docker SDK answered {answer}")

    def cycle() -> None:
        container = start()
        call(container)
        container.remove(force=True)

    container = start()
    try:
        yield Subject(SDK, lambda: lambda: call(container), cycle)
    finally:
        container.remove(force=True)
        client.close()


def measure_peer(
    peer: str, image: str, seconds: float, cycles: int, levels: list[int], scratch: Path
) -> dict[str, Any]:
    """Install a peer into an environment of its own and measure it there."""
    uv = shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not on the PATH")
    environment = scratch / peer
    _quiet(uv, "venv", "-q", str(environment))
    python = environment / "bin" / "python"
    _quiet(uv, "pip", "install", "-q", "--python", str(python), *PEERS[peer])
    words = [peer, image, str(seconds), str(cycles), *map(str, levels)]
    if peer == "swe-rex":
        inside = _quiet(
            "docker", "run", "--rm", image, "python3", "-c", "import platform; print(platform.python_version())"
        )
        site = scratch / "site"
        _quiet(uv, "pip", "install", "-q", "--target", str(site), "--python-version", inside.strip(), *PEERS[peer])
        words += ["--", str(site)]
    return json.loads(_quiet(str(python), str(HERE / "_peers.py"), *words).splitlines()[-1])  # type: ignore[no-any-return]


def _quiet(*command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(said[-1] if said else f"{command[0]} failed")
    return done.stdout


def soak(image: str, minutes: float) -> dict[str, Any]:
    """Commands, creates and destroys without pause; resident memory of the server, in MiB, once a period."""
    samples: list[float] = []
    calls = 0
    with our_server() as (port, process):
        client = Client(port)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            container = client.create(image)

            def connect(container: str = container) -> Callable[[], None]:
                own = Client(port)
                return lambda: own.exec(container)

            calls += load(connect, 8, min(10.0, minutes * 6)).calls
            client.destroy(container)
            samples.append(_resident(process.pid))
    return {"minutes": minutes, "calls": calls, "memory_mib": samples}


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1024**2


def table(results: dict[str, dict[str, Any]], levels: list[int]) -> str:
    """Markdown: each subject, and its ratio to `docker exec`."""
    head = ["", *(f"p50 / p95 ms at {level}" for level in levels), *(f"calls/s at {level}" for level in levels)]
    lines = [[*head, "create+exec+destroy ms"], ["---"] * (len(head) + 1)]
    for name, result in results.items():
        cells = [f"{row['p50']:.1f} / {row['p95']:.1f}" for row in result["exec"]] or ["-"] * len(levels)
        cells += [f"{row['rate']:.0f}" for row in result["exec"]] or ["-"] * len(levels)
        lines.append([name, *cells, f"{result['cycle_ms']:.0f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goals(results: dict[str, dict[str, Any]]) -> list[tuple[str, float, str, bool]]:
    """What was promised: (name, value, goal, met); only of what was measured."""
    mine, cli, sdk = (results[name] for name in (OURS, CLI, SDK))
    ratio = mine["exec"][0]["p50"] / cli["exec"][0]["p50"]
    rate = mine["exec"][-1]["rate"] / cli["exec"][-1]["rate"]
    cold = mine["cycle_ms"] / sdk["cycle_ms"]
    found = [
        ("exec p50 / docker exec's", ratio, "<= 0.1", ratio <= 0.1),
        ("calls/s at the most concurrency / docker exec's", rate, ">= 10", rate >= 10),
        ("create+exec+destroy cold / Docker SDK's", cold, "<= 0.9", cold <= 0.9),
    ]
    if WARM in results:
        value = results[WARM]["cycle_ms"] / sdk["cycle_ms"]
        found.append(("create+exec+destroy warm / Docker SDK's", value, "<= 0.125", value <= 0.125))
    if "swe-rex" in results:
        value = results["swe-rex"]["our_rate_beside"] / results["swe-rex"]["exec"][-1]["rate"]
        found.append(("calls/s at the most concurrency / swe-rex's", value, "> 1", value > 1))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/bench/exec_server", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--image", default="swe-base:bookworm", help="with bash and, for swe-rex, Python 3 [%(default)s]"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of load per subject and concurrency [%(default)s]")
    parser.add_argument("--cycles", type=int, default=9, help="create+exec+destroy per subject [%(default)s]")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--no-peers", action="store_true", help="without swe-rex and mini-swe-agent")
    parser.add_argument("--soak-minutes", type=float, default=0.0, help="afterwards, load of this length")
    parser.add_argument("--output", type=Path, help="write everything as JSON")
    options = parser.parse_args()
    image, levels = options.image, options.concurrency
    measured = (options.seconds, options.cycles, levels)
    with ours(image) as one:
        with docker_exec(image) as other, docker_sdk(image) as third:
            results = measure([one, other, third], *measured)
        if (warm := measure_warm(image, options.cycles)) is not None:
            results[WARM] = warm
        with tempfile.TemporaryDirectory(prefix="swe-bench-") as scratch:
            for peer in () if options.no_peers else PEERS:
                try:
                    # Ours once more before and after: a machine is not as busy all the time.
                    before = load(one.connect, levels[-1], options.seconds).rate
                    results[peer] = measure_peer(peer, image, *measured, Path(scratch))
                    after = load(one.connect, levels[-1], options.seconds).rate
                    results[peer]["our_rate_beside"] = (before + after) / 2
                except (RuntimeError, OSError) as error:
                    results.pop(peer, None)
                    print(f"{peer}: left out: {error}")
    print(table(results, levels) + "\n")
    found = goals(results)
    for name, value, goal, met in found:
        print(f"{name}: {value:.3g} ({goal}: {'met' if met else 'NOT met'})")
    soaked = soak(image, options.soak_minutes) if options.soak_minutes else None
    if soaked:
        memory = soaked["memory_mib"]
        ends = f"{memory[0]:.0f} MiB first, {memory[-1]:.0f} last, {max(memory):.0f} most"
        print(f"soak: {soaked['calls']} calls, resident memory {ends}")
    if options.output:
        options.output.write_text(json.dumps(_record(results, found, soaked), indent=1) + "\n")
    return 0 if all(met for *_, met in found) else 1


def _record(results: dict[str, Any], found: list[tuple[str, float, str, bool]], soaked: Any) -> dict[str, Any]:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return {
        "schema": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "version": importlib.metadata.version("swe-exec-server"),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "results": results,
        "goals": [{"name": name, "value": value, "goal": goal, "met": met} for name, value, goal, met in found],
        "soak": soaked,
    }
