"""Containers of a Docker engine (or podman's Docker API), through the low-level SDK client.

Promises: a create that fails leaves nothing; only containers of one namespace are seen; nothing is pulled unasked.
"""

import contextlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import docker.utils

from swe_exec_server import shell
from swe_exec_server import shell_scripts as scripts
from swe_exec_server.backend import ImageInfo
from swe_exec_server.common.errors import one_line
from swe_exec_server.docker_container import ENV_LABEL, TTL_LABEL, DockerContainer, UserShell
from swe_exec_server.docker_engine import Engine, translated
from swe_exec_server.sandbox import SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

NAMESPACE_LABEL = "swe-exec.namespace"
CREATE_LABEL = "swe-exec.create"
"""One create: tells what a failed one left from what others made under the same name."""

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL")
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*\Z")


class DockerBackend:
    """Makes and finds the containers of one namespace; see `backend.Backend`.

    Args:
        namespace: containers of other namespaces are never seen or touched.
        allow_network: whether a lease may ask for a network.
        user_shell: `login`: commands see the variables of a login shell, captured once per container; `plain`: not.
        max_pool_size: connections to the engine kept open; about the number of threads that use it at once.
    """

    def __init__(
        self,
        namespace: str,
        *,
        allow_network: bool = False,
        user_shell: UserShell = "login",
        max_pool_size: int = 64,
    ) -> None:
        self._namespace = namespace
        self._allow_network = allow_network
        self._user_shell: UserShell = user_shell
        self._engine = Engine(max_pool_size)

    @property
    def kind(self) -> str:
        return "docker"

    def check(self) -> None:
        with translated():
            self._engine.api.ping()

    def close(self) -> None:
        self._engine.close()

    def create(self, spec: SandboxSpec, name: str, labels: Mapping[str, str]) -> DockerContainer:
        self._refuse(spec)
        all_labels = {
            **labels,
            NAMESPACE_LABEL: self._namespace,
            TTL_LABEL: f"{spec.ttl:g}",
            ENV_LABEL: json.dumps(dict(spec.env)),
            CREATE_LABEL: secrets.token_hex(16),
        }
        try:
            with translated():
                created = self._engine.api.create_container(
                    image=spec.image,
                    name=name,
                    entrypoint=list(scripts.switch_command(spec.ttl)),
                    command=[],
                    working_dir=spec.cwd,
                    labels=all_labels,
                    host_config=self._host_config(spec),
                    healthcheck={"test": ["NONE"]},
                )
                self._engine.api.start(created["Id"])
        except BaseException as error:
            self._remove_remains(name, all_labels[CREATE_LABEL])
            if isinstance(error, SandboxError) and error.code is ErrorCode.IMAGE_UNKNOWN:
                message = f"image {spec.image} is not on this machine; pull it or build it"
                raise SandboxError(ErrorCode.IMAGE_UNKNOWN, message) from error
            raise
        return DockerContainer(self._engine, str(created["Id"]), name, all_labels, self._user_shell)

    def _refuse(self, spec: SandboxSpec) -> None:
        bad = [key for key in spec.env if not shell.valid_name(key)]
        problem = ""
        if not _IMAGE_NAME.match(spec.image):
            problem = f"{spec.image!r} is no image name"
        elif bad:
            problem = f"{bad[0]!r} is no variable name"
        elif not spec.cwd.startswith("/"):
            problem = f"{spec.cwd!r} is not an absolute path"
        elif spec.network and not self._allow_network:
            problem = "containers get no network here; the operator of the node must allow it"
        if problem:
            raise SandboxError(ErrorCode.BAD_REQUEST, problem)

    def _host_config(self, spec: SandboxSpec) -> dict[str, Any]:
        limits = spec.limits
        return self._engine.api.create_host_config(
            init=True,
            network_mode="bridge" if spec.network else "none",
            cap_drop=["ALL"],
            cap_add=list(CAPABILITIES),
            security_opt=["no-new-privileges"],
            mem_limit=limits.memory,
            memswap_limit=limits.memory,
            pids_limit=limits.pids,
            nano_cpus=int(min(limits.cpus, self._engine.cpus) * 1e9),
            auto_remove=False,
        )

    def _remove_remains(self, name: str, token: str) -> None:
        """Remove what this failed create made, and nothing that someone else made under that name."""
        with contextlib.suppress(SandboxError), translated():
            found = self._engine.api.inspect_container(name)
            if (found["Config"]["Labels"] or {}).get(CREATE_LABEL) == token:
                self._engine.api.remove_container(found["Id"], v=True, force=True)

    def list(self) -> Sequence[DockerContainer]:
        with translated():
            found = self._engine.api.containers(all=True, filters={"label": f"{NAMESPACE_LABEL}={self._namespace}"})
        return [
            DockerContainer(self._engine, entry["Id"], name.lstrip("/"), entry["Labels"], self._user_shell)
            for entry in found
            for name in entry["Names"][:1]
        ]

    def images(self) -> Sequence[ImageInfo]:
        with translated():
            found = self._engine.api.images()
        named = ((tuple(tag for tag in entry["RepoTags"] or () if tag != "<none>:<none>"), entry) for entry in found)
        return [ImageInfo(names, int(entry["Size"])) for names, entry in named if names]

    def has_image(self, image: str) -> bool:
        try:
            with translated():
                self._engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
        except SandboxError as error:
            if error.code in {ErrorCode.IMAGE_UNKNOWN, ErrorCode.CONTAINER_UNKNOWN, ErrorCode.BAD_REQUEST}:
                return False
            raise
        return True

    def pull(self, image: str) -> Iterator[str]:
        if not _IMAGE_NAME.match(image):
            raise SandboxError(ErrorCode.BAD_REQUEST, f"{image!r} is no image name")
        repository, tag = docker.utils.parse_repository_tag(image)
        try:
            with translated():
                for event in self._engine.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                    if "error" in event:
                        raise _pull_error(image, str(event["error"]))
                    parts = (event.get("id"), event.get("status"), event.get("progress"))
                    yield one_line(" ".join(str(part) for part in parts if part))
        except SandboxError as error:
            if error.code in {ErrorCode.ENGINE_DOWN, ErrorCode.DISK_FULL}:
                raise
            raise _pull_error(image, error.message) from error


def _pull_error(image: str, text: str) -> SandboxError:
    """What a registry or the engine said about a pull, by kind."""
    lower = text.lower()
    kinds: Sequence[tuple[ErrorCode, Sequence[str]]] = (
        (ErrorCode.DISK_FULL, ("no space left", "quota exceeded")),
        (ErrorCode.FULL, ("toomanyrequests", "too many requests", "rate limit")),
        (ErrorCode.IMAGE_UNKNOWN, ("not found", "manifest unknown", "does not exist", "denied", "no such image")),
        (ErrorCode.BAD_REQUEST, ("invalid reference",)),
    )
    for code, words in kinds:
        if any(word in lower for word in words):
            return SandboxError(code, f"cannot pull {image}: {one_line(text)}")
    return SandboxError(ErrorCode.INTERNAL, f"cannot pull {image}: {one_line(text)}")
