"""Where a run's sandboxes come from, and which instances have an image there.

Exec servers when some are named; else a node inside this process: Docker where an engine answers and the images are
there (those of the bundled tasks are built on first use), else the embedded sandbox.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_exec_server.client import AsyncExecClient
from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.settings import read_token
from swe_exec_server.connect import open_provider
from swe_exec_server.embedded import BackendChoice, EmbeddedOptions, docker_answers
from swe_exec_server.local_bubblewrap import why_unusable

from swe_eval.bundled import SAMPLE_NAMES, image_name
from swe_eval.bundled.docker_image import SampleBaseUnavailable, ensure_docker_images
from swe_eval.bundled.local_image import ensure_local_image
from swe_eval.evaluation_script import NoTestCommand, check_test_command
from swe_eval.images import UnknownImage, image_for
from swe_eval.instances import Instance
from swe_eval.runner import Plan
from swe_eval.settings import EvalSettings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
    """The backend of an embedded node and why it was chosen; `reason` is empty when there is nothing to say."""

    backend: BackendChoice
    reason: str = ""


def is_sample(instance: Instance) -> bool:
    """Whether an instance runs in the image of a bundled task, which we can make."""
    return instance.instance_id in SAMPLE_NAMES and instance.image == image_name(instance.instance_id)


def choose_backend(settings: EvalSettings, instances: Sequence[Instance], say: Say) -> Choice:
    """Docker or the embedded sandbox; builds the sample's Docker images when Docker it is. Raises `UsageError`."""
    sample = [instance.instance_id for instance in instances if is_sample(instance)]
    if settings.backend == "local":
        return Choice("local")
    why_not = docker_answers()
    if not why_not and sample:
        try:
            ensure_docker_images(sample, base=settings.sample_base or None, on_progress=say)
        except SampleBaseUnavailable as error:
            why_not = str(error)
    if not why_not:
        return Choice("docker")
    if settings.backend == "docker" or len(sample) < len(instances):
        raise UsageError(f"Docker cannot be used: {why_not}")
    kind = "plain processes" if why_unusable() else "bubblewrap"
    return Choice("local", f"no Docker ({why_not}); using the embedded sandbox ({kind})")


def cache_directory() -> Path:
    """Where trees of local images are kept between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "swe-eval"


def local_images(instances: Sequence[Instance]) -> Callable[[str], Path | None]:
    """Sample image names to directories of their trees, made on first use."""
    by_image = {instance.image: instance.instance_id for instance in instances if is_sample(instance)}

    def find(image: str) -> Path | None:
        instance_id = by_image.get(image)
        return ensure_local_image(instance_id, cache_directory() / "images") if instance_id else None

    return find


async def open_sandboxes(
    settings: EvalSettings, instances: Sequence[Instance], directory: Path, say: Say
) -> AsyncExecClient:
    """The client of this run, checked. Raises `UsageError`."""
    token = read_token(settings.token, settings.token_file)
    choice = Choice("auto") if settings.exec_server_urls else choose_backend(settings, instances, say)
    if choice.backend == "local" and not settings.trusts_its_commands and not settings.unsafe_local and why_unusable():
        raise UsageError(
            f"{settings.model_name} may run anything, and here is nothing to hold it ({why_unusable()}): install "
            "bubblewrap or Docker, name --exec-server-urls, or pass --unsafe-local"
        )
    if choice.reason:
        say(choice.reason)
    embedded = EmbeddedOptions(
        directory=directory,
        backend=choice.backend,
        max_containers=settings.max_concurrent,
        local_images=local_images(instances),
        unsafe_local=settings.unsafe_local,
    )
    return await open_provider(settings.exec_server_urls, token, embedded)


async def make_plan(settings: EvalSettings, instances: Sequence[Instance], client: AsyncExecClient) -> Plan:
    """Which instances can run and which cannot, each with the reason. Raises `UsageError` when none can."""
    runnable: list[tuple[Instance, str]] = []
    blocked: list[tuple[Instance, str]] = []
    for instance in instances:
        image = image_for(instance, settings.data_source or None)
        try:
            if isinstance(image, UnknownImage):
                raise NoTestCommand(image.reason)
            check_test_command(instance)
        except NoTestCommand as error:
            blocked.append((instance, str(error)))
            continue
        if not await client.has_image(image):
            blocked.append((instance, f"{instance.instance_id}: image {image} is not there; pull or build it"))
        else:
            runnable.append((instance, image))
    if not runnable:
        raise UsageError(f"nothing can run: {blocked[0][1]}" + more(len(blocked) - 1))
    return Plan(runnable, blocked)


def more(count: int) -> str:
    """` (and N more)`, or nothing."""
    return f" (and {count} more)" if count else ""
