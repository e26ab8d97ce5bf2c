"""The truth about this machine's containers: capacity, leases, keys, reaping, draining.

A node enforces its own cap (creates beyond it queue fairly), renews a lease on every use and heartbeat, and destroys
what expired. It speaks the types of `wire.py`, so Flask routes and in-process callers use the same methods. All of them
are thread-safe and raise `SandboxError`.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import BaseModel

from swe_exec_server import __version__, git_ops
from swe_exec_server.backend import Backend, ExecSpec
from swe_exec_server.capacity import FairSlots
from swe_exec_server.idempotency import KeyedCalls
from swe_exec_server.leases import Lease, describe, labels_for, lease_from_labels
from swe_exec_server.metrics import NodeMetrics
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.scrub import scrub_git
from swe_exec_server.wire import (
    ContainerRequest,
    CreateRequest,
    CreateResponse,
    DiffRequest,
    DiffResponse,
    DrainRequest,
    ErrorCode,
    EvaluateRequest,
    EvaluateResponse,
    ExecRequest,
    ExecResponse,
    HealthResponse,
    ImageBody,
    ImagesResponse,
    Ok,
    PullRequest,
    SandboxError,
    StatusResponse,
    decode_bytes,
    encode_bytes,
)

log = logging.getLogger(__name__)
Answer = TypeVar("Answer", bound=BaseModel)

MAX_EVALUATE_OUTPUT = 64 * 1024**2
SHORT_EVALUATE_OUTPUT = 2000
MAX_FILE_BYTES = 256 * 1024**2
REMEMBERED_ENDS = 10_000


@dataclass(frozen=True)
class NodeOptions:
    """How a node behaves.

    Attributes:
        max_containers: the cap; found containers of an earlier start count too.
        limits: of a container that asks for none, and the most that one may ask for.
        ttl: seconds a lease outlives its last use, where create names none.
        reap_interval: seconds between two looks at the leases.
        sweep_interval: seconds between two looks for containers that no lease knows.
    """

    max_containers: int = 15
    limits: Limits = Limits()
    ttl: float = 600.0
    reap_interval: float = 5.0
    sweep_interval: float = 15.0


def _fingerprint(request: BaseModel) -> str:
    """What a repetition must have in common. How long a create may wait is not: a pool asks again with what is left."""
    if isinstance(request, CreateRequest):
        request = request.model_copy(update={"timeout": 0.0, "queue_timeout": None})
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


class Node:
    """One machine's containers. `start()` finds what an earlier start left and begins reaping; `close()` ends both."""

    def __init__(self, backend: Backend, options: NodeOptions | None = None) -> None:
        self.backend = backend
        self.options = options or NodeOptions()
        self.boot_id = secrets.token_hex(8)
        self.metrics = NodeMetrics(self)
        self._slots = FairSlots(self.options.max_containers)
        self._keys = KeyedCalls(self.boot_id)
        self._leases: dict[str, Lease] = {}
        self._names: dict[str, str] = {}
        self._ended: OrderedDict[str, SandboxError] = OrderedDict()
        self._making: set[str] = set()
        self._lock = threading.RLock()
        self._drain_deadline: float | None = None
        self._stop = threading.Event()
        self._reaper: threading.Thread | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, *, keep: bool = True) -> None:
        """Adopt the running containers of this namespace (each gets one full TTL), or remove them if not `keep`."""
        for container in self.backend.list():
            lease = lease_from_labels(container) if keep else None
            if lease is None or not self._adopt(lease):
                log.info("removing %s, left by an earlier start", container.name)
                container.destroy()
        self._reaper = threading.Thread(target=self._reap_forever, name="reaper", daemon=True)
        self._reaper.start()

    def close(self, *, destroy: bool = True) -> None:
        """Stop reaping; `destroy` removes every container, else they live on for their TTL."""
        self._stop.set()
        if self._reaper is not None:
            self._reaper.join()
        if destroy:
            for lease in list(self._leases.values()):
                self._end(lease, SandboxError(ErrorCode.CONTAINER_GONE, "the server was stopped"))
            self._sweep()
        self.backend.close()

    # -- requests --------------------------------------------------------------------------------------------------

    def health(self) -> HealthResponse:
        """Whether creates can work now. `ok` is false, with the reason, when the engine does not answer."""
        message = ""
        try:
            self.backend.check()
        except SandboxError as error:
            message = error.message
        return HealthResponse(
            ok=not message,
            role="node",
            running_containers=self._slots.used,
            max_containers=self.options.max_containers,
            draining=self.draining,
            version=__version__,
            boot_id=self.boot_id,
            message=message,
        )

    def status(self) -> StatusResponse:
        now = time.monotonic()
        leases = sorted(self._leases.values(), key=lambda lease: lease.created)
        return StatusResponse(
            active_containers=self._slots.used,
            max_containers=self.options.max_containers,
            queued=self._slots.waiting,
            draining=self.draining,
            containers=[describe(lease, now) for lease in leases],
            creating=self._keys.running("create:"),
        )

    def images(self) -> ImagesResponse:
        found = [ImageBody(names=list(image.names), size=image.size) for image in self.backend.images()]
        return ImagesResponse(count=len(found), images=found)

    def pull(self, request: PullRequest) -> Iterator[str]:
        """Progress lines of a pull, as they come."""
        return self.backend.pull(request.image)

    def create(
        self, request: CreateRequest, *, trusted: bool = False, delivered_to: str | None = None
    ) -> CreateResponse:
        """Lease a container, waiting in the queue for at most the request's timeout (then `full`)."""
        return self._keyed(
            "create", request, request.idempotency_key, delivered_to, lambda: self._create(request, trusted)
        )

    def exec(self, request: ExecRequest, *, delivered_to: str | None = None) -> ExecResponse:
        return self._keyed("exec", request, request.idempotency_key, delivered_to, lambda: self._exec(request))

    def diff(self, request: DiffRequest) -> DiffResponse:
        with self._use(request.container_id, "(diff)") as lease:
            result = git_ops.extract_diff(
                lease.container,
                request.cwd or lease.spec.cwd,
                base=request.base,
                image_base=self._base(lease),
                untracked=request.untracked,
            )
        patch, encoding = encode_bytes(result.patch)
        digest = hashlib.sha256(result.patch).hexdigest()
        return DiffResponse(
            patch=patch,
            encoding=encoding,
            sha256=digest,
            base=result.base,
            warnings=list(result.warnings),
            returncode=0,
        )

    def evaluate(self, request: EvaluateRequest, *, delivered_to: str | None = None) -> EvaluateResponse:
        return self._keyed("evaluate", request, request.idempotency_key, delivered_to, lambda: self._evaluate(request))

    def heartbeat(self, request: ContainerRequest) -> Ok:
        with self._use(request.container_id, None):
            return Ok()

    def destroy(self, request: ContainerRequest) -> Ok:
        """Give a container back; of one that is gone already, that is no error."""
        try:
            lease = self._find(request.container_id)
        except SandboxError as error:
            if error.code is ErrorCode.CONTAINER_GONE:
                return Ok()
            raise
        self._end(lease, SandboxError(ErrorCode.CONTAINER_GONE, "this container was destroyed"))
        return Ok()

    def read_file(self, container_id: str, path: str) -> bytes:
        with self._use(container_id, f"(read {path})") as lease:
            return lease.container.read_file(path, MAX_FILE_BYTES)

    def write_file(self, container_id: str, path: str, data: bytes) -> Ok:
        with self._use(container_id, f"(write {path})") as lease:
            lease.container.write_file(path, data)
        return Ok()

    def drain(self, request: DrainRequest) -> Ok:
        """No new containers; commands in live ones go on until `deadline` seconds from now, then nothing new starts."""
        self._drain_deadline = time.monotonic() + request.deadline
        return Ok()

    # -- draining --------------------------------------------------------------------------------------------------

    @property
    def draining(self) -> bool:
        return self._drain_deadline is not None

    @property
    def running_commands(self) -> int:
        return sum(lease.running for lease in self._leases.values())

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no command runs; False when some still did after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.running_commands:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    # -- work ------------------------------------------------------------------------------------------------------

    def _keyed(
        self, kind: str, request: BaseModel, key: str | None, delivered_to: str | None, work: Callable[[], Answer]
    ) -> Answer:
        if not key:
            return work()
        return self._keys.run(f"{kind}:{key}", _fingerprint(request), work, delivered_to)

    def _create(self, request: CreateRequest, trusted: bool) -> CreateResponse:
        if self.draining:
            raise SandboxError(ErrorCode.DRAINING, "this node takes no new containers")
        spec = self._spec(request, trusted)
        patience = min(spec.timeout, request.queue_timeout or spec.timeout)
        if not self._slots.acquire(patience):
            raise SandboxError(
                ErrorCode.FULL,
                f"all {self._slots.total} containers were in use for {patience:g} s; try again later",
            )
        try:
            if self.draining:
                raise SandboxError(ErrorCode.DRAINING, "this node takes no new containers")
            lease = self._start_container(spec, request)
        except BaseException:
            self._slots.release()
            raise
        return CreateResponse(container_id=lease.container.id, name=lease.container.name)

    def _spec(self, request: CreateRequest, trusted: bool) -> SandboxSpec:
        most = self.options.limits
        asked = request.limits.model_dump(exclude_none=True)
        for name, value in asked.items():
            if value > getattr(most, name):
                raise SandboxError(
                    ErrorCode.BAD_REQUEST,
                    f"limits.{name}: {value:g} is more than this node allows ({getattr(most, name):g})",
                )
        return SandboxSpec(
            image=request.image,
            cwd=request.cwd,
            env=request.env,
            limits=replace(most, **asked),
            network=request.network,
            ttl=request.ttl or self.options.ttl,
            timeout=request.timeout,
            owner=request.owner,
            scrub_git=request.scrub_git,
            trusted=trusted,
        )

    def _start_container(self, spec: SandboxSpec, request: CreateRequest) -> Lease:
        name = f"swe-{secrets.token_hex(6)}"
        labels = labels_for(spec, request, _fingerprint(request))
        started = time.monotonic()
        self._making.add(name)
        try:
            lease = self._lease_new(spec, request, name, labels)
            with self._lock:
                self._leases[lease.container.id] = lease
                self._names[lease.container.name] = lease.container.id
        finally:
            self._making.discard(name)
        self.metrics.created.observe(time.monotonic() - started)
        return lease

    def _lease_new(self, spec: SandboxSpec, request: CreateRequest, name: str, labels: Mapping[str, str]) -> Lease:
        container = self.backend.create(spec, name, labels)
        try:
            if spec.scrub_git:
                scrub_git(container, spec.cwd)
            base = git_ops.image_base(container, spec.cwd)
        except BaseException:
            container.destroy()
            raise
        return Lease(container, spec, base, key=request.idempotency_key or "", request_hash=_fingerprint(request))

    def _exec(self, request: ExecRequest) -> ExecResponse:
        stdin = decode_bytes(request.stdin, request.stdin_encoding)
        with self._use(request.container_id, request.command) as lease:
            result = lease.container.exec(
                ExecSpec(
                    command=request.command,
                    cwd=request.cwd or lease.spec.cwd,
                    timeout=request.timeout,
                    env=request.env,
                    stdin=stdin,
                    max_output=request.max_output,
                )
            )
        self.metrics.executed.observe(result.duration)
        output, encoding = encode_bytes(result.output, request.encoding)
        return ExecResponse(
            returncode=result.returncode,
            output=output,
            encoding=encoding,
            output_bytes=result.output_bytes,
            timed_out=result.timed_out,
            truncated=result.truncated,
            duration=result.duration,
        )

    def _evaluate(self, request: EvaluateRequest) -> EvaluateResponse:
        patch = decode_bytes(request.patch, request.encoding)
        limit = MAX_EVALUATE_OUTPUT if request.full_output else SHORT_EVALUATE_OUTPUT
        with self._use(request.container_id, "(evaluate)") as lease:
            result = git_ops.evaluate(
                lease.container,
                request.cwd or lease.spec.cwd,
                patch,
                request.eval_script,
                timeout=request.timeout,
                allow_empty_patch=request.allow_empty_patch,
                max_output=MAX_EVALUATE_OUTPUT,
            )
        kept = result.output if request.full_output else result.output[-limit:]
        output, encoding = encode_bytes(kept, None if request.full_output else "utf-8")
        return EvaluateResponse(
            applied=result.applied,
            applied_by=result.applied_by,
            resolved=result.applied and result.returncode == 0,
            returncode=result.returncode,
            timed_out=result.timed_out,
            output=output,
            encoding=encoding,
            output_bytes=result.output_bytes,
            truncated=result.truncated or len(kept) < len(result.output),
            duration=result.duration,
        )

    # -- leases ----------------------------------------------------------------------------------------------------

    def _adopt(self, lease: Lease) -> bool:
        try:
            lease.container.renew()
        except SandboxError:
            return False
        self._slots.take()
        self._leases[lease.container.id] = lease
        self._names[lease.container.name] = lease.container.id
        if lease.key:
            answer = CreateResponse(container_id=lease.container.id, name=lease.container.name)
            self._keys.remember(f"create:{lease.key}", lease.request_hash, answer)
        return True

    def _base(self, lease: Lease) -> str | None:
        """The lease's base; of a container found at start its image is asked, since the agent may have committed."""
        if not lease.base_known:
            name = f"swe-{secrets.token_hex(6)}"
            self._making.add(name)
            try:
                fresh = self.backend.create(lease.spec, name, {})
                try:
                    lease.base, lease.base_known = git_ops.image_base(fresh, lease.spec.cwd), True
                finally:
                    fresh.destroy()
            finally:
                self._making.discard(name)
        return lease.base

    def _find(self, container_id: str) -> Lease:
        with self._lock:
            identity = self._names.get(container_id, container_id)
            lease = self._leases.get(identity)
            if lease is not None:
                return lease
            ended = self._ended.get(identity)
        if ended is not None:
            raise ended
        raise SandboxError(ErrorCode.CONTAINER_UNKNOWN, f"no container {container_id[:80]!r} of this server")

    @contextmanager
    def _use(self, container_id: str, command: str | None) -> Iterator[Lease]:
        """A live lease, renewed now and when the block ends; a container found dead is ended for good."""
        if command is not None and self._drain_deadline is not None and time.monotonic() > self._drain_deadline:
            raise SandboxError(ErrorCode.DRAINING, "this node is going down")
        lease = self._find(container_id)
        lease.begin(command)
        try:
            yield lease
        except SandboxError as error:
            if error.code is ErrorCode.CONTAINER_GONE:
                self._end(lease, error)
            raise
        finally:
            lease.finish(command)

    def _end(self, lease: Lease, why: SandboxError) -> None:
        """Remove a container once, whoever asks first; its slot is free when it is really gone."""
        with self._lock:
            if self._leases.pop(lease.container.id, None) is None:
                return
            self._ended[lease.container.id] = why
            while len(self._ended) > REMEMBERED_ENDS:
                gone, _ = self._ended.popitem(last=False)
                self._names = {name: identity for name, identity in self._names.items() if identity != gone}
        try:
            lease.container.destroy()
        except SandboxError as failure:
            log.warning("container %s could not be removed yet: %s", lease.container.name, failure)
        finally:
            self._slots.release()

    def _reap_forever(self) -> None:
        sweep_at = time.monotonic() + self.options.sweep_interval
        while not self._stop.wait(min(self.options.reap_interval, self.options.ttl / 4)):
            for lease in list(self._leases.values()):
                try:
                    self._look_after(lease)
                except SandboxError as error:
                    log.warning("container %s: %s", lease.container.name, error)
            if time.monotonic() > sweep_at:
                self._sweep()
                sweep_at = time.monotonic() + self.options.sweep_interval

    def _sweep(self) -> None:
        """Remove containers of this namespace that no lease knows: what an engine that was down would not remove."""
        try:
            found = self.backend.list()
            for container in found:
                with self._lock:
                    known = container.id in self._leases or container.name in self._making
                if not known:
                    log.info("removing %s, which no lease knows", container.name)
                    container.destroy()
        except SandboxError as error:
            log.warning("looking for leftovers: %s", error)

    def _look_after(self, lease: Lease) -> None:
        now = time.monotonic()
        if lease.expired(now):
            log.info("container %s: lease of %g s ran out", lease.container.name, lease.spec.ttl)
            message = f"its lease ran out: not used for {lease.spec.ttl:g} s"
            self._end(lease, SandboxError(ErrorCode.CONTAINER_GONE, message))
        elif lease.due_for_renewal(now):
            try:
                lease.container.renew()
            except SandboxError as error:
                if error.code is ErrorCode.CONTAINER_GONE:
                    self._end(lease, error)
                raise
            lease.renewed = now
