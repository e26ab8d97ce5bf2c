"""The requests of the original client, in plain JSON: create to destroy on a node, allocate to close on a pool.

It knows nothing of keys, leases' ends, encodings or boot ids; what it reads must be there under the names it reads.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from swe_exec_server.testing import TOKEN, Cluster, running

pytestmark = pytest.mark.docker
START = "git init -q . && echo one > a && git add -A && git -c user.name=a -c user.email=a@localhost commit -qm start"


@pytest.fixture(scope="module")
def cluster(docker_base_image: str) -> Iterator[Cluster]:
    with running(Cluster(nodes=1, containers=2)) as cluster:
        yield cluster


def call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What any HTTP library does, without a content type; raises on everything but 200."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {TOKEN}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def work(url: str, where: dict[str, str], exec_: str, diff: str, evaluate: str) -> None:
    """Run, change, take the patch, grade it; the same on both sides but for the names of paths and ids."""
    ran = call(f"{url}{exec_}", {**where, "command": START, "cwd": "/testbed", "timeout": 60})
    assert (ran["returncode"], ran["output"]) == (0, "")
    assert ran["ok"]
    assert call(f"{url}{exec_}", {**where, "command": "echo two > a; echo out; exit 3"})["returncode"] == 3
    late = call(f"{url}{exec_}", {**where, "command": "echo begun; sleep 30", "timeout": 0.5})
    assert (late["returncode"], late["output"], late["timed_out"]) == (-1, "begun\n", True)
    found = call(f"{url}{diff}", {**where, "cwd": "/testbed"})
    assert (found["returncode"], found["patch"].splitlines()[-2:]) == (0, ["-one", "+two"])
    call(f"{url}{exec_}", {**where, "command": "git checkout -q a"})
    script = "grep -q two a"
    graded = call(f"{url}{evaluate}", {**where, "patch": found["patch"], "eval_script": script, "timeout": 60})
    assert (graded["applied"], graded["resolved"], graded["returncode"], graded["output"]) == (True, True, 0, "")


def test_a_node(cluster: Cluster, docker_base_image: str) -> None:
    url = cluster.nodes[0].url
    health = call(f"{url}/healthz")
    assert (health["ok"], health["running_containers"], health["max_containers"]) == (True, 0, 2)
    images = call(f"{url}/images")
    assert images["count"] == len(images["images"]) > 0
    made = call(f"{url}/container/create", {"image": docker_base_image, "cwd": "/testbed", "timeout": 60})
    assert made["ok"]
    assert made["name"]
    where = {"container_id": made["container_id"]}
    work(url, where, "/container/exec", "/container/diff", "/container/evaluate")
    by_name = call(f"{url}/container/exec", {"container_id": made["name"], "command": "echo named"})
    assert by_name["output"] == "named\n"
    assert call(f"{url}/status")["active_containers"] == 1
    assert call(f"{url}/container/destroy", where)["ok"]
    assert call(f"{url}/status")["active_containers"] == 0


def test_a_pool(cluster: Cluster, docker_base_image: str) -> None:
    url = cluster.pool.url
    made = call(f"{url}/allocate", {"image": docker_base_image, "instance_id": "astropy__astropy-1", "timeout": 60})
    assert made["ok"]
    assert made["node_url"] == cluster.nodes[0].url
    assert made["lease_id"].endswith(f".{made['container_id']}")
    lease = {"lease_id": made["lease_id"]}
    assert call(f"{url}/heartbeat", lease)["ok"]
    work(url, lease, "/exec", "/diff", "/evaluate")
    time.sleep(1.5)  # the pool looks at its nodes every second
    status = call(f"{url}/status")
    assert status["total_leases"] == 1
    (node,) = status["nodes"]
    assert (node["url"], node["running_containers"], node["free"], node["healthy"]) == (made["node_url"], 1, 1, True)
    assert call(f"{url}/close", lease)["ok"]
    assert call(f"{cluster.nodes[0].url}/status")["active_containers"] == 0
