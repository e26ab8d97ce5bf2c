"""Flask routes over a `PoolService`, one line of logic each. The service runs on a loop in a thread of its own."""

import json
import secrets
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from flask import Flask, Response, request
from pydantic import BaseModel

from swe_exec_server import __version__
from swe_exec_server.api import DELIVERED_HEADER, DESTROY, DIFF, EVALUATE, EXEC, HEARTBEAT, Operation
from swe_exec_server.http_support import guard, json_answer, parse_body, parse_query
from swe_exec_server.idempotency import KeyedCalls
from swe_exec_server.loop_thread import LoopThread
from swe_exec_server.pool_client import LEASE_PATHS
from swe_exec_server.pool_metrics import PoolMetrics
from swe_exec_server.pool_openapi import describe_pool
from swe_exec_server.pool_service import PoolService, split_lease
from swe_exec_server.pool_wire import AllocateRequest, AllocateResponse, LeaseId
from swe_exec_server.wire import AbsolutePath, ErrorCode, HealthResponse, ImageBody, ImagesResponse, Ok, SandboxError

T = TypeVar("T")
MAX_BODY_BYTES = 256 * 1024**2


class _FilePath(BaseModel):
    container_id: LeaseId
    path: AbsolutePath


def create_pool_app(service: PoolService, loop: LoopThread, *, token: str = "", slow_requests: int = 200) -> Flask:
    """The WSGI application of a pool whose service runs on `loop`.

    Args:
        token: bearer token that every request but `/healthz` and `/openapi.json` must carry; empty asks for none.
        slow_requests: allocations and forwarded commands at the same time; threads above stay free for quick ones.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    boot_id = secrets.token_hex(8)
    keys = KeyedCalls(boot_id)
    measured = PoolMetrics()
    lanes = threading.BoundedSemaphore(slow_requests)
    guard(app, token=token, boot_id=boot_id, count_failure=lambda code: measured.failures.labels(code).inc())

    def slowly(work: Coroutine[Any, Any, T]) -> T:
        if not lanes.acquire(blocking=False):
            work.close()
            raise SandboxError(ErrorCode.FULL, f"{slow_requests} requests run already; try again later")
        try:
            return loop.run(work)
        finally:
            lanes.release()

    @app.get("/healthz")
    def healthz() -> Response:
        status = service.status()
        able = [node for node in status.nodes if node.healthy]
        reasons = "; ".join(f"{node.name}: {node.error or 'draining'}" for node in status.nodes if not node.healthy)
        return json_answer(
            HealthResponse(
                ok=bool(able),
                role="pool",
                running_containers=status.total_leases,
                max_containers=sum(node.max_containers for node in able),
                draining=False,
                version=__version__,
                boot_id=boot_id,
                message=reasons,
            )
        )

    @app.get("/status")
    def status() -> Response:
        return json_answer(service.status())

    @app.get("/images")
    def images() -> Response:
        found = slowly(service.images())
        bodies = [ImageBody(names=[name], size=size) for name, size in sorted(found.items())]
        return json_answer(ImagesResponse(count=len(bodies), images=bodies))

    @app.post("/allocate")
    def allocate() -> Response:
        body = parse_body(AllocateRequest)
        repeated = request.headers.get(DELIVERED_HEADER) not in (None, boot_id)

        def work() -> AllocateResponse:
            with measured.allocated.time():
                return slowly(service.allocate(body, repeated=repeated))

        fingerprint = body.model_copy(update={"timeout": 0.0, "queue_timeout": None}).model_dump_json()
        return json_answer(keys.run(body.idempotency_key, fingerprint, work))

    def forward(operation: Operation[Any]) -> None:
        path, kind = LEASE_PATHS[operation.name]

        def view() -> Response:
            body: Any = parse_body(kind)
            fields = body.model_dump(exclude={"lease_id", "container_id"})
            assert operation.request is not None
            inner = operation.request(container_id=split_lease(body.lease_id)[1], **fields)
            delivered_to = request.headers.get(DELIVERED_HEADER, "")
            work = service.forward(body.lease_id, operation, inner, delivered_to=delivered_to)
            return json_answer(loop.run(work) if operation.quick else slowly(work))

        app.add_url_rule(path, operation.name, view, methods=["POST"])

    for operation in (EXEC, DIFF, EVALUATE, HEARTBEAT, DESTROY):
        forward(operation)

    @app.get("/container/file")
    def read_file() -> Response:
        where = parse_query(_FilePath)
        data = slowly(service.read_file(where.container_id, where.path))
        return Response(data, mimetype="application/octet-stream")

    @app.put("/container/file")
    def write_file() -> Response:
        where = parse_query(_FilePath)
        slowly(service.write_file(where.container_id, where.path, request.get_data()))
        return json_answer(Ok())

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(measured.text(service.status()), mimetype="text/plain; version=0.0.4")

    @app.get("/openapi.json")
    def openapi() -> Response:
        return Response(json.dumps(describe_pool()), mimetype="application/json")

    return app
