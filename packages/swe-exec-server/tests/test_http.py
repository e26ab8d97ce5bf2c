"""The node over real HTTP: every endpoint, every refusal, retries that run nothing twice."""

import asyncio
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from swe_exec_server.app import create_app
from swe_exec_server.client import AsyncExecClient, ExecClient
from swe_exec_server.node import Node
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.wire import ErrorCode, HealthResponse, SandboxError
from waitress.server import create_server

pytestmark = pytest.mark.docker
SMALL = Limits(memory=256 * 1024**2, pids=64, cpus=0.5)
TOKEN = "correct horse"


@dataclass
class Served:
    """A node behind a real server on loopback."""

    node: Node
    url: str

    @property
    def http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, trust_env=False
        )

    def post(self, path: str, **body: object) -> httpx.Response:
        with self.http as http:
            return http.post(path, json=body)


@pytest.fixture
def served(make_node: Callable[..., Node]) -> Iterator[Served]:
    node = make_node(max_containers=3)
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(node, token=TOKEN, slow_requests=12, max_body=8 * 1024**2)
    server = create_server(app, sockets=[listener], threads=20)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield Served(node, f"http://127.0.0.1:{listener.getsockname()[1]}")
    server.close()
    thread.join(5)


def error_code(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert body["ok"] is False
    return response.status_code, body["error"]["code"]


def test_every_endpoint_does_what_the_contract_says(served: Served, repository_image: str) -> None:
    with served.http as http:
        health = http.get("/healthz").json()
        assert health["ok"]
        assert (health["role"], health["max_containers"], health["draining"]) == ("node", 3, False)
        assert any(repository_image in image["names"] for image in http.get("/images").json()["images"])
        made = http.post("/container/create", json={"image": repository_image, "owner": "me"}).json()
        where = {"container_id": made["container_id"]}
        ran = http.post("/container/exec", json={**where, "command": "sed -i s/hello/hi/ hello.py; pwd"}).json()
        assert (ran["ok"], ran["returncode"], ran["output"]) == (True, 0, "/testbed\n")
        raw = http.post("/container/exec", json={**where, "command": "printf '\\377'", "encoding": "base64"}).json()
        assert (raw["output"], raw["encoding"]) == ("/w==", "base64")
        diff = http.post("/container/diff", json=where).json()
        assert '+    return "hi " + name' in diff["patch"]
        assert diff["sha256"] == hashlib.sha256(diff["patch"].encode()).hexdigest()
        put = http.put("/container/file", params={**where, "path": "/tmp/a b/ü"}, content=b"\0\xff")
        assert put.json() == {"ok": True}
        assert http.get("/container/file", params={**where, "path": "/tmp/a b/ü"}).content == b"\0\xff"
        assert http.post("/container/heartbeat", json=where).json() == {"ok": True}
        status = http.get("/status").json()
        assert status["active_containers"] == 1
        assert status["containers"][0]["owner"] == "me"
        fresh = {
            "container_id": http.post("/container/create", json={"image": repository_image}).json()["container_id"]
        }
        script = "grep -c hi hello.py; cat; exit 3"
        graded = http.post("/container/evaluate", json={**fresh, "patch": diff["patch"], "eval_script": script}).json()
        assert (graded["applied"], graded["applied_by"], graded["returncode"]) == (True, "git", 3)
        assert (graded["resolved"], graded["output"]) == (False, "2\n")
        assert "swe_exec_containers 2.0" in http.get("/metrics").text
        assert "/container/exec" in http.get("/openapi.json").json()["paths"]
        assert http.post("/container/destroy", json=where).json() == {"ok": True}
        assert http.post("/drain", json={"deadline": 0}).json() == {"ok": True}
        assert http.get("/healthz").json()["draining"]


def test_wrong_requests_are_refused_by_type(served: Served, docker_base_image: str) -> None:
    assert error_code(served.post("/container/create", image="--privileged")) == (400, "bad_request")
    assert error_code(served.post("/container/create", image="no-such-image:1")) == (404, "image_unknown")
    assert error_code(served.post("/container/create", image=docker_base_image, privileged=True)) == (
        400,
        "bad_request",
    )
    assert error_code(served.post("/container/create", image=docker_base_image, network=True)) == (400, "bad_request")
    assert error_code(served.post("/container/exec", container_id="--privileged", command="id")) == (
        404,
        "container_unknown",
    )
    assert error_code(served.post("/container/exec", container_id="x", command="")) == (400, "bad_request")
    assert error_code(served.post("/container/exec", container_id="x", command="a\0b")) == (400, "bad_request")
    assert error_code(served.post("/container/exec", container_id="x", command="id", cwd="rel")) == (400, "bad_request")
    assert error_code(served.post("/container/evaluate", container_id="x", patch="", eval_script="")) == (
        400,
        "bad_request",
    )
    with served.http as http:
        assert error_code(http.post("/container/exec", content=b"{")) == (400, "bad_request")
        assert error_code(http.get("/nothing")) == (404, "bad_request")
        assert error_code(http.get("/container/exec")) == (405, "bad_request")
        assert error_code(http.get("/container/file", params={"container_id": "x", "path": "rel"})) == (
            400,
            "bad_request",
        )
        assert error_code(http.post("/container/exec", content=b" " * 9 * 1024**2)) == (413, "too_large")


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN + "x"}])
def test_without_the_token_nothing_but_health_answers(served: Served, header: dict[str, str]) -> None:
    with httpx.Client(base_url=served.url, headers=header, trust_env=False) as http:
        assert http.get("/healthz").status_code == 200
        for method, path in (
            ("GET", "/status"),
            ("GET", "/metrics"),
            ("POST", "/container/create"),
            ("POST", "/drain"),
        ):
            assert error_code(http.request(method, path, json={})) == (401, "unauthorized")
    assert not served.node.draining


def test_a_megabyte_command_and_stdin_travel(served: Served, docker_base_image: str) -> None:
    made = served.post("/container/create", image=docker_base_image).json()
    command = "cat > /tmp/big <<'EOF'\n" + "0123456789\n" * 300_000 + "EOF\nwc -c < /tmp/big; wc -c"
    ran = served.post("/container/exec", container_id=made["container_id"], command=command, stdin="é" * 1_000_000)
    assert ran.json()["output"].split() == ["3300000", "2000000"]


def test_quick_requests_answer_while_slow_ones_fill_the_server(served: Served, docker_base_image: str) -> None:
    made = served.post("/container/create", image=docker_base_image).json()
    statuses: list[int] = []

    def sleep() -> None:
        statuses.append(
            served.post("/container/exec", container_id=made["container_id"], command="sleep 3").status_code
        )

    threads = [threading.Thread(target=sleep) for _ in range(16)]
    for thread in threads:
        thread.start()
    while served.node.running_commands < 12:
        pass
    assert served.post("/container/heartbeat", container_id=made["container_id"]).status_code == 200
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 12 + [429] * 4


class CuttingProxy:
    """A TCP proxy that swallows the first `cuts` answers: the request is delivered, its answer is lost."""

    def __init__(self, port: int, cuts: int) -> None:
        self._target, self._cuts = port, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._target))
        threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
        while data := server.recv(65536):
            if self._cuts > 0:
                self._cuts -= 1
                break
            client.sendall(data)
        for end in (client, server):
            end.shutdown(socket.SHUT_RDWR)
            end.close()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


async def test_lost_answers_make_nothing_run_twice(served: Served, docker_base_image: str) -> None:
    proxy = CuttingProxy(int(served.url.rsplit(":", 1)[1]), cuts=2)
    client = AsyncExecClient.over_http([proxy.url], TOKEN)
    async with await client.create(SandboxSpec(image=docker_base_image, limits=SMALL)) as sandbox:
        assert served.node.health().running_containers == 1
        result = await sandbox.exec("echo x >> /tmp/count; wc -l < /tmp/count")
        assert result.text == "1\n"
    assert served.node.health().running_containers == 0
    await client.close()
    proxy.close()


async def test_a_cancelled_create_leaves_no_container(served: Served, docker_base_image: str) -> None:
    client = AsyncExecClient.over_http([served.url], TOKEN)
    creating = asyncio.ensure_future(client.create(SandboxSpec(image=docker_base_image, limits=SMALL)))
    await asyncio.sleep(0.05)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await client.close()
    assert served.node.health().running_containers == 0


async def test_errors_keep_their_type_over_the_wire(served: Served, docker_base_image: str) -> None:
    client = AsyncExecClient.over_http([served.url], TOKEN)
    with pytest.raises(SandboxError) as caught:
        await client.create(SandboxSpec(image="no-such-image:1", limits=SMALL))
    assert caught.value.code is ErrorCode.IMAGE_UNKNOWN
    wrong = AsyncExecClient.over_http([served.url], "wrong")
    with pytest.raises(SandboxError) as caught:
        await wrong.create(SandboxSpec(image=docker_base_image, limits=SMALL))
    assert caught.value.code is ErrorCode.UNAUTHORIZED
    await client.close()
    await wrong.close()


async def test_a_dead_server_is_unreachable_and_a_living_one_is_chosen(served: Served, docker_base_image: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
    client = AsyncExecClient.over_http([dead, served.url], TOKEN)
    health = await client.health()
    assert isinstance(health[dead], SandboxError)
    assert isinstance(health[served.url], HealthResponse)
    async with await client.create(SandboxSpec(image=docker_base_image, limits=SMALL)) as sandbox:
        assert sandbox.node == served.url
    await client.close()


def test_the_sync_client_does_the_same(served: Served, repository_image: str) -> None:
    with (
        ExecClient([served.url], TOKEN) as client,
        client.create(SandboxSpec(image=repository_image, limits=SMALL)) as box,
    ):
        assert box.exec("echo hi").text == "hi\n"
        box.write_file("/testbed/new", b"\xff\n")
        patch = box.diff().patch
        assert b"new file mode" in patch
        assert box.read_file("/testbed/new") == b"\xff\n"
        with client.create(SandboxSpec(image=repository_image, limits=SMALL)) as fresh:
            assert fresh.evaluate(patch, "wc -c < new").output == b"2\n"


def test_the_description_names_every_error_and_every_model(served: Served) -> None:
    with served.http as http:
        description = http.get("/openapi.json").json()
    text = json.dumps(description)
    models = description["components"]["schemas"]
    assert all(f'"#/components/schemas/{name}"' in text for name in models if name != "HealthResponse")
    for path in description["paths"].values():
        for operation in path.values():
            assert "200" in operation["responses"]
