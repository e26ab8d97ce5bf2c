"""The OpenAPI description of a pool: its own operations, and a node's on leases."""

from typing import Any

from pydantic import BaseModel

from swe_exec_server import __version__
from swe_exec_server.api import DESTROY, DIFF, EVALUATE, EXEC, HEALTH, HEARTBEAT, IMAGES, Operation
from swe_exec_server.openapi import content_of, failures, schemas_of
from swe_exec_server.pool_client import LEASE_PATHS
from swe_exec_server.pool_wire import AllocateRequest, AllocateResponse, PoolStatusResponse
from swe_exec_server.wire import ErrorResponse, HealthResponse, ImagesResponse


def _entry(name: str, summary: str, request: type[BaseModel] | None, response: type[BaseModel]) -> dict[str, Any]:
    answers = {"200": {"description": "done", "content": content_of(response)}, **failures()}
    entry: dict[str, Any] = {"operationId": name, "summary": summary, "responses": answers}
    if request is not None:
        entry["requestBody"] = {"required": True, "content": content_of(request)}
    return entry


def _forwarded(operation: Operation[Any]) -> tuple[str, dict[str, Any]]:
    path, request = LEASE_PATHS[operation.name]
    return path, {"post": _entry(operation.name, f"{operation.summary} (forwarded)", request, operation.response)}


def describe_pool() -> dict[str, Any]:
    """The whole description as JSON types."""
    allocate = _entry("allocate", "A container on the node with the most room", AllocateRequest, AllocateResponse)
    health = _entry("health", "Whether any node takes containers", None, HealthResponse)
    health["security"] = []
    paths: dict[str, Any] = {
        "/healthz": {"get": health},
        "/status": {"get": _entry("status", "Every node as last seen", None, PoolStatusResponse)},
        "/images": {"get": _entry("images", "Images that some node has", None, ImagesResponse)},
        "/allocate": {"post": allocate},
        **dict(_forwarded(operation) for operation in (EXEC, DIFF, EVALUATE, HEARTBEAT, DESTROY)),
    }
    models: list[type[BaseModel]] = [
        ErrorResponse,
        HealthResponse,
        ImagesResponse,
        AllocateRequest,
        AllocateResponse,
        PoolStatusResponse,
    ]
    models += [request for _, request in LEASE_PATHS.values()]
    models += [operation.response for operation in (EXEC, DIFF, EVALUATE, HEARTBEAT, HEALTH, IMAGES)]
    return {
        "openapi": "3.1.0",
        "info": {"title": "swe-exec-pool", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas_of(models),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
