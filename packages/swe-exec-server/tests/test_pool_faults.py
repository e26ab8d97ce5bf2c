"""Nodes and pools killed, frozen or cut off in the middle of work: typed, quick, nothing lost, nothing twice."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.common.errors import UsageError
from swe_exec_server.connect import open_provider
from swe_exec_server.embedded import EmbeddedOptions
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.testing import TOKEN, Cable, Cluster, ServerProcess, free_port, running
from swe_exec_server.wire import ErrorCode, SandboxError

pytestmark = pytest.mark.docker
SMALL = Limits(memory=256 * 1024**2, pids=64, cpus=0.5)
QUICK_S = 25.0
"""Far less than any timeout of a command; detection takes some 4 s of refused and 9 s of silent looks when idle."""


@pytest.fixture(scope="module")
def processes(docker_base_image: str) -> Iterator[Cluster]:
    with running(Cluster()) as cluster:
        yield cluster


@pytest.fixture
def cluster(processes: Cluster) -> Cluster:
    processes.heal()
    return processes


def spec(image: str) -> SandboxSpec:
    return SandboxSpec(image=image, limits=SMALL, ttl=60)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def wait_healthy(pool: ServerProcess, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(node["healthy"] for node in pool.get("/status").json()["nodes"]) != count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


# -- the pool dies ---------------------------------------------------------------------------------------------------


def test_a_pool_started_again_serves_every_lease(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    body: dict[str, Any] = {"image": docker_base_image, "idempotency_key": "k1"}
    made = pool.post("/allocate", **body).json()
    other = pool.post("/allocate", image=docker_base_image).json()
    assert pool.post("/allocate", **body).json() == made
    boot_id = pool.get("/healthz").json()["boot_id"]
    pool.kill()
    pool.start()
    assert pool.post("/allocate", **body).json() == made, "the nodes know whose key it is"
    assert pool.post("/allocate", headers={"Swe-Delivered-To": boot_id}, **body).json() == made
    for lease in (made, other):
        assert pool.post("/exec", lease_id=lease["lease_id"], command="echo still").json()["output"] == "still\n"
    assert pool.get("/status").json()["total_leases"] == 2
    assert sum(cluster.counts()) == 2


def test_an_allocation_cut_by_the_pools_death_is_made_once(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    body: dict[str, Any] = {"image": docker_base_image, "idempotency_key": "k2"}

    def try_it() -> None:
        with pytest.raises(httpx.TransportError):
            pool.post("/allocate", **body)

    first = threading.Thread(target=try_it)
    first.start()
    deadline = time.monotonic() + 30
    while not any(node.get("/status").json()["creating"] for node in cluster.nodes):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    pool.kill()
    first.join()
    pool.start()
    made = pool.post("/allocate", **body).json()
    assert made["ok"]
    assert sum(cluster.counts()) == 1


def test_a_forwarded_command_runs_once_though_the_pool_died(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    lease = {"lease_id": pool.post("/allocate", image=docker_base_image).json()["lease_id"]}
    boot_id = pool.get("/healthz").json()["boot_id"]
    body: dict[str, Any] = {**lease, "command": "echo x >> n; sleep 4; wc -l < n", "idempotency_key": "c1"}
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(pool.post, "/exec", **body)
        while pool.post("/exec", **lease, command="cat n").json()["returncode"] != 0:
            time.sleep(0.02)
        pool.kill()
        with pytest.raises(httpx.TransportError):
            first.result()
    pool.start()
    repeated = pool.post("/exec", headers={"Swe-Delivered-To": boot_id}, **body).json()
    assert repeated["output"] == "1\n", "joined, not run again"
    never_seen = {**body, "idempotency_key": "c2"}
    answer = pool.post("/exec", headers={"Swe-Delivered-To": boot_id}, **never_seen)
    assert error_of(answer) == (409, "outcome_unknown")


async def test_clients_go_on_while_the_pool_is_away(cluster: Cluster, docker_base_image: str) -> None:
    async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
        box = await client.create(spec(docker_base_image))
        running_on = asyncio.create_task(box.exec("sleep 2; echo done"))
        await asyncio.sleep(0.3)
        cluster.pool.kill()
        assert (await running_on).text == "done\n"
        coming = asyncio.create_task(client.create(spec(docker_base_image)))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(cluster.pool.start)
        second = await coming
        assert second.node != box.node
        await asyncio.gather(box.close(), second.close())
    assert cluster.counts() == [0, 0]


# -- a node dies -----------------------------------------------------------------------------------------------------


def test_a_killed_node_fails_its_leases_and_the_others_go_on(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    leases = [pool.post("/allocate", image=docker_base_image).json()["lease_id"] for _ in range(2)]
    dead, alive = cluster.node_of(leases[0]), cluster.node_of(leases[1])
    assert dead is not alive
    with ThreadPoolExecutor(1) as threads:
        running_on = threads.submit(pool.post, "/exec", lease_id=leases[0], command="sleep 60")
        time.sleep(0.5)
        started = time.monotonic()
        dead.kill()
        assert error_of(running_on.result()) == (503, "unreachable")
    assert time.monotonic() - started < QUICK_S
    assert pool.post("/exec", lease_id=leases[1], command="echo fine").json()["output"] == "fine\n"
    assert cluster.node_of(pool.post("/allocate", image=docker_base_image).json()["lease_id"]) is alive
    dead.start()
    wait_healthy(pool, 2)
    back = pool.post("/exec", lease_id=leases[0], command="echo back").json()
    assert back["output"] == "back\n", "the restarted node found its container"


def test_a_frozen_node_is_told_quickly_in_the_middle_of_a_command(cluster: Cluster, docker_base_image: str) -> None:
    pool = cluster.pool
    lease_id = pool.post("/allocate", image=docker_base_image).json()["lease_id"]
    frozen = cluster.node_of(lease_id)
    with ThreadPoolExecutor(1) as threads:
        running_on = threads.submit(pool.post, "/exec", lease_id=lease_id, command="sleep 60")
        time.sleep(0.5)
        started = time.monotonic()
        frozen.signal(signal.SIGSTOP)
        # An allocation meanwhile finds the other node, whenever the freeze is noticed.
        made = [pool.post("/allocate", image=docker_base_image, timeout=60).json() for _ in range(2)]
        assert error_of(running_on.result()) == (503, "unreachable")
    assert time.monotonic() - started < 2 * QUICK_S
    assert all(cluster.node_of(lease["lease_id"]) is not frozen for lease in made)
    started = time.monotonic()
    assert error_of(pool.post("/exec", lease_id=lease_id, command="echo hi")) == (503, "unreachable")
    assert time.monotonic() - started < 5, "known by now"
    frozen.signal(signal.SIGCONT)
    wait_healthy(pool, 2)
    assert pool.post("/exec", lease_id=lease_id, command="echo hi").json()["output"] == "hi\n"


async def test_a_client_of_the_node_itself_notices_a_freeze(
    cluster: Cluster, docker_base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_exec_server.liveness.ASK_EVERY_S", 0.5)
    monkeypatch.setattr("swe_exec_server.transport.HEALTH_WAIT_S", 2.0)
    async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
        box = await client.create(spec(docker_base_image))
        frozen = next(node for node in cluster.nodes if node.url == box.node)
        running_on = asyncio.create_task(box.exec("sleep 60", timeout=120))
        await asyncio.sleep(0.5)
        frozen.signal(signal.SIGSTOP)
        with pytest.raises(SandboxError, match="silent") as caught:
            await asyncio.wait_for(running_on, QUICK_S)
        assert caught.value.code is ErrorCode.UNREACHABLE
        frozen.signal(signal.SIGCONT)


async def test_a_client_of_several_nodes_goes_on_with_those_that_live(cluster: Cluster, docker_base_image: str) -> None:
    urls = [node.url for node in cluster.nodes]
    async with AsyncExecClient.over_http(urls, TOKEN) as client:
        first = await client.create(spec(docker_base_image))
        dead = next(node for node in cluster.nodes if node.url == first.node)
        dead.signal(signal.SIGSTOP)
        # Whoever is sent to the frozen node before that is noticed comes back and is sent elsewhere.
        boxes = await asyncio.wait_for(asyncio.gather(*(client.create(spec(docker_base_image)) for _ in range(2))), 60)
        assert {box.node for box in boxes} == set(urls) - {dead.url}
        dead.signal(signal.SIGCONT)
        await asyncio.gather(*(box.close() for box in (first, *boxes)))


# -- the network between them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_a_node_behind_a_broken_cable_is_lost_until_it_is_mended(
    cluster: Cluster, docker_base_image: str, how: str
) -> None:
    cable = Cable(cluster.nodes[0].port)
    pool = cluster.pool_over([cable.url])
    pool.start()
    try:
        lease_id = pool.post("/allocate", image=docker_base_image).json()["lease_id"]
        with ThreadPoolExecutor(1) as threads:
            body: dict[str, Any] = {"command": "echo x >> n; sleep 1; wc -l < n", "idempotency_key": f"cable-{how}"}
            running_on = threads.submit(pool.post, "/exec", lease_id=lease_id, **body)
            time.sleep(0.5)
            started = time.monotonic()
            getattr(cable, how)()
            assert error_of(running_on.result()) == (503, "unreachable")
        assert time.monotonic() - started < QUICK_S
        assert not pool.get("/healthz").json()["ok"]
        refused = pool.post("/allocate", image=docker_base_image, timeout=1)
        assert error_of(refused) == (503, "engine_down")
        cable.mend()
        wait_healthy(pool, 1)
        assert pool.post("/exec", lease_id=lease_id, **body).json()["output"] == "1\n", "it ran once"
    finally:
        pool.kill()
        cable.close()


async def test_a_client_that_cannot_reach_the_node_is_served_through_the_pool(
    cluster: Cluster, docker_base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def out_of_reach(self: object) -> bool:
        nonlocal asked
        asked += 1
        return False

    monkeypatch.setattr("swe_exec_server.transport.HttpTransport.answers", out_of_reach)
    async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
        boxes = await asyncio.gather(*(client.create(spec(docker_base_image)) for _ in range(4)))
        assert asked == 2, "once a node"
        for box in boxes:
            assert "through" in box.node
            assert (await box.exec("echo forwarded; exit 3")).returncode == 3
            await box.write_file("/tmp/x", b"\xff\0")
            assert await box.read_file("/tmp/x") == b"\xff\0"
            await box.close()
    assert cluster.counts() == [0, 0]


# -- set-up faults ---------------------------------------------------------------------------------------------------


def test_idle_connections_keep_nobody_out(cluster: Cluster) -> None:
    for server in (cluster.pool, cluster.nodes[0]):
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        assert server.get("/healthz").json()["ok"]
        for connection in idle:
            connection.close()


def test_a_node_with_another_token_and_a_pool_in_a_nodes_place_are_named(cluster: Cluster) -> None:
    stranger = ServerProcess("pool_cli", ["--exec-server-urls", f"{cluster.nodes[0].url},{cluster.pool.url}"])
    stranger.token = "another"
    stranger.start()
    try:
        errors = [node["error"] for node in stranger.get("/status").json()["nodes"]]
        assert "token" in errors[0]
        assert "pool itself" in errors[1]
    finally:
        stranger.kill()


async def test_a_dead_server_is_named_before_work_begins(tmp_path: Path) -> None:
    port = free_port()
    started = time.monotonic()
    with pytest.raises(UsageError, match=f"127.0.0.1:{port}"):
        await open_provider([f"http://127.0.0.1:{port}"], TOKEN, EmbeddedOptions(tmp_path))
    assert time.monotonic() - started < 15
