"""What the node's and the pool's HTTP servers share: listening, token, failures as JSON, parsing."""

import hmac
import json
import logging
import resource
import socket
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, Response, request
from pydantic import BaseModel, ValidationError
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from swe_exec_server.api import BOOT_HEADER
from swe_exec_server.common.errors import UsageError
from swe_exec_server.wire import ErrorCode, HealthResponse, SandboxError, error_body

log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BaseModel)
OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})
RETRY_AFTER_S = 5
IDLE_S = 300
"""Until a connection that asks nothing is closed; clients keep theirs for less."""
CONNECTIONS = 8192
"""At most so many at once, fewer where the system allows fewer files. The library's 100 makes health checks wait."""


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or stop what uses it"
        ) from error
    return listener


def serve_app(
    app: Flask, listener: socket.socket, *, threads: int, max_body: int
) -> MultiSocketServer | BaseWSGIServer:
    """A server of `app` whose `run` serves until `close`. Connections that idle cost no thread and keep nobody out."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < 2 * CONNECTIONS:
        files = 2 * CONNECTIONS if most == resource.RLIM_INFINITY else min(most, 2 * CONNECTIONS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    connections = CONNECTIONS if files == resource.RLIM_INFINITY else min(CONNECTIONS, files // 2)
    return create_server(
        app,
        sockets=[listener],
        threads=threads,
        connection_limit=connections,
        asyncore_use_poll=True,  # select() knows no file above 1024
        channel_timeout=IDLE_S,
        max_request_body_size=max_body + 1,
        clear_untrusted_proxy_headers=True,
        ident=None,
    )


def guard(app: Flask, *, token: str, boot_id: str, count_failure: Callable[[ErrorCode], None]) -> None:
    """Demand the token, stamp the boot id, and turn every failure into the contract's JSON."""

    @app.before_request
    def authorize() -> None:
        if token and request.path not in OPEN_PATHS:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(given, token.encode()):
                raise SandboxError(ErrorCode.UNAUTHORIZED, "a bearer token is needed (SWE_EXEC_TOKEN or --token-file)")

    @app.after_request
    def stamp(response: Response) -> Response:
        response.headers[BOOT_HEADER] = boot_id
        return response

    @app.errorhandler(SandboxError)
    def sandbox_error(error: SandboxError) -> Response:
        count_failure(error.code)
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


def json_answer(answer: BaseModel) -> Response:
    """An answer as JSON; an unhealthy health is 503."""
    status = 503 if isinstance(answer, HealthResponse) and not answer.ok else 200
    return Response(answer.model_dump_json(), status=status, mimetype="application/json")


def parse_body(model: type[Model]) -> Model:
    """The request's JSON as `model`; raises `bad_request` with the first complaint."""
    try:
        return model.model_validate_json(request.get_data())
    except ValidationError as error:
        raise SandboxError(ErrorCode.BAD_REQUEST, first_complaint(error)) from error


def parse_query(model: type[Model]) -> Model:
    """The query string as `model`."""
    try:
        return model.model_validate(request.args.to_dict())
    except ValidationError as error:
        raise SandboxError(ErrorCode.BAD_REQUEST, first_complaint(error)) from error


def first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
