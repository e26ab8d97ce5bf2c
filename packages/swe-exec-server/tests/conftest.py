"""Fixtures of the exec server's tests: an image with a repository in it, nodes in namespaces of their own."""

import uuid
from collections.abc import Callable, Iterator

import docker
import pytest
from swe_exec_server.backend import ExecSpec
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.node import Node, NodeOptions
from swe_exec_server.sandbox import Limits, SandboxSpec

REPOSITORY = """
git init -q . && printf 'def hello(name):\\n    return "hello " + name\\n' > hello.py && git add -A
git -c user.name=a -c user.email=a@example.invalid commit -qm first
"""


@pytest.fixture(scope="session")
def repository_image(docker_base_image: str) -> Iterator[str]:
    """An image whose /testbed is a repository of one commit."""
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    backend = DockerBackend(namespace)
    container = backend.create(SandboxSpec(image=docker_base_image), f"swe-{namespace}", {})
    client = docker.from_env()
    image = f"swe-{namespace}:1"
    try:
        result = container.exec(ExecSpec(REPOSITORY, "/testbed"))
        assert result.returncode == 0, result.text
        client.containers.get(container.id).commit(*image.split(":"))
    finally:
        container.destroy()
    yield image
    client.images.remove(image, force=True)
    client.close()


MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(docker_base_image: str) -> Iterator[MakeNode]:
    """`make_node(max_containers=2, namespace=..., ttl=...)`: started nodes that are closed at the end."""
    nodes: list[Node] = []

    def make(
        *,
        namespace: str = "",
        max_containers: int = 2,
        ttl: float = 60.0,
        reap_interval: float = 0.2,
        sweep_interval: float = 15.0,
        start: bool = True,
    ) -> Node:
        backend = DockerBackend(namespace or f"test-{uuid.uuid4().hex[:12]}")
        limits = Limits(memory=512 * 1024**2, pids=128, cpus=1.0)
        options = NodeOptions(
            max_containers=max_containers,
            limits=limits,
            ttl=ttl,
            reap_interval=reap_interval,
            sweep_interval=sweep_interval,
        )
        node = Node(backend, options)
        nodes.append(node)
        if start:
            node.start()
        return node

    yield make
    for node in nodes:
        node.close()
        for container in node.backend.list():
            container.destroy()
