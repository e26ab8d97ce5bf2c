"""A pool over real node processes: the contract, spreading, queueing."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.pool_service import node_name
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.testing import TOKEN, Cluster, running
from swe_exec_server.wire import ErrorCode, SandboxError

pytestmark = pytest.mark.docker
SMALL = Limits(memory=256 * 1024**2, pids=64, cpus=0.5)


@pytest.fixture(scope="module")
def processes(docker_base_image: str) -> Iterator[Cluster]:
    with running(Cluster()) as cluster:
        yield cluster


@pytest.fixture
def cluster(processes: Cluster) -> Cluster:
    processes.heal()
    return processes


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


def test_errors_are_the_clients_error_type(cluster: Cluster) -> None:
    async def create() -> None:
        async with AsyncExecClient.over_http([cluster.pool.url], TOKEN) as client:
            await client.create(spec("no-such-image:1"))

    with pytest.raises(SandboxError) as caught:
        asyncio.run(create())
    assert caught.value.code is ErrorCode.IMAGE_UNKNOWN
