#!/usr/bin/env python3
"""Break exec servers at random under load, then check: no leaked container, no command run twice, no wrong result.

    uv run tools/proof/exec_chaos.py --events 60          # by hand; needs root (own engine, own disk), about 8 minutes
    uv run tools/proof/exec_chaos.py --events 5 --seed 1  # what CI runs

A private engine, two nodes (and a pool unless --no-pool) and workers that lease sandboxes and run commands. Each
command appends its own number to a file and prints the file: what comes back must be exactly the numbers sent to that
sandbox, each once; a command that ended in a typed error may have run once or not at all, never twice. Events: kill -9
of a node, of the pool and of the engine, a frozen node (SIGSTOP), a full disk. Every error must be a `SandboxError`.
"""

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from _chaos_engine import PrivateEngine
from swe_exec_server.client import AsyncExecClient, LeasedSandbox
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

TTL_S = 20.0
COMMANDS_PER_LEASE = 12
SPEC_LIMITS = Limits(memory=256 * 1024**2, pids=64, cpus=1.0)
EVENTS = ("kill node", "freeze node", "kill engine", "fill disk", "kill pool")


class Server:
    """One server process that can be killed, frozen and started again on the same port."""

    def __init__(self, module: str, port: int, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            sys.executable,
            "-c",
            f"from swe_exec_server.{module} import main; main()",
            "--port",
            str(port),
        ]
        self._command += arguments
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def ensure(self) -> None:
        """Start again what has ended (a node refuses to start while the engine is down)."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


@dataclass
class Tally:
    """What the workers saw."""

    commands: int = 0
    leases: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


async def work(client: AsyncExecClient, image: str, tally: Tally, stop: asyncio.Event, name: str) -> None:
    """Lease after lease until told to stop."""
    while not stop.is_set():
        spec = SandboxSpec(image=image, limits=SPEC_LIMITS, ttl=TTL_S, timeout=20.0, owner=name)
        try:
            sandbox = await client.create(spec)
        except SandboxError as error:
            tally.errors[f"create: {error.code}"] += 1
            await asyncio.sleep(0.2)
            continue
        tally.leases += 1
        try:
            await use(sandbox, tally, stop)
        finally:
            await sandbox.close()


async def use(sandbox: LeasedSandbox, tally: Tally, stop: asyncio.Event) -> None:
    """Run numbered commands and check each answer against all that were sent before."""
    certain: list[int] = []
    doubtful: set[int] = set()
    for number in range(COMMANDS_PER_LEASE):
        if stop.is_set():
            return
        try:
            result = await sandbox.exec(f"echo {number} >> /tmp/log; cat /tmp/log", timeout=15)
        except SandboxError as error:
            tally.errors[f"exec: {error.code}"] += 1
            doubtful.add(number)
            if error.code in (ErrorCode.CONTAINER_GONE, ErrorCode.CONTAINER_UNKNOWN):
                return
            continue
        tally.commands += 1
        if result.timed_out or b"No space left" in result.output:
            # The disk is full or the engine frozen: a result, and what the file holds is not known.
            tally.errors["exec: timed out or disk full in the container"] += 1
            return
        certain.append(number)
        check(result.output.split(), certain, doubtful, tally, sandbox.id)


def check(seen: list[bytes], certain: list[int], doubtful: set[int], tally: Tally, where: str) -> None:
    """Every certain number once and in order, doubtful ones at most once, nothing else."""
    counts = Counter(seen)
    twice = [value.decode() for value, count in counts.items() if count > 1]
    if twice:
        tally.faults.append(f"{where[:12]}: run twice: {twice}")
    order = [int(value) for value in seen if value.isdigit() and int(value) not in doubtful]
    if order != certain:
        tally.faults.append(f"{where[:12]}: expected {certain}, got {[value.decode() for value in seen]}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def wait_healthy(servers: list[Server], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for server in servers:
            server.ensure()
        if all([await asyncio.to_thread(server.healthy) for server in servers]):
            return True
        await asyncio.sleep(0.3)
    return False


async def disturb(
    event: str, draw: random.Random, nodes: list[Server], pool: Server | None, engine: PrivateEngine
) -> None:
    """Cause one event and undo it."""
    pause = draw.uniform(0.3, 3.0)
    node = draw.choice(nodes)
    if event == "kill node":
        node.kill()
        await asyncio.sleep(pause)
        node.start()
    elif event == "freeze node":
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(pause * 2)
        node.signal(signal.SIGCONT)
    elif event == "kill engine":
        engine.kill()
        await asyncio.sleep(pause)
        await asyncio.to_thread(engine.start)
    elif event == "fill disk":
        engine.fill_disk()
        await asyncio.sleep(pause)
        engine.free_disk()
    elif pool is not None:
        pool.kill()
        await asyncio.sleep(pause)
        pool.start()


async def run(arguments: argparse.Namespace, engine: PrivateEngine, root: Path) -> Tally:
    draw = random.Random(arguments.seed)
    environment = {**os.environ, "DOCKER_HOST": engine.socket}
    common = ["--max-containers", "3", "--ttl", str(TTL_S), "--memory", "256m", "--pids", "64"]
    ports = [free_port(), free_port()]
    nodes = [Server("cli", port, common, environment, root / f"node-{port}.log") for port in ports]
    urls = [node.url for node in nodes]
    pool = None
    if arguments.pool:
        pool = Server("pool_cli", free_port(), ["--exec-server-urls", ",".join(urls)], environment, root / "pool.log")
    servers = [*nodes, *([pool] if pool else [])]
    if not await wait_healthy(servers, 60):
        raise RuntimeError("the servers did not start")
    client = AsyncExecClient.over_http([pool.url] if pool else urls)
    tally, stop = Tally(), asyncio.Event()
    workers = [
        asyncio.create_task(work(client, arguments.image, tally, stop, f"worker {number}"))
        for number in range(arguments.workers)
    ]
    names = [name for name in EVENTS if pool or name != "kill pool"]
    for count in range(1, arguments.events + 1):
        event = draw.choice(names)
        await asyncio.sleep(draw.uniform(0.5, 2.5))
        await disturb(event, draw, nodes, pool, engine)
        if not await wait_healthy(servers, 90):
            tally.faults.append(f"after '{event}' the servers did not recover")
        print(f"{count}/{arguments.events} {event}: {tally.commands} commands, {len(tally.faults)} faults", flush=True)
    stop.set()
    done, late = await asyncio.wait(workers, timeout=120)
    tally.faults += [f"a worker hangs: {task.get_name()}" for task in late]
    tally.faults += [f"a worker failed: {task.exception()!r}" for task in done if task.exception()]
    await client.close()
    deadline = time.monotonic() + 3 * TTL_S
    left = await asyncio.to_thread(engine.containers)
    while left and time.monotonic() < deadline:
        await asyncio.sleep(1)
        left = await asyncio.to_thread(engine.containers)
    if left:
        tally.faults.append(f"containers left: {left}")
    for server in servers:
        server.signal(signal.SIGTERM)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--image", default="swe-base:bookworm")
    parser.add_argument("--pool", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("exec_chaos: run it as root; it starts an engine of its own on a disk of its own", file=sys.stderr)
        return 2
    root = Path(tempfile.mkdtemp(prefix="exec-chaos-"))
    engine = PrivateEngine(root / "engine")
    try:
        engine.prepare(arguments.image)
        tally = asyncio.run(run(arguments, engine, root))
    finally:
        engine.end()
    print(f"{tally.leases} leases, {tally.commands} commands answered, typed errors: {dict(tally.errors)}")
    for fault in tally.faults:
        print(f"FAULT {fault}")
    print(f"{len(tally.faults)} faults; logs in {root}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
