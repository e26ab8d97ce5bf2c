"""The pool's own requests and answers; everything else it says is the node's (`wire.py`).

A lease id is `<node name>.<container id>`: whoever has it can be served by any pool over the same nodes, so a pool that
restarts loses nothing.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from swe_exec_server.wire import (
    CreateRequest,
    DiffRequest,
    EvaluateRequest,
    ExecRequest,
    Ok,
    WireModel,
)

LeaseId = Annotated[str, StringConstraints(min_length=3, max_length=512, pattern=r"^[^\s.][^\s]*\.[A-Za-z0-9_-]+$")]


class AllocateRequest(CreateRequest):
    """Every field of create. `instance_id` is shown as the owner where none is given."""

    instance_id: Annotated[str, StringConstraints(max_length=200)] = ""


class AllocateResponse(Ok):
    lease_id: str
    node_url: str
    container_id: str
    name: str


class LeaseRequest(WireModel):
    lease_id: LeaseId


class LeaseExecRequest(ExecRequest):
    container_id: str = Field("", exclude=True)
    lease_id: LeaseId


class LeaseDiffRequest(DiffRequest):
    container_id: str = Field("", exclude=True)
    lease_id: LeaseId


class LeaseEvaluateRequest(EvaluateRequest):
    container_id: str = Field("", exclude=True)
    lease_id: LeaseId


class NodeStatus(WireModel):
    """One node as the pool sees it. `free` counts what is under way as taken; `error` says why it is not healthy."""

    name: str
    url: str
    healthy: bool
    draining: bool
    running_containers: int
    max_containers: int
    free: int
    error: str = ""


class PoolStatusResponse(Ok):
    total_leases: int
    queued: int
    nodes: list[NodeStatus]
