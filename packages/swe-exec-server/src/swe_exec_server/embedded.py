"""A node inside this process, for tools that were given no exec server.

Its namespace is a directory (a tool's run directory): what an earlier process of the same directory left is removed at
start, and nothing else is touched. The caller holds the directory's lock.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swe_exec_server.backend import Backend
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.common.errors import UsageError
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.node import Node, NodeOptions
from swe_exec_server.sandbox import Limits
from swe_exec_server.transport import EmbeddedTransport
from swe_exec_server.wire import SandboxError

BackendChoice = Literal["auto", "docker", "local"]


def _no_local_images(_: str) -> Path | None:
    return None


@dataclass(frozen=True)
class EmbeddedOptions:
    """How the embedded node behaves.

    Attributes:
        directory: its namespace; also where the local backend keeps its trees.
        backend: `auto` takes Docker where an engine answers.
        local_images: directory of the tree that a local image name stands for.
        unsafe_local: allow commands of a model in plain processes when there is neither Docker nor bubblewrap.
    """

    directory: Path
    backend: BackendChoice = "auto"
    max_containers: int = 4
    limits: Limits = Limits()
    ttl: float = 120.0
    allow_network: bool = False
    local_images: Callable[[str], Path | None] = _no_local_images
    unsafe_local: bool = False


def namespace_of(directory: Path) -> str:
    """The Docker namespace of a directory."""
    return "embedded-" + hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]


def docker_answers() -> str:
    """Empty when a Docker engine answers, else why not, in one line."""
    try:
        DockerBackend("probe").check()
    except SandboxError as error:
        return error.message
    return ""


def make_backend(options: EmbeddedOptions) -> Backend:
    """The backend that `options` ask for; raises `UsageError` when Docker is asked for and does not answer."""
    why_not = "" if options.backend == "local" else docker_answers()
    if options.backend == "docker" and why_not:
        raise UsageError(f"--backend docker: {why_not}")
    if options.backend == "local" or why_not:
        return LocalBackend(
            options.directory / "sandboxes",
            options.local_images,
            unsafe_local=options.unsafe_local,
            allow_network=options.allow_network,
        )
    return DockerBackend(namespace_of(options.directory), allow_network=options.allow_network)


def open_embedded(options: EmbeddedOptions) -> AsyncExecClient:
    """A client of a new node in this process; closing the client ends the node and all its containers."""
    node = Node(
        make_backend(options),
        NodeOptions(max_containers=options.max_containers, limits=options.limits, ttl=options.ttl),
    )
    node.start(keep=False)
    return AsyncExecClient([EmbeddedTransport(node)])
