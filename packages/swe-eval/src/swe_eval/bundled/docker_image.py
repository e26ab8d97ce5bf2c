"""Builds the bundled tasks' Docker images on first use: a base with Python, and the repository in /testbed.

An image's tag names its contents, so one that exists under its tag (and on the wanted base) is never built again.
"""

import io
import re
import tarfile
from collections.abc import Callable, Iterable

import docker
import docker.errors

from swe_eval.bundled.identity import RECIPE, content_hash, image_name
from swe_eval.bundled.repository import make_repo_script
from swe_eval.bundled.tasks import repo_files

LOCAL_BASE = "swe-base:bookworm"
"""What the base-image script makes: taken when it is there, as it needs no network."""
DEFAULT_BASE = "python:3.11-slim"
BASE_LABEL = "swe-sample.base"
HASH_LABEL = "swe-sample.content"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FILE_TIME = 1_704_067_200
"""Modification time of the files in an image (start of 2024): zip archives refuse what is older than 1980."""


class SampleBaseUnavailable(RuntimeError):
    """No base image for the bundled tasks is here or can be pulled."""


class SampleBuildError(SampleBaseUnavailable):
    """The base is there, but no image can be built on it (no git in it and no network to install it, say)."""


def ensure_docker_images(instance_ids: Iterable[str], *, base: str | None, on_progress: Callable[[str], None]) -> None:
    """Build the images of the bundled tasks that the engine lacks.

    `base` is the image to build on; None takes `swe-base:bookworm` where it is local, else `python:3.11-slim`. With an
    explicit base an image made on another one is built anew. `on_progress` gets one line before each pull and build.

    Raises SampleBaseUnavailable, SampleBuildError, and docker.errors.DockerException when no engine answers.
    """
    client = docker.from_env()
    try:
        missing = [instance_id for instance_id in instance_ids if not _is_built(client, instance_id, base)]
        if not missing:
            return
        chosen = resolve_base(client, base, on_progress)
        for number, instance_id in enumerate(missing, 1):
            on_progress(f"building {image_name(instance_id)} on {chosen} ({number} of {len(missing)})")
            _build(client, instance_id, chosen)
    finally:
        client.close()


def _is_built(client: docker.DockerClient, instance_id: str, base: str | None) -> bool:
    try:
        labels = client.images.get(image_name(instance_id)).labels
    except docker.errors.ImageNotFound:
        return False
    return base is None or labels.get(BASE_LABEL) == base


def resolve_base(client: docker.DockerClient, base: str | None, on_progress: Callable[[str], None]) -> str:
    """The base image to build on, pulled if it must be. Raises SampleBaseUnavailable when none can be had."""
    candidates = [base] if base is not None else [LOCAL_BASE, DEFAULT_BASE]
    for candidate in candidates:
        if _is_local(client, candidate):
            return candidate
    wanted = candidates[-1]
    on_progress(f"pulling {wanted}")
    try:
        client.images.pull(*_split_tag(wanted))
    except docker.errors.DockerException as error:
        reason = getattr(error, "explanation", None) or error
        raise SampleBaseUnavailable(
            f"no base image for the bundled tasks: {' or '.join(candidates)} is not here and {wanted} cannot be pulled "
            f"({reason}); name a local image with Python 3.9 or newer as the base"
        ) from error
    return wanted


def _is_local(client: docker.DockerClient, image: str) -> bool:
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def _split_tag(image: str) -> tuple[str, str | None]:
    """("name", "tag") of a reference; a digest stays in the name, a missing tag means latest (never all tags)."""
    if "@" in image:
        return image, None
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def _build(client: docker.DockerClient, instance_id: str, base: str) -> None:
    try:
        client.images.build(
            fileobj=io.BytesIO(build_context(instance_id, base)),
            custom_context=True,
            tag=image_name(instance_id),
            labels={BASE_LABEL: base, HASH_LABEL: content_hash(instance_id)},
            pull=False,
            rm=True,
            forcerm=True,
        )
    except docker.errors.BuildError as error:
        raise SampleBuildError(f"{image_name(instance_id)} cannot be built on {base}: {_last_words(error)}") from error
    except docker.errors.APIError as error:
        raise SampleBuildError(f"{image_name(instance_id)} cannot be built on {base}: {error.explanation}") from error


def _last_words(error: docker.errors.BuildError) -> str:
    """The engine's message and the end of what the failing step printed, in one line."""
    log = "".join(str(entry.get("stream", "")) for entry in error.build_log if isinstance(entry, dict))
    plain = COLOUR.sub("", log)
    return f"{error.msg} ({' '.join(plain.split())[-200:]})"


def build_context(instance_id: str, base: str) -> bytes:
    """The build context as a tar: the recipe, the git script and the tree, with fixed owners, modes and times."""
    buffer = io.BytesIO()
    members = {
        "Dockerfile": RECIPE.format(base=base).encode(),
        "make_repo.sh": make_repo_script(instance_id).encode(),
        **{f"repo/{path}": data for path, data in repo_files(instance_id).items()},
    }
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in members.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, FILE_TIME
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
