"""Flask routes over a `Node`, one line of logic each."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask, Response, request
from pydantic import BaseModel

from swe_exec_server.api import DELIVERED_HEADER, OPERATIONS, Operation
from swe_exec_server.http_support import guard, json_answer, parse_body, parse_query
from swe_exec_server.node import Node
from swe_exec_server.openapi import describe_api
from swe_exec_server.wire import AbsolutePath, ErrorCode, Ok, PullRequest, SandboxError, error_body

MAX_BODY_BYTES = 256 * 1024**2


class _FilePath(BaseModel):
    container_id: str
    path: AbsolutePath


def create_app(node: Node, *, token: str = "", slow_requests: int = 60, max_body: int = MAX_BODY_BYTES) -> Flask:
    """The WSGI application.

    Args:
        token: bearer token that every request but `/healthz` and `/openapi.json` must carry; empty asks for none.
        slow_requests: how many requests that may take long run at once; the threads above stay free for quick ones.
        max_body: bytes of a request body, then `too_large`.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = max_body
    lanes = threading.BoundedSemaphore(slow_requests)

    @contextmanager
    def slow_lane() -> Iterator[None]:
        if not lanes.acquire(blocking=False):
            raise SandboxError(ErrorCode.FULL, f"{slow_requests} requests run already; try again later")
        try:
            yield
        finally:
            lanes.release()

    guard(app, token=token, boot_id=node.boot_id, count_failure=lambda code: node.metrics.failures.labels(code).inc())

    def add(operation: Operation[Any]) -> None:
        def view() -> Response:
            body = parse_body(operation.request) if operation.request else None
            delivered_to = request.headers.get(DELIVERED_HEADER)
            if operation.quick:
                return json_answer(operation.handler(node, body, delivered_to))
            with slow_lane():
                return json_answer(operation.handler(node, body, delivered_to))

        app.add_url_rule(operation.path, operation.name, view, methods=[operation.method])

    for operation in OPERATIONS:
        add(operation)

    @app.get("/container/file")
    def read_file() -> Response:
        where = parse_query(_FilePath)
        with slow_lane():
            return Response(node.read_file(where.container_id, where.path), mimetype="application/octet-stream")

    @app.put("/container/file")
    def write_file() -> Response:
        where = parse_query(_FilePath)
        with slow_lane():
            return json_answer(node.write_file(where.container_id, where.path, request.get_data()))

    @app.post("/images/pull")
    def pull() -> Response:
        lines = node.pull(parse_body(PullRequest))
        return Response(_progress(lines), mimetype="application/x-ndjson")

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(node.metrics.text(), mimetype="text/plain; version=0.0.4")

    @app.get("/openapi.json")
    def openapi() -> Response:
        return Response(json.dumps(describe_api()), mimetype="application/json")

    return app


def _progress(lines: Iterator[str]) -> Iterator[str]:
    try:
        for line in lines:
            yield json.dumps({"progress": line}) + "\n"
    except SandboxError as error:
        yield json.dumps(error_body(error)) + "\n"
    else:
        yield Ok().model_dump_json() + "\n"
