"""The Docker half of `instance_image.py`: build one recipe into an image, check patches against it.

A container of the base image is filled, set up by `_image_setup.sh` and committed; whatever only the build needs (the
client's pip settings and CA bundle) is in the environment of one exec or in a scratch directory that is gone before the
commit, so it is in no layer. Every container made here is removed, however the build ends.
"""

import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from _images import InputError, Recipe, pack_data
from docker.errors import DockerException, ImageNotFound
from docker.models.containers import Container
from docker.models.images import Image

SETUP = Path(__file__).with_name("_image_setup.sh")
BASE_SCRIPT = Path(__file__).with_name("base_image")
SCRATCH = "/tmp/image-build"
VENV = "/opt/miniconda3/envs/testbed"
INPUTS_LABEL = "swe.instance_image.inputs"
COMMIT_LABEL = "swe.instance_image.commit"
# The repeated `pip install -e .` of an evaluation script runs with the network off: the build backend is installed, so
# it needs no isolation (0 is how pip spells that), and what it cannot do it should not retry for a minute.
IMAGE_ENV = {
    "PATH": f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "VIRTUAL_ENV": VENV,
    "LANG": "C.UTF-8",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_RETRIES": "0",
}


@dataclass(frozen=True)
class Built:
    """An image and the commit that its /testbed is at; `cached` when it was there before."""

    image: Image
    commit: str
    cached: bool


def connect() -> docker.DockerClient:
    """A client whose engine answers."""
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except DockerException:
        raise InputError("no Docker engine answers; start dockerd, or set DOCKER_HOST to a running engine") from None
    return client


def base_image(client: docker.DockerClient, name: str) -> Image:
    """The base image, made by tools/base_image if it is one of its own and missing."""
    try:
        return client.images.get(name)
    except ImageNotFound:
        suite = name.removeprefix("swe-base:")
        if suite not in ("bookworm", "bullseye"):
            raise InputError(
                f"the base image {name} is not here; pull or build it first, or leave --base away"
            ) from None
    if subprocess.run([BASE_SCRIPT, "--suite", suite], check=False).returncode != 0:
        raise InputError(f"tools/base_image could not make {name}; its message stands above")
    return client.images.get(name)


@contextmanager
def container_of(client: docker.DockerClient, image: Image, network: str) -> Iterator[Container]:
    """A running container that does nothing, removed at the end."""
    name = f"swe-image-{uuid.uuid4().hex[:12]}"
    container = client.containers.create(image, ["sleep", "infinity"], name=name, init=True, network_mode=network)
    try:
        container.start()
        yield container
    finally:
        container.remove(force=True, v=True)


def run_in(
    client: docker.DockerClient,
    container: Container,
    command: list[str],
    env: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[int, list[str]]:
    """Run a command, its merged output line by line to `say`; the exit code and all lines."""
    api = client.api
    exec_id = api.exec_create(container.id, command, environment=dict(env))["Id"]
    lines: list[str] = []
    rest = ""
    for chunk in api.exec_start(exec_id, stream=True):
        *whole, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
        for line in whole:
            lines.append(line)
            say(line)
    if rest:
        lines.append(rest)
        say(rest)
    return int(api.exec_inspect(exec_id)["ExitCode"]), lines


def build(
    client: docker.DockerClient,
    recipe: Recipe,
    *,
    pip_env: Mapping[str, str],
    ca_bundle: Path | None,
    network: str,
    say: Callable[[str], None],
    force: bool = False,
) -> Built:
    """Build a recipe, or find the image that the same inputs gave before."""
    base = base_image(client, recipe.base)
    setup = SETUP.read_bytes()
    digest = recipe.digest(str(base.id), setup + repr(IMAGE_ENV).encode())
    same = [] if force else client.images.list(filters={"label": f"{INPUTS_LABEL}={digest}"})
    if same:
        return Built(same[0], same[0].labels[COMMIT_LABEL], cached=True)

    env = {
        **pip_env,
        "SDIST": recipe.sdist,
        "APT": recipe.apt,
        "REQUIRES": recipe.requires,
        "INSTALL": recipe.install,
        "BUILD_DIR": SCRATCH,
        "LANG": "C.UTF-8",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    scratch = {f"{SCRATCH[1:]}/setup.sh": setup}
    if ca_bundle:
        scratch[f"{SCRATCH[1:]}/ca.pem"] = ca_bundle.read_bytes()
        env |= dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"), f"{SCRATCH}/ca.pem")

    def progress(line: str) -> None:
        if line.startswith(("step: ", "note: ")):
            say(line.removeprefix("step: "))

    with container_of(client, base, network) as container:
        container.put_archive("/", pack_data(scratch))
        if recipe.tree:
            container.exec_run(["mkdir", "-p", "/testbed"])
            container.put_archive("/testbed", recipe.tree)
        code, lines = run_in(client, container, ["bash", f"{SCRATCH}/setup.sh"], env, progress)
        if code != 0:
            detail = "\n".join(f"    | {line}" for line in lines[-25:])
            raise InputError(f"the set-up in the container failed with exit code {code}:\n{detail}")
        commit = lines[-1].removeprefix("commit: ")
        changes = [
            *(f"ENV {key}={value}" for key, value in IMAGE_ENV.items()),
            "WORKDIR /testbed",
            'CMD ["/bin/bash"]',
            f"LABEL {INPUTS_LABEL}={digest}",
            f"LABEL {COMMIT_LABEL}={commit}",
        ]
        # nothing runs any more, so there is nothing to pause
        image = container.commit(changes="\n".join(changes), pause=False)
    return Built(image, commit, cached=False)


def patch_faults(client: docker.DockerClient, image: Image, patches: Mapping[str, str]) -> list[str]:
    """What `git apply --check` says against the image's tree, a line for each patch (by title) that does not apply."""
    files = {f"tmp/patches/{index}": text.encode("utf-8") for index, text in enumerate(patches.values())}
    faults = []
    with container_of(client, image, "none") as container:
        container.put_archive("/", pack_data(files))
        for title, name in zip(patches, files, strict=True):
            code, lines = run_in(
                client, container, ["git", "-C", "/testbed", "apply", "--check", f"/{name}"], {}, lambda _: None
            )
            if code != 0:
                faults.append(f"its {title} does not apply to the tree: {lines[0] if lines else 'git says nothing'}")
    return faults
