"""The pool as a library, over nodes inside this process: who gets which node, and what a refusal does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from swe_exec_server.api import CREATE, DESTROY, STATUS
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.liveness import Liveness, Silent
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.node import Node, NodeOptions
from swe_exec_server.pool import NodePool
from swe_exec_server.pool_member import DEAD_AFTER, LOCALITY_SLACK, Member, Place, pick
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.transport import EmbeddedTransport
from swe_exec_server.wire import ContainerRequest, CreateRequest, ErrorCode, HealthResponse, SandboxError

MakePool = Callable[..., Awaitable[NodePool]]
LIMITS = Limits(memory=64 * 1024**2, pids=32, cpus=0.5)


@pytest.fixture
async def make_pool(tmp_path: Path) -> AsyncIterator[MakePool]:
    """`make_pool([1, 2], images=["a", "a b"])`: nodes of so many containers that have these images."""
    pools: list[NodePool] = []

    async def make(sizes: Sequence[int], images: Sequence[str] = ()) -> NodePool:
        members = []
        for number, size in enumerate(sizes):
            names = images[number].split() if images else ["tree"]
            trees = {}
            for name in names:
                trees[f"{name}:latest"] = trees[name] = tmp_path / f"{number}-{name}"
                trees[name].mkdir()
            backend = LocalBackend(tmp_path / f"node-{number}", trees.get, mode="process", unsafe_local=True)
            assert all(backend.has_image(f"{name}:latest") for name in names), "listed from now on"
            node = Node(backend, NodeOptions(max_containers=size, limits=LIMITS))
            node.start()
            members.append(Member(f"n{number}", f"n{number}", EmbeddedTransport(node)))
        pool = NodePool(members)
        pools.append(pool)
        await pool.start()
        return pool

    yield make
    for pool in pools:
        await pool.close()


async def lease(pool: NodePool, image: str = "tree", timeout: float = 20.0) -> tuple[Member, str]:
    async def on(member: Member, left: float) -> tuple[Member, str]:
        request = CreateRequest(image=image, timeout=left, queue_timeout=min(left, 0.2))
        made = await member.transport.call(CREATE, request)
        return member, made.container_id

    return await pool.place(image, timeout, on)


async def give_back(pool: NodePool, leased: tuple[Member, str]) -> None:
    await leased[0].transport.call(DESTROY, ContainerRequest(container_id=leased[1]))
    pool.hurry()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for sends no event
            await asyncio.sleep(0.005)


async def queued(pool: NodePool, count: int) -> None:
    await until(lambda: pool.queued == count)


async def test_a_slow_create_holds_nobody_up(make_pool: MakePool) -> None:
    pool = await make_pool([3, 3])
    going, under_way = asyncio.Event(), []

    async def slow(member: Member, left: float) -> str:
        under_way.append(member.name)
        await going.wait()
        return member.name

    early = asyncio.create_task(pool.place("tree", 20, slow))
    await until(lambda: len(under_way) == 1)
    assert (await asyncio.wait_for(lease(pool), 15))[0].name in pool.members, "who comes later does not wait for it"
    more = [asyncio.create_task(pool.place("tree", 20, slow)) for _ in range(3)]
    await until(lambda: len(under_way) == 4)
    going.set()
    assert sorted([await early, *(await asyncio.gather(*more))]) == sorted(under_way)


async def test_leases_are_spread(make_pool: MakePool) -> None:
    pool = await make_pool([3, 3])
    leased = await asyncio.gather(*(lease(pool) for _ in range(4)))
    assert sorted(member.name for member, _ in leased) == ["n0", "n0", "n1", "n1"]


async def test_a_full_pool_serves_in_the_order_of_arrival(make_pool: MakePool) -> None:
    pool = await make_pool([1, 1])
    held = [await lease(pool), await lease(pool)]
    order: list[int] = []

    async def wait(number: int) -> tuple[Member, str]:
        leased = await lease(pool)
        order.append(number)
        return leased

    waiting = []
    for number in range(4):
        waiting.append(asyncio.create_task(wait(number)))
        await queued(pool, number + 1)
    for number in range(4):
        await give_back(pool, held.pop(0))
        held.append(await waiting[number])
    assert order == [0, 1, 2, 3]


async def test_a_pool_that_stays_full_says_so_in_time(make_pool: MakePool) -> None:
    pool = await make_pool([1])
    await lease(pool)
    with pytest.raises(SandboxError) as caught:
        await lease(pool, timeout=0.5)
    assert caught.value.code is ErrorCode.FULL
    assert pool.queued == 0


async def test_who_gives_up_waiting_leaves_the_queue(make_pool: MakePool) -> None:
    pool = await make_pool([1])
    held = await lease(pool)
    first, second = asyncio.create_task(lease(pool)), asyncio.create_task(lease(pool))
    await queued(pool, 2)
    first.cancel()
    await queued(pool, 1)
    await give_back(pool, held)
    assert (await asyncio.wait_for(second, 15))[0].name == "n0"


async def test_the_node_that_has_the_image_is_found_wherever_it_is(make_pool: MakePool) -> None:
    pool = await make_pool([4, 1], images=["tree", "tree rare"])
    assert (await lease(pool, "rare"))[0].name == "n1", "the emptiest one does not have it"
    with pytest.raises(SandboxError) as caught:
        await lease(pool, "nowhere")
    assert caught.value.code is ErrorCode.IMAGE_UNKNOWN


async def test_an_image_that_is_not_listed_yet_is_found_by_trying(make_pool: MakePool) -> None:
    pool = await make_pool([4, 1], images=["tree", "tree rare"])
    for member in pool.members.values():
        member.images = frozenset()
    assert (await lease(pool, "rare"))[0].name == "n1"


async def test_who_waits_for_a_full_node_lets_others_pass_and_keeps_the_turn(make_pool: MakePool) -> None:
    pool = await make_pool([2, 1], images=["tree", "tree rare"])
    held = await lease(pool, "rare")
    first = asyncio.create_task(lease(pool, "rare"))
    await queued(pool, 1)
    assert (await asyncio.wait_for(lease(pool), 15))[0].name == "n0"
    second = asyncio.create_task(lease(pool, "rare"))
    await queued(pool, 2)
    await give_back(pool, held)
    assert (await asyncio.wait_for(first, 15))[0].name == "n1"
    assert not second.done()
    second.cancel()


@pytest.mark.parametrize(
    "code", [ErrorCode.ENGINE_DOWN, ErrorCode.DRAINING, ErrorCode.UNREACHABLE, ErrorCode.DISK_FULL]
)
async def test_a_node_that_refuses_for_its_own_reasons_sends_the_create_elsewhere(
    make_pool: MakePool, code: ErrorCode
) -> None:
    pool = await make_pool([2, 2])
    tried: list[str] = []

    async def first_refuses(member: Member, left: float) -> str:
        tried.append(member.name)
        if len(tried) == 1:
            raise SandboxError(code, "not now")
        return member.name

    assert await pool.place("tree", 20, first_refuses) == tried[1]
    assert tried[0] != tried[1]
    assert all(member.free == 2 - tried[1:].count(member.name) for member in pool.members.values())


async def test_a_cancelled_create_of_a_client_leaves_neither_queue_nor_container(make_pool: MakePool) -> None:
    pool = await make_pool([1, 1])
    transports = [member.transport for member in pool.members.values()]
    for number, transport in enumerate(transports):
        transport.label = f"n{number}"  # type: ignore[misc]
    client = AsyncExecClient(transports)
    spec = SandboxSpec(image="tree", limits=LIMITS, trusted=True)
    boxes = [await client.create(spec) for _ in range(2)]
    assert {box.node for box in boxes} == {"n0", "n1"}
    waiting = asyncio.create_task(client.create(spec))
    await asyncio.sleep(0.2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.gather(*(box.close() for box in boxes))
    late = asyncio.create_task(client.create(spec))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    await asyncio.wait_for(client.close(), 20)
    assert all(not transport.node.status().containers for transport in transports)  # type: ignore[attr-defined]


async def test_what_a_lost_node_made_is_removed_when_it_is_back(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_exec_server.pool_reclaim.TRY_EVERY_S", 0.05)
    pool = await make_pool([2, 2])
    tried: list[Member] = []

    async def lose_the_first_answer(member: Member, left: float) -> str:
        tried.append(member)
        made = await member.transport.call(CREATE, CreateRequest(image="tree", idempotency_key="k"))
        if len(tried) == 1:
            raise SandboxError(ErrorCode.UNREACHABLE, "its answer was lost")
        return made.container_id

    kept = await pool.place("tree", 20, lose_the_first_answer, key="k")
    lost, taken = tried
    await until(lambda: not lost.transport.node.status().containers)  # type: ignore[attr-defined]
    status = await taken.transport.call(STATUS)
    assert [container.id for container in status.containers] == [kept]


async def test_a_fault_of_the_request_is_told_at_once(make_pool: MakePool) -> None:
    pool = await make_pool([2, 2])
    tried: list[str] = []

    async def refuse(member: Member, left: float) -> str:
        tried.append(member.name)
        raise SandboxError(ErrorCode.BAD_REQUEST, "no")

    with pytest.raises(SandboxError) as caught:
        await pool.place("tree", 20, refuse)
    assert (caught.value.code, len(tried)) == (ErrorCode.BAD_REQUEST, 1)


async def test_draining_nodes_are_left_out(make_pool: MakePool) -> None:
    pool = await make_pool([2, 2])
    member = pool.members["n0"]
    assert member.health is not None
    member.health = member.health.model_copy(update={"draining": True})
    assert (await lease(pool))[0].name == "n1"


async def test_work_on_a_node_that_is_lost_ends_at_once(make_pool: MakePool) -> None:
    pool = await make_pool([2])
    member = pool.members["n0"]
    waiting = asyncio.create_task(pool.unless_lost(member, asyncio.sleep(60)))
    await asyncio.sleep(0)
    for _ in range(DEAD_AFTER):
        member.missed("cable cut")
    with pytest.raises(SandboxError, match="cable cut") as caught:
        await asyncio.wait_for(waiting, 5)
    assert caught.value.code is ErrorCode.UNREACHABLE
    begun = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(SandboxError):
        await pool.unless_lost(member, work())
    assert not begun, "nothing is sent to a lost node"


def member(name: str, free: int, images: Sequence[str] = ()) -> Member:
    health = HealthResponse(
        ok=True,
        role="node",
        running_containers=10 - free,
        max_containers=10,
        draining=False,
        version="1",
        boot_id="b",
    )
    made = Member(name, name, transport=None, images=frozenset(images))  # type: ignore[arg-type]
    made.seen(health, 0.0)
    return made


def test_locality_is_worth_some_load_but_not_all() -> None:
    near, empty = member("near", 10 - LOCALITY_SLACK, ["a:latest"]), member("empty", 10)
    assert pick([near, empty], "a") is near
    near.recent.append(Place(1e12))
    assert pick([near, empty], "a") is empty, "one more would overload it"
    empty.refused(SandboxError(ErrorCode.IMAGE_UNKNOWN, "no"), "a", 1e12)
    assert pick([near, empty], "a") is near, "the other one cannot help"
    assert pick([near, empty], "b") is empty


def test_a_create_counts_until_health_shows_it() -> None:
    node = member("n", 5)
    assert node.health is not None
    node.recent += [Place(100.0), Place(149.8), Place(149.8, done=149.9)]
    assert node.free == 2
    node.seen(node.health.model_copy(update={"running_containers": 7}), asked=150.0)
    assert node.free == 2, "the second may not have a slot yet, the third must have"


def test_a_cap_of_the_pool_bounds_a_node() -> None:
    node = member("n", 10)
    node.cap = 2
    assert node.free == 2


async def test_a_silent_server_is_told_from_a_busy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swe_exec_server.liveness.ASK_EVERY_S", 0.02)
    asked = 0

    async def dead() -> bool:
        return False

    async def alive() -> bool:
        nonlocal asked
        asked += 1
        return True

    with pytest.raises(Silent):
        await asyncio.wait_for(Liveness(dead).wait(asyncio.sleep(60)), 10)
    assert await Liveness(alive).wait(asyncio.sleep(0.3, "late")) == "late"
    assert asked > 1
