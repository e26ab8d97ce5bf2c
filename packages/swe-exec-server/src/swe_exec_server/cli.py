"""`swe-exec-server`: one node over HTTP."""

import logging
import signal
import sys
import threading

from rich.console import Console

from swe_exec_server.app import create_app
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INTERRUPTED, UsageError, run_cli
from swe_exec_server.common.settings import read_token
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.http_support import listen, serve_app
from swe_exec_server.node import Node, NodeOptions
from swe_exec_server.sandbox import Limits
from swe_exec_server.settings import NodeSettings, parse_size
from swe_exec_server.wire import DrainRequest, SandboxError

RESERVED_THREADS = 8
"""Threads kept free for health, status, heartbeat and destroy."""

log = logging.getLogger("swe_exec_server")


def main() -> None:
    """Entry point of `swe-exec-server`."""
    sys.exit(run_cli("swe-exec-server", lambda: serve(NodeSettings.load("swe-exec-server", sys.argv[1:]))))


def serve(settings: NodeSettings) -> int:
    """Listen until told to stop: SIGTERM drains and keeps leased containers for their TTL, Ctrl-C removes them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    node = _start_node(settings, settings.namespace or f"port-{port}")
    threads = max(4 * settings.max_containers + 16, 2 * RESERVED_THREADS)
    app = create_app(
        node,
        token=read_token(settings.token, settings.token_file),
        slow_requests=threads - RESERVED_THREADS,
        max_body=parse_size(settings.max_body),
    )
    server = serve_app(app, listener, threads=threads, max_body=parse_size(settings.max_body))
    stopped_by: list[int] = []
    stopping = threading.Event()

    def stop(number: int, _: object) -> None:
        stopped_by.append(number)
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=server.run, name="http", daemon=True).start()
    url = f"http://{'[' + host + ']' if ':' in host else host}:{port}"
    Console(stderr=True).print(
        f"swe-exec-server on {url}: at most {settings.max_containers} containers, "
        f"{node.health().running_containers} found. Ctrl-C removes them and stops.",
        highlight=False,
        soft_wrap=True,
    )
    stopping.wait()
    if stopped_by[0] == signal.SIGTERM:
        _drain(node, settings.drain_timeout)
        server.close()
        node.close(destroy=False)
        return EXIT_DONE
    server.close()
    node.close()
    return EXIT_INTERRUPTED


def _start_node(settings: NodeSettings, namespace: str) -> Node:
    backend = DockerBackend(namespace, allow_network=settings.allow_network, user_shell=settings.shell)
    limits = Limits(memory=parse_size(settings.memory), pids=settings.pids, cpus=settings.cpus)
    node = Node(backend, NodeOptions(max_containers=settings.max_containers, limits=limits, ttl=settings.ttl))
    try:
        backend.check()
        node.start()
    except SandboxError as error:
        raise UsageError(error.message) from error
    return node


def _drain(node: Node, timeout: float) -> None:
    node.drain(DrainRequest(deadline=0))
    if not node.wait_idle(timeout):
        log.warning("%d commands still ran after %g s and are cut off", node.running_commands, timeout)
    left = node.health().running_containers
    if left:
        log.info("%d leased containers stay until their leases run out or this server is started again", left)
