"""One lease: what was asked for, when it ends, what runs under it.

What never changes is in the container's labels, so that a restarted node finds it; expiry is in memory only.
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from swe_exec_server.backend import Container
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.wire import ContainerStatus, CreateRequest

SPEC_LABEL = "swe-exec.spec"
KEY_LABEL = "swe-exec.key"
HASH_LABEL = "swe-exec.request-hash"
SHOWN_COMMAND = 200


@dataclass
class Lease:
    """A container and its clock. Times are `time.monotonic()` seconds."""

    container: Container
    spec: SandboxSpec
    base: str | None = None
    """HEAD of the working directory as the image had it; None where it was no repository."""
    base_known: bool = True
    """False for a container found at start, until its image is asked."""
    key: str = ""
    request_hash: str = ""
    created: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    renewed: float = field(default_factory=time.monotonic)
    running: int = 0
    last_command: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, command: str | None) -> None:
        with self._lock:
            self.used = time.monotonic()
            if command is not None:
                self.running += 1
                self.last_command = command[:SHOWN_COMMAND]

    def finish(self, command: str | None) -> None:
        with self._lock:
            self.used = time.monotonic()
            if command is not None:
                self.running -= 1

    def expired(self, now: float) -> bool:
        return self.running == 0 and now - self.used > self.spec.ttl

    def due_for_renewal(self, now: float) -> bool:
        """Four renewals in a TTL, so that one that fails does no harm."""
        return now - self.renewed > self.spec.ttl / 4


def describe(lease: Lease, now: float) -> ContainerStatus:
    return ContainerStatus(
        id=lease.container.id,
        name=lease.container.name,
        image=lease.spec.image,
        owner=lease.spec.owner,
        age=now - lease.created,
        expires_in=lease.spec.ttl if lease.running else max(0.0, lease.spec.ttl - (now - lease.used)),
        running_commands=lease.running,
        last_command=lease.last_command,
        idempotency_key=lease.key,
    )


def labels_for(spec: SandboxSpec, request: CreateRequest, request_hash: str) -> dict[str, str]:
    """Labels from which `lease_from_labels` makes the lease again. The environment stays out: it may hold secrets."""
    kept = {**asdict(spec), "env": {}}
    return {
        SPEC_LABEL: json.dumps(kept),
        KEY_LABEL: request.idempotency_key or "",
        HASH_LABEL: request_hash,
    }


def lease_from_labels(container: Container) -> Lease | None:
    """The lease of a container found at start; None when its labels say nothing we can read."""
    labels: Mapping[str, str] = container.labels
    try:
        values = json.loads(labels[SPEC_LABEL])
        spec = SandboxSpec(**{**values, "limits": Limits(**values["limits"])})
    except (KeyError, TypeError, ValueError):
        return None
    return Lease(
        container, spec, base_known=False, key=labels.get(KEY_LABEL, ""), request_hash=labels.get(HASH_LABEL, "")
    )
