"""Real servers for tests: node and pool processes that can be killed and started again, and a cable that can be cut.

Everything listens on loopback. Nothing here is used by the servers themselves.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from swe_exec_server.docker_sandbox import DockerBackend

TOKEN = "cluster"
START_S = 60.0


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class ServerProcess:
    """One server process on a fixed port; `start` again after a kill.

    Attributes:
        module: of `swe_exec_server`, whose `main` is the command.
    """

    module: str
    arguments: Sequence[str]
    port: int = field(default_factory=free_port)
    token: str = TOKEN
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        code = f"from swe_exec_server.{self.module} import main; main()"
        command = [sys.executable, "-c", code, "--port", str(self.port), *self.arguments]
        environment = {**os.environ, "SWE_EXEC_TOKEN": self.token}
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.url}/healthz", timeout=2, trust_env=False)
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.module} did not start on port {self.port}")
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, frozen or not; of one that has ended, nothing happens."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def post(self, path: str, *, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return httpx.post(f"{self.url}{path}", json=body, headers=sent, timeout=120, trust_env=False)

    def get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=30, trust_env=False)


class Cluster:
    """Small nodes on Docker, each with a namespace of its own, and a pool over them."""

    def __init__(self, nodes: int = 2, containers: int = 2) -> None:
        self.namespaces = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(nodes)]
        limits = ["--memory", "256m", "--pids", "64", "--ttl", "60", "--max-containers", str(containers)]
        self.nodes = [ServerProcess("cli", [*limits, "--namespace", name]) for name in self.namespaces]
        self.pool = self.pool_over([node.url for node in self.nodes])

    @staticmethod
    def pool_over(urls: Sequence[str]) -> ServerProcess:
        return ServerProcess("pool_cli", ["--exec-server-urls", ",".join(urls)])

    def counts(self) -> list[int]:
        """Containers of each node, as the engine has them."""
        found = []
        for namespace in self.namespaces:
            backend = DockerBackend(namespace)
            found.append(len(backend.list()))
            backend.close()
        return found

    def node_of(self, lease_id: str) -> ServerProcess:
        name = lease_id.rpartition(".")[0]
        return next(node for node in self.nodes if node.url.endswith(f"//{name}"))

    def heal(self) -> None:
        """As new, but for what the processes remember: all of them run, no container is left, the pool sees that."""
        for server in (*self.nodes, self.pool):
            if server.process is None or server.process.poll() is not None:
                server.start()
            server.signal(signal.SIGCONT)
        deadline = time.monotonic() + START_S
        while True:
            # A node that was frozen may still be making what it was asked for.
            for node in self.nodes:
                for container in node.get("/status").json()["containers"]:
                    node.post("/container/destroy", container_id=container["id"])
            if self._at_rest(self.pool.get("/status").json()):
                return
            if time.monotonic() > deadline:
                raise RuntimeError("the pool does not come to rest")
            time.sleep(0.2)

    @staticmethod
    def _at_rest(status: dict[str, Any]) -> bool:
        return status["total_leases"] == 0 and all(node["healthy"] for node in status["nodes"])

    def end(self) -> None:
        for server in (*self.nodes, self.pool):
            server.kill()
        for namespace in self.namespaces:
            backend = DockerBackend(namespace)
            for container in backend.list():
                container.destroy()
            backend.close()


@contextlib.contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Its processes started; at the end all of them and their containers gone."""
    try:
        starting = [threading.Thread(target=node.start) for node in cluster.nodes]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        cluster.pool.start()
        yield cluster
    finally:
        cluster.end()


class Cable:
    """A TCP relay to `port`. `cut` breaks connections and refuses new ones; `swallow` lets bytes vanish."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._refusing = False
        self._swallowing = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._refusing = True
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def swallow(self) -> None:
        self._swallowing = True

    def mend(self) -> None:
        """New connections work again; what was swallowed stays lost."""
        self._refusing = self._swallowing = False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            self._connections += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        lost = False
        try:
            while data := source.recv(65536):
                lost = lost or self._swallowing  # a stream with a hole in it is never mended
                if not lost:
                    target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
