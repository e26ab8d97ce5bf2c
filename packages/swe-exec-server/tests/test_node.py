"""The node's promises, over a real engine: the cap, leases, keys, restarts, draining."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import docker
import pytest
from swe_exec_server.node import Node
from swe_exec_server.sandbox import SandboxSpec
from swe_exec_server.wire import (
    ContainerRequest,
    CreateRequest,
    DiffRequest,
    DrainRequest,
    ErrorCode,
    ExecRequest,
    LimitsBody,
    SandboxError,
)

pytestmark = pytest.mark.docker
MakeNode = Callable[..., Node]


def error_of(work: Callable[[], object]) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        work()
    return caught.value


def test_ten_creates_at_once_never_exceed_two(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node(max_containers=2)
    seen: list[int] = []
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(0.01):
            seen.append(len(node.backend.list()))

    def use(_: int) -> str:
        made = node.create(CreateRequest(image=docker_base_image))
        assert node.exec(ExecRequest(container_id=made.container_id, command="sleep 0.1")).returncode == 0
        node.destroy(ContainerRequest(container_id=made.container_id))
        return made.container_id

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(10) as pool:
        ids = list(pool.map(use, range(10)))
    watching.set()
    watcher.join()
    assert len(set(ids)) == 10
    assert max(seen) == 2
    assert node.health().running_containers == 0


def test_a_full_node_says_so_after_the_creates_own_timeout(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node(max_containers=1)
    node.create(CreateRequest(image=docker_base_image))
    error = error_of(lambda: node.create(CreateRequest(image=docker_base_image, timeout=0.2)))
    assert (error.code, error.retryable, error.status) == (ErrorCode.FULL, True, 429)


def test_a_failed_create_frees_its_slot(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node(max_containers=1)
    assert error_of(lambda: node.create(CreateRequest(image="no-such-image:1"))).code is ErrorCode.IMAGE_UNKNOWN
    assert node.create(CreateRequest(image=docker_base_image, timeout=5)).container_id


def test_limits_may_be_lowered_but_not_raised(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node()
    body = LimitsBody(memory=64 * 1024**3)
    error = error_of(lambda: node.create(CreateRequest(image=docker_base_image, limits=body)))
    assert error.code is ErrorCode.BAD_REQUEST
    assert "limits.memory" in error.message
    made = node.create(CreateRequest(image=docker_base_image, limits=LimitsBody(memory=64 * 1024**2)))
    client = docker.from_env()
    assert client.containers.get(made.container_id).attrs["HostConfig"]["Memory"] == 64 * 1024**2
    client.close()


def test_an_unused_lease_runs_out_and_a_used_one_does_not(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node(ttl=3.0)
    idle = node.create(CreateRequest(image=docker_base_image))
    beating = node.create(CreateRequest(image=docker_base_image))
    for _ in range(9):
        time.sleep(0.5)
        node.heartbeat(ContainerRequest(container_id=beating.container_id))
    error = error_of(lambda: node.exec(ExecRequest(container_id=idle.container_id, command="true")))
    assert (error.code, error.status) == (ErrorCode.CONTAINER_GONE, 410)
    assert "lease ran out" in error.message
    assert node.exec(ExecRequest(container_id=beating.container_id, command="sleep 4; echo still")).output == "still\n"
    assert node.health().running_containers == 1


def test_a_container_killed_behind_the_node_is_gone_and_its_slot_is_free(
    make_node: MakeNode, docker_base_image: str
) -> None:
    node = make_node(max_containers=1)
    made = node.create(CreateRequest(image=docker_base_image))
    client = docker.from_env()
    client.containers.get(made.container_id).kill()
    client.close()
    for _ in range(2):
        error = error_of(lambda: node.exec(ExecRequest(container_id=made.container_id, command="echo hi")))
        assert (error.code, error.retryable) == (ErrorCode.CONTAINER_GONE, False)
    assert node.create(CreateRequest(image=docker_base_image, timeout=5)).container_id


def test_a_container_that_no_lease_knows_is_removed(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node(sweep_interval=0.5)
    kept = node.create(CreateRequest(image=docker_base_image))
    # As after an engine that was down when a container was to be removed.
    lost = node.backend.create(SandboxSpec(image=docker_base_image), f"swe-{uuid.uuid4().hex[:12]}", {})
    deadline = time.monotonic() + 10
    while lost.id in [container.id for container in node.backend.list()]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert node.exec(ExecRequest(container_id=kept.container_id, command="echo kept")).output == "kept\n"


def test_destroy_twice_is_fine_and_names_work_like_ids(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node()
    made = node.create(CreateRequest(image=docker_base_image))
    assert node.exec(ExecRequest(container_id=made.name, command="echo by name")).output == "by name\n"
    node.destroy(ContainerRequest(container_id=made.name))
    node.destroy(ContainerRequest(container_id=made.container_id))
    assert node.health().running_containers == 0
    unknown = error_of(lambda: node.destroy(ContainerRequest(container_id="f" * 64)))
    assert unknown.code is ErrorCode.CONTAINER_UNKNOWN


def test_a_container_of_someone_else_can_not_be_named(make_node: MakeNode, docker_base_image: str) -> None:
    mine, other = make_node(), make_node()
    made = other.create(CreateRequest(image=docker_base_image))
    error = error_of(lambda: mine.exec(ExecRequest(container_id=made.container_id, command="id")))
    assert error.code is ErrorCode.CONTAINER_UNKNOWN


def test_a_restarted_node_finds_its_containers_and_leaves_others_alone(
    make_node: MakeNode, docker_base_image: str
) -> None:
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    first = make_node(namespace=namespace)
    stranger = make_node()
    theirs = stranger.create(CreateRequest(image=docker_base_image))
    request = CreateRequest(image=docker_base_image, idempotency_key="k1", owner="me")
    made = first.create(request)
    first.exec(ExecRequest(container_id=made.container_id, command="echo kept > /tmp/x"))
    first.close(destroy=False)

    second = make_node(namespace=namespace)
    assert second.boot_id != first.boot_id
    assert second.status().containers[0].owner == "me"
    assert second.create(request) == made
    assert second.exec(ExecRequest(container_id=made.container_id, command="cat /tmp/x")).output == "kept\n"
    assert stranger.exec(ExecRequest(container_id=theirs.container_id, command="echo here")).output == "here\n"
    second.close(destroy=False)

    third = make_node(namespace=namespace, start=False)
    third.start(keep=False)
    assert third.backend.list() == []
    assert len(stranger.backend.list()) == 1


def test_the_base_is_the_images_head_even_after_a_commit_and_a_restart(
    make_node: MakeNode, repository_image: str
) -> None:
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    node = make_node(namespace=namespace)
    made = node.create(CreateRequest(image=repository_image))
    commit = "sed -i s/hello/hi/ hello.py && git -c user.name=a -c user.email=a@example.invalid commit -qam wip"
    assert node.exec(ExecRequest(container_id=made.container_id, command=commit)).returncode == 0
    before = node.diff(DiffRequest(container_id=made.container_id))
    assert '+    return "hi " + name' in before.patch
    node.close(destroy=False)
    assert make_node(namespace=namespace).diff(DiffRequest(container_id=made.container_id)) == before


def test_a_keyed_exec_runs_once(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node()
    made = node.create(CreateRequest(image=docker_base_image))
    command = "echo x >> /tmp/count; sleep 0.3; wc -l < /tmp/count"
    request = ExecRequest(container_id=made.container_id, command=command, idempotency_key="once")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: node.exec(request), range(4)))
    assert {answer.output for answer in answers} == {"1\n"}
    other = request.model_copy(update={"command": "true"})
    assert error_of(lambda: node.exec(other)).code is ErrorCode.CONFLICT


def test_a_draining_node_finishes_and_takes_nothing_new(make_node: MakeNode, docker_base_image: str) -> None:
    node = make_node()
    made = node.create(CreateRequest(image=docker_base_image))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(node.exec, ExecRequest(container_id=made.container_id, command="sleep 0.5; echo done"))
        while not node.running_commands:
            time.sleep(0.01)
        node.drain(DrainRequest(deadline=0))
        assert error_of(lambda: node.create(CreateRequest(image=docker_base_image))).code is ErrorCode.DRAINING
        late = ExecRequest(container_id=made.container_id, command="echo late")
        time.sleep(0.01)
        assert error_of(lambda: node.exec(late)).code is ErrorCode.DRAINING
        assert node.wait_idle(10)
        assert running.result().output == "done\n"
    assert node.health().draining


def test_scrubbing_leaves_no_future(make_node: MakeNode, repository_image: str) -> None:
    node = make_node()
    plain = node.create(CreateRequest(image=repository_image))
    grow = """
    g='git -c user.name=a -c user.email=a@example.invalid'
    head=$(git rev-parse HEAD); branch=$(git symbolic-ref --short HEAD)
    echo future > f; git add f; $g commit -qm future; fix=$(git rev-parse HEAD)
    git tag v2; $g tag -a v3 -m v3; git branch later; git update-ref refs/remotes/origin/main HEAD
    git remote add origin https://example.invalid/x.git
    git reset -q --hard "$head"; echo w > w; git add w; $g stash -q
    git gc -q; echo "$fix"
    """
    fix = node.exec(ExecRequest(container_id=plain.container_id, command=grow)).output.split()[-1]
    client = docker.from_env()
    image = f"swe-test-future-{uuid.uuid4().hex[:8]}:1"
    client.containers.get(plain.container_id).commit(*image.split(":"))
    try:
        made = node.create(CreateRequest(image=image, scrub_git=True))
        look = f"""
        git cat-file -e {fix} 2>/dev/null && echo found
        git for-each-ref | grep -v refs/heads/ ; git branch --list later; git reflog; git stash list; git remote
        git rev-list --all --count; git status --porcelain; git fsck --unreachable
        """
        assert node.exec(ExecRequest(container_id=made.container_id, command=look)).output == "1\n"
    finally:
        node.close()
        client.images.remove(image, force=True)
        client.close()
