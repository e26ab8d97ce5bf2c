"""One node as a pool sees it, and which of several the next container goes to: pure functions on what was last seen."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from swe_exec_server.transport import Transport, with_tag
from swe_exec_server.wire import ErrorCode, HealthResponse, SandboxError

DEAD_AFTER = 3
"""Failed looks in a row until a node counts as lost: then whoever waits for it is told."""
LOCALITY_SLACK = 2
"""A node that has the image is preferred while it is not fuller than the emptiest one by more than this."""
SHOWN_AFTER_S = 0.5
"""A create that began this long before a node's health was asked counts in the answer."""
REFUSED_FOR_S = 1.0
"""How long a node that refused a create is left alone."""
LACKS_FOR_S = 60.0
"""How long a node that answered `image_unknown` counts as one that will not get that image by itself."""


@dataclass(eq=False)
class Place:
    """A place on a node that was given to a create: since when, and when the create had its container."""

    begun: float
    done: float = float("inf")

    def shown(self, asked: float) -> bool:
        """Whether a health that was asked for then counts it."""
        return self.done < asked or self.begun < asked - SHOWN_AFTER_S


@dataclass(eq=False)
class Member:
    """One node and what was last seen of it. Times are `time.monotonic()` seconds.

    Attributes:
        cap: use at most so many of its containers; None means what it allows.
        error: why it gave no health, or what its health complains of; empty when all is well.
        objection: why this start of it is of no use though it is healthy (it refuses our token, say).
        recent: places given away that its health may not show yet.
        lacks: until when an image counts as not to be had there.
    """

    name: str
    url: str
    transport: Transport
    cap: int | None = None
    health: HealthResponse | None = None
    error: str = "not asked yet"
    objection: str = ""
    misses: int = 0
    images: frozenset[str] = frozenset()
    recent: list[Place] = field(default_factory=list)
    lacks: dict[str, float] = field(default_factory=dict)
    left_alone_until: float = 0.0
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def usable(self) -> bool:
        """Whether it would take a container if it had room."""
        return self.health is not None and self.health.ok and not self.health.draining and not self.complaint

    @property
    def complaint(self) -> str:
        return self.error or self.objection

    @property
    def max_containers(self) -> int:
        if self.health is None:
            return 0
        return self.health.max_containers if self.cap is None else min(self.cap, self.health.max_containers)

    @property
    def free(self) -> int:
        if self.health is None:
            return 0
        return self.max_containers - self.health.running_containers - len(self.recent)

    def takes(self, now: float) -> bool:
        return self.usable and self.free > 0 and now >= self.left_alone_until

    def seen(self, health: HealthResponse, asked: float) -> None:
        """It answered what it was asked at `asked`."""
        self.health, self.error, self.misses = health, health.message, 0
        self.recent = [place for place in self.recent if not place.shown(asked)]
        self.lost.clear()

    def missed(self, why: str) -> None:
        self.error, self.misses = why, self.misses + 1
        if self.misses >= DEAD_AFTER:
            self.lost.set()

    def refused(self, error: SandboxError, image: str, now: float) -> None:
        """It did not take a create that another node may take."""
        if error.code is ErrorCode.IMAGE_UNKNOWN:
            self.lacks[image] = now + LACKS_FOR_S
            self.images -= {with_tag(image)}
        else:
            self.left_alone_until = now + REFUSED_FOR_S

    def why_not(self) -> str:
        """Why it takes no container now."""
        draining = self.health is not None and self.health.draining
        return f"{self.name}: {self.complaint or ('draining' if draining else 'full')}"


def pick(members: Iterable[Member], image: str, lacking: Sequence[Member] = ()) -> Member | None:
    """The emptiest node that takes a container; one known to have the image, if it is not much fuller.

    Args:
        lacking: nodes that were tried for this container and do not have its image.
    """
    now = time.monotonic()
    able = [member for member in members if member.takes(now) and member not in lacking]
    if not able:
        return None
    having = [member for member in able if with_tag(image) in member.images]
    emptiest = max(able, key=_room)
    if not having:
        return emptiest
    best = max(having, key=_room)
    # A fuller holder is worth it, but locality must not pile everything on one node that the others could help.
    others = [member for member in able if member.lacks.get(image, 0.0) < now]
    if others and best.free < max(others, key=_room).free - LOCALITY_SLACK:
        return max(others, key=_room)
    return best


def _room(member: Member) -> int:
    return member.free
