"""How a client reaches a node: over HTTP, or a node inside this process. Both take the operations of `api.py`.

Retries are safe: an operation with an idempotency key runs once whatever the network does. A retry says which start of
the server an earlier try may have reached, so that a restarted server answers `outcome_unknown` instead of running it
again.
"""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from swe_exec_server.api import BOOT_HEADER, CREATE, DELIVERED_HEADER, HEALTH, IMAGES, Operation
from swe_exec_server.liveness import Liveness, Silent
from swe_exec_server.node import Node
from swe_exec_server.wire import CreateRequest, ErrorCode, ErrorResponse, HealthResponse, SandboxError

if TYPE_CHECKING:
    from swe_exec_server.pool_client import PoolClient

Answer = TypeVar("Answer", bound=BaseModel)
T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
GRACE_S = 60.0
"""Added to a request's own timeout before the client gives up waiting: the server's queue and clean-up."""
REACH_S = 3.0
"""How long a node named by a pool may take to show that it can be reached directly."""
HEALTH_WAIT_S = 5.0
"""A node that does not tell its health in this time is not healthy."""
MAX_RETRIES = 10
IMAGES_AGE_S = 60.0
"""How long a node's list of images is believed."""
BACKOFF_S = (0.2, 10.0)
"""First and longest wait between two tries; doubled each time, with full jitter."""


class Transport(Protocol):
    """One node. Raises `SandboxError` only."""

    @property
    def label(self) -> str: ...

    async def call(self, operation: Operation[Answer], request: BaseModel | None = None) -> Answer: ...

    async def probe(self, timeout: float) -> HealthResponse:
        """Its health, asked once."""
        ...

    async def lease(self, request: CreateRequest, *, patient: bool = True, **local: Any) -> "tuple[Transport, str]":
        """A container, and the transport over which it is used: a pool sends its clients to the node itself.

        Args:
            patient: whether a refusal that may pass (full, draining, engine down) is waited out.
            local: arguments that only an in-process caller may give (`trusted`).
        """
        ...

    async def has_image(self, image: str) -> bool:
        """Whether a create with this image can work there."""
        ...

    async def read_file(self, container_id: str, path: str) -> bytes: ...

    async def write_file(self, container_id: str, path: str, data: bytes) -> None: ...

    async def close(self) -> None: ...


class EmbeddedTransport:
    """A node inside this process: no port, no copy over a socket. Owns the node and ends it in `close`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.label = f"embedded ({node.backend.kind})"
        self._threads = ThreadPoolExecutor(4 * node.options.max_containers + 16, thread_name_prefix="node")

    async def call(self, operation: Operation[Answer], request: BaseModel | None = None) -> Answer:
        return await self._run(lambda: operation.handler(self.node, request, None))

    async def probe(self, timeout: float) -> HealthResponse:
        return await self._run(self.node.health)

    async def lease(self, request: CreateRequest, *, patient: bool = True, **local: Any) -> tuple[Transport, str]:
        made = await self._run(lambda: self.node.create(request, **local))
        return self, made.container_id

    async def has_image(self, image: str) -> bool:
        return await self._run(lambda: self.node.backend.has_image(image))

    async def read_file(self, container_id: str, path: str) -> bytes:
        return await self._run(lambda: self.node.read_file(container_id, path))

    async def write_file(self, container_id: str, path: str, data: bytes) -> None:
        await self._run(lambda: self.node.write_file(container_id, path, data))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.node.close)
        self._threads.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class HttpTransport:
    """A server over HTTP.

    Args:
        patient: whether a refusal that may pass (full, draining, engine down) is waited out; a pool passes it on.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        max_retries: int = MAX_RETRIES,
        patient: bool = True,
        verify: bool | str = True,
    ) -> None:
        self.label = url.rstrip("/")
        self._max_retries = max_retries
        self._patient = patient
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # Exec servers are addressed directly: a proxy for the hubs must never see their traffic.
        self._http = httpx.AsyncClient(
            base_url=self.label,
            headers=headers,
            timeout=httpx.Timeout(GRACE_S, connect=CONNECT_TIMEOUT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
            verify=verify,
        )
        self._boot_id = ""
        self._token, self._verify = token, verify
        self._role: str | None = None
        self._pool: PoolClient | None = None
        self._liveness = Liveness(lambda: self.answers(HEALTH_WAIT_S))
        self._images: tuple[float, frozenset[str]] = (float("-inf"), frozenset())

    async def call(
        self, operation: Operation[Answer], request: BaseModel | None = None, *, delivered_to: str = ""
    ) -> Answer:
        """See `Transport`.

        Args:
            delivered_to: the boot id of a server start that an earlier try of the same request may have reached.
        """
        wait = _wait(operation, request)
        kind = operation.response
        return await self.send(operation.method, operation.path, request, kind, timeout=wait, delivered_to=delivered_to)

    async def send(
        self,
        method: str,
        path: str,
        request: BaseModel | None,
        response_type: type[Answer],
        *,
        timeout: float,
        patient: bool = True,
        delivered_to: str = "",
    ) -> Answer:
        """One JSON request. What could have a key and has none may have run when its answer is lost: not sent again."""
        body = request.model_dump_json(exclude_none=True).encode() if request is not None else None
        repeatable = getattr(request, "idempotency_key", "") is not None
        response = await self._send(
            method,
            path,
            body,
            wait=timeout,
            repeatable=repeatable,
            patient=patient and self._patient,
            delivered_to=delivered_to,
        )
        try:
            return response_type.model_validate_json(response.content)
        except ValidationError as error:
            raise SandboxError(
                ErrorCode.INTERNAL, f"{self.label}{path} answered something else than {response_type.__name__}"
            ) from error

    async def lease(self, request: CreateRequest, *, patient: bool = True, **local: Any) -> tuple[Transport, str]:
        if self._role is None:
            self._role = (await self.call(HEALTH)).role
        if self._role == "node":
            wait = _wait(CREATE, request)
            made = await self.send("POST", CREATE.path, request, CREATE.response, timeout=wait, patient=patient)
            return self, made.container_id
        if self._pool is None:
            from swe_exec_server.pool_client import PoolClient  # it builds on this module

            self._pool = PoolClient(self)
        return await self._pool.lease(request, patient=patient)

    async def probe(self, timeout: float) -> HealthResponse:
        try:
            response = await self._http.get(HEALTH.path, timeout=timeout)
            return HealthResponse.model_validate_json(response.content)
        except httpx.TransportError as error:
            why = str(error) or f"no answer within {timeout:g} s"
            raise SandboxError(ErrorCode.UNREACHABLE, f"{self.label} cannot be reached: {why}") from error
        except ValidationError as error:
            raise SandboxError(ErrorCode.UNREACHABLE, f"{self.label} answers, but is no exec server") from error

    async def answers(self, timeout: float = REACH_S) -> bool:
        """Whether the server can be reached from here, asked once."""
        try:
            await self.probe(timeout)
        except SandboxError:
            return False
        return True

    def sibling(self, url: str) -> "HttpTransport":
        """A transport to another server of the same cluster: same token, same budgets."""
        return HttpTransport(url, self._token, max_retries=self._max_retries, verify=self._verify)

    async def has_image(self, image: str) -> bool:
        if time.monotonic() - self._images[0] > IMAGES_AGE_S:
            answer = await self.call(IMAGES)
            self._images = (time.monotonic(), frozenset(name for entry in answer.images for name in entry.names))
        return with_tag(image) in self._images[1]

    async def read_file(self, container_id: str, path: str) -> bytes:
        where = {"container_id": container_id, "path": path}
        return (await self._send("GET", "/container/file", None, params=where)).content

    async def write_file(self, container_id: str, path: str, data: bytes) -> None:
        where = {"container_id": container_id, "path": path}
        await self._send("PUT", "/container/file", data, params=where)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
        await self._http.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        params: dict[str, str] | None = None,
        wait: float = GRACE_S,
        repeatable: bool = True,
        patient: bool = True,
        delivered_to: str = "",
    ) -> httpx.Response:
        give_up = time.monotonic() + wait
        timeout = httpx.Timeout(wait, connect=min(wait, CONNECT_TIMEOUT_S), pool=None)
        for attempt in range(self._max_retries + 1):
            headers = {"Content-Type": "application/json"}
            if delivered_to:
                headers[DELIVERED_HEADER] = delivered_to
            pause: float | None = None
            try:
                sent = self._http.request(method, path, content=body, params=params, headers=headers, timeout=timeout)
                response = await self._liveness.wait(sent)
            except Silent as error:
                message = f"{self.label} is silent: no answer, and none to {error} health checks in a row"
                raise SandboxError(ErrorCode.UNREACHABLE, message) from error
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = SandboxError(ErrorCode.UNREACHABLE, f"{self.label} cannot be reached: {error}")
            except httpx.TransportError as error:
                failure = SandboxError(
                    ErrorCode.UNREACHABLE, f"{self.label} gave no answer: {error or type(error).__name__}"
                )
                delivered_to = delivered_to or self._boot_id or "unknown"
                if not repeatable:
                    raise failure from error
            else:
                self._boot_id = response.headers.get(BOOT_HEADER, self._boot_id)
                if response.status_code < 400 or (path == "/healthz" and response.status_code == 503):
                    return response
                failure = _failure(self.label, response)
                if not failure.retryable or not patient:
                    raise failure
                pause = _retry_after(response)
            delay = _backoff(attempt) if pause is None else pause
            if attempt == self._max_retries or time.monotonic() + delay > give_up:
                break
            await asyncio.sleep(delay)
        raise failure


def _wait(operation: Operation[Any], request: BaseModel | None) -> float:
    """Seconds after which no answer will come any more."""
    return HEALTH_WAIT_S if operation is HEALTH else GRACE_S + float(getattr(request, "timeout", 0.0))


def with_tag(image: str) -> str:
    """The name as engines list it: `:latest` where neither tag nor digest is given."""
    last = image.rsplit("/", 1)[-1]
    return image if ":" in last or "@" in last else f"{image}:latest"


def _failure(label: str, response: httpx.Response) -> SandboxError:
    """The typed error of an answer; one that is not of our making (a proxy's page, say) counts as unreachable."""
    try:
        info = ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        return SandboxError(
            ErrorCode.UNREACHABLE, f"{label} answered HTTP {response.status_code}, not an exec server's error"
        )
    return SandboxError(info.code, info.message, info.reason)


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return random.uniform(0.5, 1.0) * float(text) if text.isdigit() else None


def _backoff(attempt: int) -> float:
    first, longest = BACKOFF_S
    return random.uniform(0.1, 1.0) * min(longest, first * 2.0**attempt)
