"""Lease sandboxes: `AsyncExecClient` for asyncio, `ExecClient` as its sync face.

A lease is kept alive by heartbeats from the moment it is made until `close`. Where it comes from (a node over HTTP, one
of several, a node inside this process) makes no difference to its user.
"""

import asyncio
import base64
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from swe_exec_server.api import DESTROY, DIFF, EVALUATE, EXEC, HEARTBEAT, IMAGES
from swe_exec_server.loop_thread import LoopThread
from swe_exec_server.pool import NODE_QUEUE_S, NodePool
from swe_exec_server.pool_member import Member
from swe_exec_server.sandbox import (
    DEFAULT_EVALUATE_TIMEOUT,
    DEFAULT_EXEC_TIMEOUT,
    DEFAULT_MAX_OUTPUT,
    DiffResult,
    EvaluateResult,
    ExecResult,
    SandboxSpec,
)
from swe_exec_server.transport import HttpTransport, Transport
from swe_exec_server.wire import (
    ContainerRequest,
    CreateRequest,
    DiffRequest,
    ErrorCode,
    EvaluateRequest,
    ExecRequest,
    HealthResponse,
    LimitsBody,
    SandboxError,
    decode_bytes,
    encode_bytes,
)

HEARTBEATS_PER_TTL = 4


def _key() -> str:
    return uuid.uuid4().hex


class LeasedSandbox:
    """A `Sandbox` on some node."""

    def __init__(self, transport: Transport, container_id: str, spec: SandboxSpec) -> None:
        self._transport = transport
        self._id = container_id
        self._spec = spec
        self._closed = False
        self._heartbeat = asyncio.create_task(self._beat(), name=f"heartbeat {container_id[:12]}")

    @property
    def id(self) -> str:
        return self._id

    @property
    def image(self) -> str:
        return self._spec.image

    @property
    def node(self) -> str:
        """Which node the container is on."""
        return self._transport.label

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EXEC_TIMEOUT,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """See `Sandbox.exec`."""
        text, encoding = encode_bytes(stdin)
        request = ExecRequest(
            container_id=self._id,
            command=command,
            cwd=cwd,
            timeout=timeout,
            env=dict(env or {}),
            stdin=text,
            stdin_encoding=encoding,
            max_output=max_output,
            encoding="base64",
            idempotency_key=_key(),
        )
        answer = await self._transport.call(EXEC, request)
        return ExecResult(
            returncode=answer.returncode,
            output=base64.b64decode(answer.output),
            output_bytes=answer.output_bytes,
            timed_out=answer.timed_out,
            truncated=answer.truncated,
            duration=answer.duration,
        )

    async def diff(self, *, cwd: str | None = None, base: str | None = None, untracked: bool = True) -> DiffResult:
        """See `Sandbox.diff`."""
        request = DiffRequest(container_id=self._id, cwd=cwd, base=base, untracked=untracked)
        answer = await self._transport.call(DIFF, request)
        return DiffResult(decode_bytes(answer.patch, answer.encoding), answer.base, tuple(answer.warnings))

    async def evaluate(
        self,
        patch: bytes,
        eval_script: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EVALUATE_TIMEOUT,
        allow_empty_patch: bool = False,
        max_output: int | None = None,
    ) -> EvaluateResult:
        """See `Sandbox.evaluate`."""
        text, encoding = encode_bytes(patch)
        request = EvaluateRequest(
            container_id=self._id,
            patch=text,
            encoding=encoding,
            eval_script=eval_script,
            cwd=cwd,
            timeout=timeout,
            full_output=True,
            allow_empty_patch=allow_empty_patch,
            idempotency_key=_key(),
        )
        answer = await self._transport.call(EVALUATE, request)
        output = decode_bytes(answer.output, answer.encoding)
        cut = max_output is not None and len(output) > max_output
        return EvaluateResult(
            applied=answer.applied,
            applied_by=answer.applied_by,
            returncode=answer.returncode,
            timed_out=answer.timed_out,
            output=output[-max_output:] if cut and max_output else output,
            output_bytes=answer.output_bytes,
            truncated=answer.truncated or cut,
            duration=answer.duration,
        )

    async def read_file(self, path: str) -> bytes:
        return await self._transport.read_file(self._id, path)

    async def write_file(self, path: str, data: bytes) -> None:
        await self._transport.write_file(self._id, path, data)

    async def close(self) -> None:
        """Give the container back. Shielded: a cancelled caller still gives it back."""
        if self._closed:
            return
        self._closed = True
        self._heartbeat.cancel()
        await asyncio.shield(self._destroy())

    async def _destroy(self) -> None:
        # Whatever cannot be destroyed now ends itself when its lease runs out.
        with contextlib.suppress(SandboxError):
            await self._transport.call(DESTROY, ContainerRequest(container_id=self._id))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._spec.ttl / HEARTBEATS_PER_TTL)
            # A lost container is reported by the next real call, where someone can act on it.
            with contextlib.suppress(SandboxError):
                await self._transport.call(HEARTBEAT, ContainerRequest(container_id=self._id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncExecClient:
    """A `SandboxProvider` over one or several nodes."""

    def __init__(self, transports: Sequence[Transport]) -> None:
        members = [Member(transport.label, transport.label, transport) for transport in transports]
        self._pool = NodePool(members)
        self._transports = [member.transport for member in self._pool.members.values()]
        self._cleaning: set[asyncio.Task[None]] = set()

    @classmethod
    def over_http(cls, urls: Sequence[str], token: str = "") -> Self:
        """Clients of the nodes at `urls` (`http://host:port`)."""
        return cls([HttpTransport(url, token) for url in urls])

    @property
    def nodes(self) -> list[str]:
        return [transport.label for transport in self._transports]

    async def health(self) -> dict[str, HealthResponse | SandboxError]:
        """Every node's answer, or why it gave none."""
        return await self._pool.health()

    async def create(self, spec: SandboxSpec) -> LeasedSandbox:
        """Lease a sandbox on the node with the most room. A cancelled create leaves nothing behind."""
        request = CreateRequest(
            image=spec.image,
            cwd=spec.cwd,
            timeout=spec.timeout,
            env=dict(spec.env),
            limits=LimitsBody(memory=spec.limits.memory, pids=spec.limits.pids, cpus=spec.limits.cpus),
            network=spec.network,
            ttl=spec.ttl,
            scrub_git=spec.scrub_git,
            owner=spec.owner,
            idempotency_key=_key(),
        )
        sent = asyncio.Event()
        creating = asyncio.ensure_future(self._lease(request, {"trusted": True} if spec.trusted else {}, sent))
        try:
            leased_from, container_id = await asyncio.shield(creating)
        except asyncio.CancelledError:
            if sent.is_set():
                self._abandon(creating)
            else:
                creating.cancel()
            raise
        return LeasedSandbox(leased_from, container_id, spec)

    async def _lease(self, request: CreateRequest, local: dict[str, Any], sent: asyncio.Event) -> tuple[Transport, str]:
        """A container of the node whose turn it is; `sent` is set while one may be making it."""
        if len(self._transports) == 1:
            sent.set()
            return await self._transports[0].lease(request, **local)

        async def on(member: Member, left: float) -> tuple[Transport, str]:
            asked = request.model_copy(update={"timeout": left, "queue_timeout": min(left, NODE_QUEUE_S)})
            sent.set()
            try:
                return await member.transport.lease(asked, patient=False, **local)
            except SandboxError as error:
                if error.code is not ErrorCode.UNREACHABLE:
                    sent.clear()
                raise

        return await self._pool.place(request.image, request.timeout, on, key=request.idempotency_key or "")

    def _abandon(self, creating: "asyncio.Future[tuple[Transport, str]]") -> None:
        """The caller of a create has gone: destroy what it makes. `close` waits for that."""

        async def destroy() -> None:
            with contextlib.suppress(SandboxError):
                transport, container_id = await creating
                await transport.call(DESTROY, ContainerRequest(container_id=container_id))

        task = asyncio.get_running_loop().create_task(destroy())
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def has_image(self, image: str) -> bool:
        """Whether any node has it."""
        for transport in self._transports:
            if await transport.has_image(image):
                return True
        return False

    async def count_images(self) -> int:
        """How many images the nodes list together; asks each of them, token included."""
        answers = await asyncio.gather(*(transport.call(IMAGES) for transport in self._transports))
        return sum(answer.count for answer in answers)

    async def close(self) -> None:
        if self._cleaning:
            await asyncio.wait(self._cleaning)
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class SyncSandbox:
    """`LeasedSandbox` for code without asyncio; same methods, same results, same errors."""

    def __init__(self, loop: LoopThread, sandbox: LeasedSandbox) -> None:
        self._loop = loop
        self._sandbox = sandbox
        self.id = sandbox.id

    def exec(self, command: str, **options: Any) -> ExecResult:
        return self._loop.run(self._sandbox.exec(command, **options))

    def diff(self, **options: Any) -> DiffResult:
        return self._loop.run(self._sandbox.diff(**options))

    def evaluate(self, patch: bytes, eval_script: str, **options: Any) -> EvaluateResult:
        return self._loop.run(self._sandbox.evaluate(patch, eval_script, **options))

    def read_file(self, path: str) -> bytes:
        return self._loop.run(self._sandbox.read_file(path))

    def write_file(self, path: str, data: bytes) -> None:
        self._loop.run(self._sandbox.write_file(path, data))

    def close(self) -> None:
        self._loop.run(self._sandbox.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ExecClient:
    """The sync face of `AsyncExecClient`: `with ExecClient(["http://127.0.0.1:5000"]) as client: ...`."""

    def __init__(self, urls: Sequence[str], token: str = "") -> None:
        self._loop = LoopThread("exec-client")
        self._client = self._loop.run(self._make(urls, token))

    @staticmethod
    async def _make(urls: Sequence[str], token: str) -> AsyncExecClient:
        return AsyncExecClient.over_http(urls, token)

    def health(self) -> dict[str, HealthResponse | SandboxError]:
        return self._loop.run(self._client.health())

    def create(self, spec: SandboxSpec) -> SyncSandbox:
        return SyncSandbox(self._loop, self._loop.run(self._client.create(spec)))

    def close(self) -> None:
        self._loop.run(self._client.close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
