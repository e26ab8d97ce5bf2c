"""Where the container of one run comes from: exec servers, this machine's Docker engine, or the embedded sandbox.

The image is the one asked for, else the first of `DEFAULT_IMAGES` that is there. Without Docker, or without such an
image, a repository of one's own runs in the embedded sandbox (bubblewrap), with this machine's programs and no network.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.settings import read_token
from swe_exec_server.sandbox import Sandbox, SandboxProvider, SandboxSpec
from swe_exec_server.wire import SandboxError

from swe_agent.repository import Checkout, send_checkout
from swe_agent.settings import ContainerSettings

DEFAULT_IMAGES = ("swe-base:bookworm", "python:3.11")
"""Images with git and Python. The slim Python images have no git, and a container without network cannot install it."""
LOCAL_IMAGE = "repository"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Leased:
    """A sandbox with the repository in it, and what it was made of."""

    sandbox: Sandbox
    image: str
    backend: str


@asynccontextmanager
async def lease(
    settings: ContainerSettings, directory: Path, checkout: Checkout | None, owner: str, say: Say
) -> AsyncIterator[Leased]:
    """A sandbox for one run; it ends with the block. `directory` is the run's. Raises `UsageError`."""
    provider, image, backend = await _open(settings, directory, checkout, say)
    try:
        spec = SandboxSpec(image=image, cwd=settings.cwd, owner=owner)
        try:
            sandbox = await provider.create(spec)
        except SandboxError as error:
            raise UsageError(f"no container from image {image!r}: {error}") from error
        try:
            if checkout is not None and backend != "local":
                await send_checkout(sandbox, checkout, settings.cwd)
            yield Leased(sandbox, image, backend)
        finally:
            await sandbox.close()
    finally:
        await provider.close()


async def _open(
    settings: ContainerSettings, directory: Path, checkout: Checkout | None, say: Say
) -> tuple[SandboxProvider, str, str]:
    # Imported late: what starts an engine is slow to import.
    from swe_exec_server.connect import open_provider
    from swe_exec_server.embedded import EmbeddedOptions, docker_answers

    options = EmbeddedOptions(directory, backend="docker", max_containers=1)
    why_not = ""
    if settings.exec_server_urls or settings.backend != "local":
        why_not = "" if settings.exec_server_urls else docker_answers()
        if not why_not:
            token = read_token(settings.token, settings.token_file)
            provider = await open_provider(settings.exec_server_urls, token, options)
            image = await _image(provider, settings)
            if image:
                return provider, image, "servers" if settings.exec_server_urls else "docker"
            await provider.close()
            why_not = f"none of the images {', '.join(DEFAULT_IMAGES)} is there"
    if settings.exec_server_urls or settings.backend == "docker" or settings.image or checkout is None:
        advice = f"docker pull {DEFAULT_IMAGES[-1]}, or name an --image" if "images" in why_not else _DOCKER_ADVICE
        raise UsageError(f"{why_not or '--backend local takes a --repo and no --image'}; {advice}")
    _check_local(settings, why_not)
    if why_not:
        say(f"No Docker ({why_not}): the embedded sandbox is used.")
    tree = checkout.directory
    options = replace(options, backend="local", local_images=lambda _: tree, unsafe_local=settings.unsafe_local)
    return await open_provider([], "", options), LOCAL_IMAGE, "local"


_DOCKER_ADVICE = "start Docker, or name machines that have it with --exec-server-urls"


def _check_local(settings: ContainerSettings, why_no_docker: str) -> None:
    from swe_exec_server.local_bubblewrap import why_unusable

    if not settings.unsafe_local and (why := why_unusable()):
        also = f" and {why_no_docker}" if why_no_docker else ""
        raise UsageError(
            f"nothing here can hold a model's commands: {why}{also}; install bubblewrap or Docker, name "
            "--exec-server-urls, or pass --unsafe-local"
        )


async def _image(provider: SandboxProvider, settings: ContainerSettings) -> str:
    """The image to use, empty when none of the defaults is there. Raises `UsageError` for one asked for."""
    try:
        if settings.image:
            if not await provider.has_image(settings.image):
                raise UsageError(f"image {settings.image!r} is not there; fetch it first: docker pull {settings.image}")
            return settings.image
        for image in DEFAULT_IMAGES:
            if await provider.has_image(image):
                return image
    except (SandboxError, UsageError) as error:
        await provider.close()
        if isinstance(error, SandboxError):
            raise UsageError(f"no container: {error}") from error
        raise
    return ""
