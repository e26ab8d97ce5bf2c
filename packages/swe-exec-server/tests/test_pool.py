"""A pool over real node processes: spreading, queueing, and nodes that die, freeze or are cut off."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from swe_exec_server.backend import Backend
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.pool_service import node_name, split_lease
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

pytestmark = pytest.mark.docker
TOKEN = "cluster"
SMALL = Limits(memory=256 * 1024**2, pids=64, cpus=0.5)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class Server:
    """One server process on a fixed port; `start` again after a kill."""

    module: str
    port: int
    arguments: list[str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        code = f"from swe_exec_server.{self.module} import main; main()"
        command = [sys.executable, "-c", code, "--port", str(self.port), *self.arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "SWE_EXEC_TOKEN": TOKEN})
        deadline = time.monotonic() + 30
        while True:
            try:
                httpx.get(f"{self.url}/healthz", timeout=2, trust_env=False)
                return
            except httpx.TransportError:
                assert time.monotonic() < deadline, "the server did not start"
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.05)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def post(self, path: str, *, headers: dict[str, str] | None = None, **body: object) -> httpx.Response:
        sent = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        return httpx.post(f"{self.url}{path}", json=body, headers=sent, timeout=120, trust_env=False)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)


class Cluster:
    """Two nodes of two containers each, and a pool."""

    def __init__(self) -> None:
        self.nodes: list[Server] = []
        self.backends: list[Backend] = []
        for _ in range(2):
            namespace = f"test-{uuid.uuid4().hex[:12]}"
            arguments = [
                "--max-containers",
                "2",
                "--namespace",
                namespace,
                "--memory",
                "256m",
                "--pids",
                "64",
                "--ttl",
                "60",
            ]
            self.nodes.append(Server("cli", free_port(), arguments))
            self.backends.append(DockerBackend(namespace))
        urls = ",".join(node.url for node in self.nodes)
        self.pool = Server("pool_cli", free_port(), ["--exec-server-urls", urls])

    def start(self) -> None:
        for server in (*self.nodes, self.pool):
            server.start()

    def counts(self) -> list[int]:
        return [len(backend.list()) for backend in self.backends]

    def node_of(self, lease_id: str) -> Server:
        name = split_lease(lease_id)[0]
        return next(node for node in self.nodes if node_name(node.url) == name)

    def end(self) -> None:
        for server in (*self.nodes, self.pool):
            if server.process is not None and server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.kill()
        for backend in self.backends:
            for container in backend.list():
                container.destroy()
            backend.close()


@pytest.fixture
def cluster(docker_base_image: str) -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_lease_from_allocate_to_close(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    made = pool.post("/allocate", image=docker_base_image, instance_id="a__b-1").json()
    node = cluster.node_of(made["lease_id"])
    assert made["node_url"] == node.url
    assert made["lease_id"] == f"{node_name(node.url)}.{made['container_id']}"
    lease = {"lease_id": made["lease_id"]}
    assert node.get("/status").json()["containers"][0]["owner"] == "a__b-1"
    ran = pool.post("/exec", **lease, command="git init -q . && echo a > a && git add a; echo hi").json()
    assert (ran["returncode"], ran["output"]) == (0, "hi\n")
    commit = "git -c user.name=a -c user.email=a@example.invalid commit -qm a; echo b > a"
    assert pool.post("/exec", **lease, command=commit).json()["returncode"] == 0
    diff = pool.post("/diff", **lease).json()
    assert "+b" in diff["patch"]
    assert pool.post("/heartbeat", **lease).json() == {"ok": True}
    restore = pool.post("/exec", **lease, command="git checkout -q a").json()
    assert restore["returncode"] == 0
    graded = pool.post("/evaluate", **lease, patch=diff["patch"], eval_script="cat a; exit 4").json()
    assert (graded["applied"], graded["returncode"], graded["output"]) == (True, 4, "b\n")
    time.sleep(1.2)
    status = pool.get("/status").json()
    assert status["total_leases"] == 1
    assert {entry["url"] for entry in status["nodes"]} == {server.url for server in cluster.nodes}
    assert pool.get("/healthz").json()["role"] == "pool"
    assert "swe_pool_leases" in pool.get("/metrics").text
    assert "/allocate" in pool.get("/openapi.json").json()["paths"]
    assert pool.post("/close", **lease).json() == {"ok": True}
    assert cluster.counts() == [0, 0]


def test_leases_are_spread_and_a_full_pool_queues_in_order(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: pool.post("/allocate", image=docker_base_image).json(), range(4)))
    assert cluster.counts() == [2, 2]
    full = pool.post("/allocate", image=docker_base_image, timeout=0.5)
    assert error_of(full) == (429, "full")
    assert "Retry-After" in full.headers
    order: list[int] = []

    def wait(number: int) -> dict[str, str]:
        answer = pool.post("/allocate", image=docker_base_image, timeout=30).json()
        order.append(number)
        return dict(answer)

    threads_waiting = []
    for number in range(3):
        thread = threading.Thread(target=wait, args=(number,))
        thread.start()
        threads_waiting.append(thread)
        while pool.get("/status").json()["queued"] <= number:
            time.sleep(0.02)
    for lease in made[:3]:
        pool.post("/close", lease_id=lease["lease_id"])
        while len(order) < made.index(lease) + 1:
            time.sleep(0.02)
    for thread in threads_waiting:
        thread.join()
    assert order == [0, 1, 2]


def test_wrong_requests(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    assert error_of(pool.post("/allocate", image="no-such-image:1")) == (404, "image_unknown")
    assert error_of(pool.post("/allocate", image="--privileged")) == (400, "bad_request")
    assert error_of(pool.post("/exec", lease_id="elsewhere:1.abc", command="id")) == (404, "container_unknown")
    assert error_of(pool.post("/exec", lease_id="nonsense", command="id")) == (400, "bad_request")
    unknown = f"{node_name(cluster.nodes[0].url)}.{'f' * 64}"
    assert error_of(pool.post("/exec", lease_id=unknown, command="id")) == (404, "container_unknown")
    assert error_of(httpx.post(f"{pool.url}/allocate", json={}, trust_env=False)) == (401, "unauthorized")


def test_one_key_is_one_lease_even_over_a_restart_of_the_pool(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    body: dict[str, Any] = {"image": docker_base_image, "idempotency_key": "k1"}
    made = pool.post("/allocate", **body).json()
    assert pool.post("/allocate", **body).json() == made
    boot_id = pool.get("/healthz").json()["boot_id"]
    pool.kill()
    pool.start()
    again = pool.post("/allocate", headers={"Swe-Delivered-To": boot_id}, **body).json()
    assert again == made
    assert pool.post("/exec", lease_id=made["lease_id"], command="echo still").json()["output"] == "still\n"
    assert sum(cluster.counts()) == 1


def test_a_killed_node_fails_its_leases_and_the_others_go_on(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    leases = [pool.post("/allocate", image=docker_base_image).json()["lease_id"] for _ in range(2)]
    dead, alive = cluster.node_of(leases[0]), cluster.node_of(leases[1])
    assert dead is not alive
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.post, "/exec", lease_id=leases[0], command="sleep 60")
        time.sleep(0.5)
        dead.kill()
        started = time.monotonic()
        assert error_of(running.result()) == (503, "unreachable")
    assert time.monotonic() - started < 15
    assert pool.post("/exec", lease_id=leases[1], command="echo fine").json()["output"] == "fine\n"
    assert cluster.node_of(pool.post("/allocate", image=docker_base_image).json()["lease_id"]) is alive
    dead.start()
    deadline = time.monotonic() + 20
    while not all(node["healthy"] for node in pool.get("/status").json()["nodes"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    back = pool.post("/exec", lease_id=leases[0], command="echo back").json()
    assert back["output"] == "back\n", "the restarted node found its container"


def test_a_frozen_node_is_told_quickly(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    lease_id = pool.post("/allocate", image=docker_base_image).json()["lease_id"]
    frozen = cluster.node_of(lease_id)
    frozen.signal(signal.SIGSTOP)
    started = time.monotonic()
    assert error_of(pool.post("/exec", lease_id=lease_id, command="echo hi")) == (503, "unreachable")
    assert time.monotonic() - started < 20
    other = pool.post("/allocate", image=docker_base_image, timeout=20).json()
    assert cluster.node_of(other["lease_id"]) is not frozen
    frozen.signal(signal.SIGCONT)


def spec(image: str) -> SandboxSpec:
    return SandboxSpec(image=image, limits=SMALL, ttl=60)


async def test_clients_go_to_the_node_itself(cluster: Cluster, docker_base_image: str) -> None:
    async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
        boxes = await asyncio.gather(*(client.create(spec(docker_base_image)) for _ in range(4)))
        assert sorted(box.node for box in boxes) == sorted(2 * [node.url for node in cluster.nodes])
        cluster.pool.kill()
        # The pool is control plane only: what is leased goes on without it.
        results = await asyncio.gather(*(box.exec("echo on") for box in boxes))
        assert {result.text for result in results} == {"on\n"}
        await asyncio.gather(*(box.close() for box in boxes))
    assert cluster.counts() == [0, 0]


@pytest.fixture
def hidden_node(docker_base_image: str) -> Iterator[tuple[Server, Server, Callable[[], None]]]:
    """A pool, a node behind a relay, and how to cut the relay."""
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    arguments = ["--max-containers", "2", "--namespace", namespace, "--memory", "256m", "--pids", "64", "--ttl", "60"]
    node = Server("cli", free_port(), arguments)
    node.start()
    gate = socket.create_server(("127.0.0.1", 0))
    opened = threading.Event()
    opened.set()
    connections: list[socket.socket] = []

    def relay() -> None:
        while True:
            try:
                client, _ = gate.accept()
            except OSError:
                return
            if not opened.is_set():
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", node.port))
            connections.extend((client, server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=copy, args=(source, target), daemon=True).start()

    def cut() -> None:
        """From now on nothing comes through, on old connections neither."""
        opened.clear()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=relay, daemon=True).start()
    url = f"http://127.0.0.1:{gate.getsockname()[1]}"
    pool = Server("pool_cli", free_port(), ["--exec-server-urls", url])
    pool.start()
    backend = DockerBackend(namespace)
    try:
        yield pool, node, cut
    finally:
        gate.close()
        pool.kill()
        node.kill()
        for container in backend.list():
            container.destroy()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, target):
            end.close()


async def test_a_client_that_cannot_reach_the_node_is_served_through_the_pool(
    hidden_node: tuple[Server, Server, Callable[[], None]], docker_base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, _, _ = hidden_node

    async def out_of_reach(self: object) -> bool:
        return False

    monkeypatch.setattr("swe_exec_server.transport.HttpTransport.answers", out_of_reach)
    async with (
        AsyncExecClient.over_http([pool.url], TOKEN) as client,
        await client.create(spec(docker_base_image)) as box,
    ):
        assert "through" in box.node
        assert (await box.exec("echo forwarded; exit 3")).returncode == 3
        await box.write_file("/tmp/x", b"\xff\0")
        assert await box.read_file("/tmp/x") == b"\xff\0"


def test_a_node_behind_a_cut_is_lost_for_the_pool(
    hidden_node: tuple[Server, Server, Callable[[], None]], docker_base_image: str
) -> None:
    pool, _, cut = hidden_node
    lease_id = pool.post("/allocate", image=docker_base_image).json()["lease_id"]
    cut()
    assert error_of(pool.post("/exec", lease_id=lease_id, command="echo hi")) == (503, "unreachable")
    deadline = time.monotonic() + 20
    while pool.get("/healthz").json()["ok"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_errors_are_the_clients_error_type(cluster: Cluster) -> None:
    async def create() -> None:
        async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
            await client.create(spec("no-such-image:1"))

    with pytest.raises(SandboxError) as caught:
        asyncio.run(create())
    assert caught.value.code is ErrorCode.IMAGE_UNKNOWN
