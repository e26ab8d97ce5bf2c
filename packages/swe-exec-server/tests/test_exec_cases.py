"""Inputs that users of such servers met, each with its right answer (data/exec_cases.jsonl), over real HTTP.

Each row gets a container of its own on a node in a process of its own; rows that make sense there also run on a node
over the embedded backend. `do` is interpreted step by step by `Case`.
"""

import contextlib
import json
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from swe_exec_server.app import create_app
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.node import Node, NodeOptions
from swe_exec_server.sandbox import Limits, SandboxSpec
from waitress.server import create_server

ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row
    for row in map(json.loads, (Path(__file__).parent / "data" / "exec_cases.jsonl").read_text("utf-8").splitlines())
}
DOCKER_ONLY = {"dubious-ownership"}
"""A user namespace of one user cannot give files away."""
TTL_S = 3.0

Json = dict[str, Any]


@dataclass
class Server:
    """A node under test: where it is, which image its containers have, what runs behind it."""

    url: str
    image: str
    repository_image: str
    pid: int | None = None
    kill: Callable[[str], None] = lambda container_id: None
    stranger: Callable[[], str] = lambda: "0" * 64

    def post(self, path: str, body: Json) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=180, trust_env=False)

    def get(self, path: str) -> Json:
        return dict(httpx.get(f"{self.url}{path}", timeout=30, trust_env=False).json())

    def create(self, **more: Any) -> httpx.Response:
        return self.post("/container/create", {"image": self.image, "ttl": 60, **more})


REPOSITORY: Json = next(row["repo"] for row in ROWS.values() if "repo" in row)
"""The repository that rows ask for: one for all of them, so one image holds it."""


def repository_script(files: Json) -> str:
    """Makes a repository of one commit in the working directory."""
    writes = "\n".join(f"cat > {name} <<'END_OF_FILE'\n{text}END_OF_FILE" for name, text in files.items())
    commit = "git -c user.name=a -c user.email=a@example.invalid commit -qm start"
    return f"git init -q .\n{writes}\ngit add -A && {commit}"


LIST_TREE = "find . -path ./.git -prune -o -type f -printf '%P %m ' -exec sha256sum {} ';' | sort"


@dataclass
class Case:
    """One row being played."""

    server: Server
    row: Json
    container: str = ""
    saved: Json = field(default_factory=dict)

    def play(self) -> None:
        self.container = self.fresh()
        for step in self.row["do"]:
            self.step(step)

    def fresh(self) -> str:
        assert self.row.get("repo", REPOSITORY) == REPOSITORY
        image = self.server.repository_image if "repo" in self.row else self.server.image
        made = self.server.create(image=image).json()
        assert made["ok"], made
        return str(made["container_id"])

    def run(self, container: str, command: str) -> str:
        done = self.server.post("/container/exec", {"container_id": container, "command": command}).json()
        assert done["returncode"] == 0, done
        return str(done["output"])

    def step(self, step: Json) -> Json | None:
        started = time.monotonic()
        play = getattr(self, f"do_{step['op']}")
        answer: Json | None = play(step)
        expect = step.get("expect", {})
        if "max_seconds" in expect:
            assert time.monotonic() - started < expect["max_seconds"]
        return answer

    def do_exec(self, step: Json) -> Json:
        body: Json = {key: step[key] for key in ("command", "timeout", "env", "cwd") if key in step}
        if "command_template" in step:
            lines = 20_000 * (step["line"] + "\n")
            body["command"] = step["command_template"].replace("{20000 lines}", lines)
        container = step.get("container", self.container)
        if container.startswith("a container started by"):
            container = self.server.stranger()
        with self.memory_bound(step.get("expect", {})):
            response = self.server.post("/container/exec", {"container_id": container, **body})
        compare(response, step.get("expect", {}))
        return dict(response.json())

    @contextlib.contextmanager
    def memory_bound(self, expect: Json) -> Iterator[None]:
        if "server_rss_growth_mb_max" not in expect or self.server.pid is None:
            yield
            return
        before, peak, stop = resident_mb(self.server.pid), 0.0, threading.Event()

        def sample() -> None:
            nonlocal peak
            while not stop.wait(0.01):
                peak = max(peak, resident_mb(self.server.pid or 0) - before)

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert peak < expect["server_rss_growth_mb_max"]

    def do_parallel(self, step: Json) -> None:
        def attempt(each: Json) -> Json:
            if each["op"] == "create":
                return dict(self.server.create(timeout=60, **{k: each[k] for k in ("image",) if k in each}).json())
            return self.do_exec(each)

        with ThreadPoolExecutor(len(step["each"])) as threads:
            answers = list(threads.map(attempt, step["each"]))
        expect = step["expect"]
        if "ok" in expect:
            made = [answer["container_id"] for answer in answers if answer["ok"]]
            assert (len(made), len(answers) - len(made)) == (expect["ok"], expect["failed"])
            for container in made:
                self.server.post("/container/destroy", {"container_id": container})
            assert self.server.get("/healthz")["running_containers"] - 1 == expect["leaked"], "but for the row's own"

    def do_create(self, step: Json) -> None:
        more = {key: step[key] for key in ("image", "idempotency_key") if key in step}
        response = self.server.create(**more)
        expect = step["expect"]
        assert response.status_code == expect.get("http", 200)
        if "save" in step:
            self.saved[step["save"]] = response.json()["container_id"]
        if "same_container_as" in expect:
            assert response.json()["container_id"] == self.saved[expect["same_container_as"]]

    def do_diff(self, step: Json) -> None:
        response = self.server.post("/container/diff", {"container_id": self.container})
        answer, expect = response.json(), step["expect"]
        assert answer["ok"], answer
        if "save" in step:
            self.saved[step["save"]] = (answer["patch"], answer["encoding"])
        if expect.get("nonempty"):
            assert answer["patch"]
        assert expect.get("contains", "") in answer["patch"]
        if "not_contains" in expect:
            assert expect["not_contains"] not in answer["patch"]
        if "warning_contains" in expect:
            assert any(expect["warning_contains"] in warning for warning in answer["warnings"])

    def do_fresh_apply(self, step: Json) -> None:
        patch, encoding = self.saved[step["patch"]]
        container, expect = self.fresh(), step["expect"]
        body = {"container_id": container, "patch": patch, "encoding": encoding, "eval_script": "true"}
        assert self.server.post("/container/evaluate", body).json()["applied"] == expect["applied"]
        for name in expect.get("files", []):
            self.run(container, f"test -f {name}")
        if expect.get("tree_equal"):
            assert self.run(container, LIST_TREE) == self.run(self.container, LIST_TREE)
        elif "files" in expect:
            changed = self.run(container, "git status --porcelain").split()[1::2]
            assert sorted(changed) == sorted(expect["files"])

    def do_evaluate(self, step: Json) -> None:
        patch = step.get("patch")
        if patch is None:
            text = "+" + "x" * 99 + "\n"
            head = "diff --git a/big.txt b/big.txt\nnew file mode 100644\n--- /dev/null\n+++ b/big.txt\n"
            patch = f"{head}@@ -0,0 +1,50000 @@\n{50_000 * text}"
        body = {"container_id": self.container, "patch": patch, "eval_script": step["eval_script"]}
        response = self.server.post(
            "/container/evaluate", {**body, "allow_empty_patch": step.get("allow_empty_patch", False)}
        )
        compare(response, step["expect"])

    def do_kill_container_behind_the_server(self, step: Json) -> None:
        self.server.kill(self.container)

    def do_create_then_drop_connection(self, step: Json) -> None:
        self.server.post("/container/destroy", {"container_id": self.container})
        host, port = self.server.url.removeprefix("http://").split(":")
        body = json.dumps({"image": self.server.image, "ttl": TTL_S}).encode()
        head = f"POST /container/create HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + body)

    def do_after_reap_interval(self, step: Json) -> None:
        deadline = time.monotonic() + 30
        time.sleep(0.5)  # the request is on its way
        while self.server.get("/healthz")["running_containers"] != step["expect"]["containers_of_this_server"]:
            assert time.monotonic() < deadline, "an orphan is left"
            time.sleep(0.2)


def compare(response: httpx.Response, expect: Json) -> None:
    """What a row expects of an exec's or an evaluation's answer."""
    answer = response.json()
    assert response.status_code == expect.get("http", 200), answer
    if "error_code" in expect:
        assert answer["error"]["code"] == expect["error_code"]
        assert answer["error"]["retryable"] == expect["retryable"]
    for key in ("output", "returncode", "timed_out", "truncated", "output_bytes", "applied"):
        if key in expect:
            assert answer[key] == expect[key], answer
    if "output_stripped" in expect:
        assert answer["output"].strip() == expect["output_stripped"]
    if "output_contains" in expect:
        assert expect["output_contains"] in answer["output"]
    if "output_endswith" in expect:
        assert answer["output"].endswith(expect["output_endswith"])
    if "returncode_not" in expect:
        assert answer["returncode"] != expect["returncode_not"]


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


@pytest.fixture(scope="module")
def docker_server(docker_base_image: str) -> Iterator[Server]:
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    command = [sys.executable, "-c", "from swe_exec_server.cli import main; main()", "--port", "0"]
    command += ["--namespace", namespace, "--max-containers", "20", "--memory", "512m", "--ttl", "600"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = next(word.rstrip(":") for line in process.stderr for word in line.split() if word.startswith("http://"))
    threading.Thread(target=process.stderr.read, daemon=True).start()
    client = docker.from_env()
    stranger = client.containers.run(docker_base_image, ["sleep", "600"], detach=True, network_mode="none")
    repository_image = f"swe-{namespace}:1"
    stranger.exec_run(["sh", "-c", f"mkdir -p /testbed && cd /testbed && {repository_script(REPOSITORY)}"])
    stranger.commit(*repository_image.split(":"))
    try:
        yield Server(
            url,
            docker_base_image,
            repository_image,
            process.pid,
            kill=lambda container_id: client.containers.get(container_id).kill(),
            stranger=lambda: str(stranger.id),
        )
    finally:
        stranger.remove(force=True)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        backend = DockerBackend(namespace)
        for container in backend.list():
            container.destroy()
        client.images.remove(repository_image, force=True)
        client.close()


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("local")
    trees = {name: root / name for name in ("empty", "repository")}
    for tree in trees.values():
        tree.mkdir()
    subprocess.run(["sh", "-c", repository_script(REPOSITORY)], cwd=trees["repository"], check=True)
    backend = LocalBackend(root / "sandboxes", trees.get)
    if backend.kind != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    limits = Limits(memory=2 * 1024**3)
    node = Node(backend, NodeOptions(max_containers=20, ttl=600, reap_interval=0.3, limits=limits))
    node.start(keep=False)
    listener = socket.create_server(("127.0.0.1", 0))
    server = create_server(create_app(node), sockets=[listener], threads=60)
    threading.Thread(target=server.run, daemon=True).start()
    others = LocalBackend(root / "others", trees.get)

    def kill(container_id: str) -> None:
        pid = json.loads((root / "sandboxes" / container_id / "sandbox.json").read_text())["supervisor"]["pid"]
        os.kill(pid, signal.SIGKILL)
        while (stat := Path(f"/proc/{pid}/stat")).exists() and ") Z" not in stat.read_text():
            time.sleep(0.01)

    yield Server(
        f"http://127.0.0.1:{listener.getsockname()[1]}",
        "empty",
        "repository",
        os.getpid(),
        kill=kill,
        stranger=lambda: others.create(SandboxSpec(image="empty", limits=limits), "stranger", {}).id,
    )
    server.close()
    node.close()
    for container in others.list():
        container.destroy()


def free(server: Server) -> None:
    for container in server.get("/status")["containers"]:
        server.post("/container/destroy", {"container_id": container["id"]})


@pytest.mark.docker
@pytest.mark.parametrize("name", ROWS)
def test_on_docker(docker_server: Server, name: str) -> None:
    try:
        Case(docker_server, ROWS[name]).play()
    finally:
        free(docker_server)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in DOCKER_ONLY])
def test_on_the_embedded_backend(local_server: Server, name: str) -> None:
    try:
        Case(local_server, ROWS[name]).play()
    finally:
        free(local_server)
