"""The OpenAPI 3.1 description of a node, made from the table of operations and the types of `wire.py`."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from swe_exec_server import __version__
from swe_exec_server.api import OPERATIONS, Operation
from swe_exec_server.wire import HTTP_STATUS, ErrorCode, ErrorResponse, Ok, PullRequest

REF = "#/components/schemas/{model}"


def content_of(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}


def _bytes_content() -> dict[str, Any]:
    return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def failures() -> dict[str, Any]:
    statuses = sorted({status for code, status in HTTP_STATUS.items() if code is not ErrorCode.UNREACHABLE})
    return {str(status): {"description": "failure", "content": content_of(ErrorResponse)} for status in statuses}


def _path(operation: Operation[Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            "200": {"description": "done", "content": content_of(operation.response)},
            **failures(),
        },
    }
    if operation.name == "health":
        entry["security"] = []
        entry["responses"]["503"] = {
            "description": "no containers can be made",
            "content": content_of(operation.response),
        }
    if operation.request is not None:
        entry["requestBody"] = {"required": True, "content": content_of(operation.request)}
    return entry


def _special_paths() -> dict[str, Any]:
    where = [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("container_id", "path")
    ]
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    plain = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "/container/file": {
            "get": {
                "operationId": "read_file",
                "summary": "Read a file as bytes",
                "parameters": where,
                "responses": {"200": {"description": "its bytes", "content": _bytes_content()}, **failures()},
            },
            "put": {
                "operationId": "write_file",
                "summary": "Create or replace a file",
                "parameters": where,
                "requestBody": {"required": True, "content": _bytes_content()},
                "responses": {"200": {"description": "done", "content": content_of(Ok)}, **failures()},
            },
        },
        "/images/pull": {
            "post": {
                "operationId": "pull",
                "summary": "Pull an image; progress as JSON lines, the last one is the outcome",
                "requestBody": {"required": True, "content": content_of(PullRequest)},
                "responses": {"200": {"description": "progress", "content": lines}, **failures()},
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Prometheus text",
                "responses": {"200": {"description": "metrics", "content": plain}, **failures()},
            }
        },
        "/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This description",
                "security": [],
                "responses": {"200": {"description": "OpenAPI", "content": {"application/json": {"schema": {}}}}},
            }
        },
    }


def schemas_of(models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The schemas of `models` and of all that they refer to, by name."""
    unique = [(model, "validation") for model in dict.fromkeys(models)]
    _, schemas = models_json_schema(unique, ref_template=REF)  # type: ignore[arg-type]
    definitions: dict[str, Any] = schemas["$defs"]
    return definitions


def describe_api() -> dict[str, Any]:
    """The whole description as JSON types."""
    models: list[type[BaseModel]] = [ErrorResponse, Ok, PullRequest]
    for operation in OPERATIONS:
        models += [model for model in (operation.request, operation.response) if model is not None]
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _path(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "swe-exec-server", "version": __version__},
        "paths": {**paths, **_special_paths()},
        "components": {
            "schemas": schemas_of(models),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
