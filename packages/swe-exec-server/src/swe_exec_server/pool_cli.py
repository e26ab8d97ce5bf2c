"""`swe-exec-pool`: several nodes as one."""

import logging
import signal
import sys
import threading

from rich.console import Console

from swe_exec_server.cli import RESERVED_THREADS
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INTERRUPTED, run_cli
from swe_exec_server.common.settings import read_token
from swe_exec_server.http_support import listen, serve_app
from swe_exec_server.loop_thread import LoopThread
from swe_exec_server.pool_app import MAX_BODY_BYTES, create_pool_app
from swe_exec_server.pool_service import PoolService
from swe_exec_server.pool_settings import PoolSettings


def main() -> None:
    """Entry point of `swe-exec-pool`."""
    sys.exit(run_cli("swe-exec-pool", lambda: serve(PoolSettings.load("swe-exec-pool", sys.argv[1:]))))


def serve(settings: PoolSettings) -> int:
    """Listen until told to stop. Leases are the nodes': they outlive the pool."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    token = read_token(settings.token, settings.token_file)
    loop = LoopThread("pool")

    async def start() -> PoolService:
        service = PoolService(settings.exec_server_urls, token, max_per_node=settings.max_containers_per_node)
        await service.start()
        return service

    service = loop.run(start())
    app = create_pool_app(service, loop, token=token, slow_requests=settings.threads - RESERVED_THREADS)
    server = serve_app(app, listener, threads=settings.threads, max_body=MAX_BODY_BYTES)
    stopped_by: list[int] = []
    stopping = threading.Event()

    def stop(number: int, _: object) -> None:
        stopped_by.append(number)
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=server.run, name="http", daemon=True).start()
    nodes = service.status().nodes
    able = sum(node.healthy for node in nodes)
    url = f"http://{'[' + host + ']' if ':' in host else host}:{port}"
    Console(stderr=True).print(
        f"swe-exec-pool on {url}: {able} of {len(nodes)} nodes take containers. Ctrl-C stops it; leases go on.",
        highlight=False,
        soft_wrap=True,
    )
    stopping.wait()
    server.close()
    loop.run(service.close())
    loop.stop()
    return EXIT_DONE if stopped_by[0] == signal.SIGTERM else EXIT_INTERRUPTED
