"""Flask routes over a `Node`, one line of logic each."""

import hmac
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flask import Flask, Response, request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from swe_exec_server.api import BOOT_HEADER, DELIVERED_HEADER, OPERATIONS, Operation
from swe_exec_server.node import Node
from swe_exec_server.openapi import describe_api
from swe_exec_server.wire import AbsolutePath, ErrorCode, HealthResponse, Ok, PullRequest, SandboxError, error_body

log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BaseModel)
OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})
RETRY_AFTER_S = 5
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

    @app.before_request
    def authorize() -> None:
        if token and request.path not in OPEN_PATHS:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(given, token.encode()):
                raise SandboxError(ErrorCode.UNAUTHORIZED, "a bearer token is needed (SWE_EXEC_TOKEN or --token-file)")

    @app.after_request
    def stamp(response: Response) -> Response:
        response.headers[BOOT_HEADER] = node.boot_id
        return response

    def add(operation: Operation[Any]) -> None:
        def view() -> Response:
            body = _parse(operation.request) if operation.request else None
            delivered_to = request.headers.get(DELIVERED_HEADER)
            if operation.quick:
                return _json(operation.handler(node, body, delivered_to))
            with slow_lane():
                return _json(operation.handler(node, body, delivered_to))

        app.add_url_rule(operation.path, operation.name, view, methods=[operation.method])

    for operation in OPERATIONS:
        add(operation)

    @app.get("/container/file")
    def read_file() -> Response:
        where = _file_path()
        with slow_lane():
            return Response(node.read_file(where.container_id, where.path), mimetype="application/octet-stream")

    @app.put("/container/file")
    def write_file() -> Response:
        where = _file_path()
        with slow_lane():
            return _json(node.write_file(where.container_id, where.path, request.get_data()))

    @app.post("/images/pull")
    def pull() -> Response:
        lines = node.pull(_parse(PullRequest))
        return Response(_progress(lines), mimetype="application/x-ndjson")

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(node.metrics.text(), mimetype="text/plain; version=0.0.4")

    @app.get("/openapi.json")
    def openapi() -> Response:
        return Response(json.dumps(describe_api()), mimetype="application/json")

    @app.errorhandler(SandboxError)
    def sandbox_error(error: SandboxError) -> Response:
        node.metrics.failures.labels(error.code).inc()
        response = Response(json.dumps(error_body(error)), status=error.status, mimetype="application/json")
        if error.retryable:
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        return response

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        code = ErrorCode.TOO_LARGE if isinstance(error, RequestEntityTooLarge) else ErrorCode.BAD_REQUEST
        message = f"{request.method} {request.path}: {error.description or error.name}"
        response = sandbox_error(SandboxError(code, message))
        response.status_code = error.code or 500
        if (allowed := error.get_response().headers.get("Allow")) is not None:
            response.headers["Allow"] = allowed
        return response

    @app.errorhandler(Exception)
    def bug(error: Exception) -> Response:
        log.error("%s %s", request.method, request.path, exc_info=error)
        return sandbox_error(
            SandboxError(ErrorCode.INTERNAL, f"a fault of the server: {type(error).__name__}: {error}")
        )

    return app


def _json(answer: BaseModel) -> Response:
    status = 503 if isinstance(answer, HealthResponse) and not answer.ok else 200
    return Response(answer.model_dump_json(), status=status, mimetype="application/json")


def _parse(model: type[Model]) -> Model:
    try:
        return model.model_validate_json(request.get_data())
    except ValidationError as error:
        raise SandboxError(ErrorCode.BAD_REQUEST, _first_complaint(error)) from error


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def _file_path() -> _FilePath:
    try:
        return _FilePath.model_validate(request.args.to_dict())
    except ValidationError as error:
        raise SandboxError(ErrorCode.BAD_REQUEST, _first_complaint(error)) from error


def _progress(lines: Iterator[str]) -> Iterator[str]:
    try:
        for line in lines:
            yield json.dumps({"progress": line}) + "\n"
    except SandboxError as error:
        yield json.dumps(error_body(error)) + "\n"
    else:
        yield Ok().model_dump_json() + "\n"
