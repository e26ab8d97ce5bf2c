"""The embedded backend: no Docker. A sandbox is a private copy of an image's tree in which commands run.

Two ways, one behaviour: `bubblewrap` gives namespaces of their own (files, processes, no network) and takes any
command; `process` runs plain processes with the caller's own rights, and therefore takes only commands that the caller
marks `trusted`, unless it was told `unsafe_local`. Either way a sandbox ends, with all it started, when its server
does; what a killed server left behind in the directory is found by `list` and can be destroyed.

Limits: memory and file size per process, CPUs by affinity, processes where the kernel counts them per namespace (Linux
5.14, not as root). A bubblewrap sandbox's root is read-only; its tree, /tmp and home are on the disk of the directory.
"""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from swe_exec_server import local_bubblewrap, local_process
from swe_exec_server.backend import Container, ExecSpec, ImageInfo
from swe_exec_server.common.files import write_json
from swe_exec_server.local_container import Inside, Layout, LocalContainer, Process, Running, remove_tree
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.shell import DEFAULT_ENVIRONMENT
from swe_exec_server.wire import ErrorCode, SandboxError

Mode = Literal["auto", "bubblewrap", "process"]
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
_IMAGE_NAME = re.compile(r"[A-Za-z0-9]")
_SUPERVISOR = Path(local_process.__file__)
_NPROC_PER_NAMESPACE = (5, 14)


class LocalBackend:
    """See `backend.Backend`.

    Args:
        namespace_dir: where the sandboxes live; one process at a time uses it.
        images: the directory whose content appears at a lease's `cwd`, or None for an unknown image name.
        mode: `auto` takes bubblewrap where it works.
        unsafe_local: let plain processes run commands that nobody vouches for.
        allow_network: whether a lease may ask for the network; plain processes have the machine's in any case.
    """

    def __init__(
        self,
        namespace_dir: Path,
        images: Callable[[str], Path | None],
        *,
        mode: Mode = "auto",
        unsafe_local: bool = False,
        allow_network: bool = False,
    ) -> None:
        self._directory = namespace_dir.resolve()
        self._find = images
        self._mode = mode
        self._unsafe = unsafe_local
        self._allow_network = allow_network
        self._lock = threading.Lock()
        self._live: dict[str, LocalContainer | None] = {}
        self._seen: dict[str, Path] = {}
        self._why_no_bubblewrap: str | None = None

    @property
    def kind(self) -> str:
        """`bubblewrap` or `process`."""
        if self._mode == "process":
            return "process"
        return "process" if self._mode == "auto" and self._no_bubblewrap() else "bubblewrap"

    def check(self) -> None:
        if self._mode == "bubblewrap" and (why := self._no_bubblewrap()):
            raise SandboxError(ErrorCode.ENGINE_DOWN, f"{why}; install bubblewrap or choose another backend")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxError(ErrorCode.ENGINE_DOWN, f"can not make {self._directory}: {error.strerror}") from error

    def create(self, spec: SandboxSpec, name: str, labels: Mapping[str, str]) -> Container:
        if not _IMAGE_NAME.match(spec.image):
            raise SandboxError(ErrorCode.BAD_REQUEST, f"{spec.image!r} is no image name")
        source = self._known(spec.image)
        if source is None:
            raise SandboxError(ErrorCode.IMAGE_UNKNOWN, f"no local image {spec.image!r}")
        self._refuse(spec)
        self.check()
        container_id = secrets.token_hex(16)
        layout = Layout(self._directory / container_id)
        with self._lock:
            self._live[container_id] = None
        try:
            container = self._make(spec, container_id, name, labels, layout, source)
        except BaseException:
            remove_tree(layout.root)
            self._forget(container_id)
            raise
        with self._lock:
            self._live[container_id] = container
        return container

    def list(self) -> Sequence[Container]:
        if not self._directory.is_dir():
            return []
        with self._lock:
            live = dict(self._live)
        found: list[Container] = [container for container in live.values() if container is not None]
        for entry in sorted(self._directory.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and entry.name not in live:
                left = self._left_behind(entry)
                found += [left] if left is not None else []
        return found

    def images(self) -> Sequence[ImageInfo]:
        """Those asked for so far: names are resolved as they come."""
        with self._lock:
            seen = dict(self._seen)
        return [ImageInfo((name,), _tree_size(path)) for name, path in sorted(seen.items())]

    def has_image(self, image: str) -> bool:
        return self._known(image) is not None

    def pull(self, image: str) -> Iterator[str]:
        if not self.has_image(image):
            raise SandboxError(ErrorCode.IMAGE_UNKNOWN, f"no local image {image!r}; the embedded backend can not pull")
        return iter((f"{image}: present",))

    def close(self) -> None:
        with suppress(OSError):  # not empty: something is left for the next start
            self._directory.rmdir()

    def _known(self, image: str) -> Path | None:
        path = self._find(image)
        if path is not None:
            with self._lock:
                self._seen[image] = path
        return path

    def _refuse(self, spec: SandboxSpec) -> None:
        if local_bubblewrap.reserved(spec.cwd):
            raise SandboxError(ErrorCode.BAD_REQUEST, f"cwd {spec.cwd!r} can not hold the tree; use one like /testbed")
        if self.kind == "process" and not spec.trusted and not self._unsafe:
            raise SandboxError(
                ErrorCode.BAD_REQUEST,
                "refused: commands of a model in plain processes would run with your own rights; "
                "install bubblewrap, or pass --unsafe-local",
            )
        if spec.network and not self._allow_network:
            raise SandboxError(ErrorCode.BAD_REQUEST, "network is not allowed on this node; ask for network=false")

    def _make(
        self, spec: SandboxSpec, container_id: str, name: str, labels: Mapping[str, str], layout: Layout, source: Path
    ) -> LocalContainer:
        for directory in (layout.root, layout.tmp, layout.home, layout.control, layout.etc):
            directory.mkdir(mode=0o700)
        layout.tmp.chmod(0o1777)
        record: dict[str, Any] = {
            "schema": 1,
            "name": name,
            "labels": dict(labels),
            "server": vars(Process.of(os.getpid())),
        }
        write_json(layout.record, record)
        _copy_tree(source, layout.tree)
        (layout.home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
        boxed = self.kind == "bubblewrap"
        running = _start_boxed(spec, layout) if boxed else _start_plain(layout)
        inside = _inside_boxed(spec) if boxed else _inside_plain(spec, layout)
        container = LocalContainer(container_id, name, labels, layout, inside, running, forget=self._forget)
        try:
            write_json(layout.record, {**record, "supervisor": vars(running.init)})
            result = container.exec(ExecSpec(":", spec.cwd, timeout=spec.timeout, internal=True))
            if result.returncode != 0:
                raise SandboxError(ErrorCode.INTERNAL, f"a new sandbox can not run commands: {result.text.strip()}")
        except BaseException as error:
            log = (layout.root / "log").read_text(errors="replace").split()
            container.destroy()
            if isinstance(error, SandboxError) and log:
                raise SandboxError(ErrorCode.INTERNAL, f"the sandbox did not start: {' '.join(log)[-300:]}") from error
            raise
        return container

    def _left_behind(self, directory: Path) -> LocalContainer | None:
        """What an earlier process left; None when that process still lives, or the directory is no sandbox of ours."""
        layout = Layout(directory)
        try:
            record = json.loads(layout.record.read_bytes())
            server = Process(**record["server"])
            supervisor = Process(**record["supervisor"]) if "supervisor" in record else None
            name, labels = str(record["name"]), dict(record["labels"])
        except (OSError, ValueError, KeyError, TypeError):
            if not layout.control.is_dir() or layout.record.exists():
                return None
            name, labels, server, supervisor = directory.name, {}, Process(0, ""), None
        if server.alive() and server.pid != os.getpid():
            return None
        return LocalContainer(directory.name, name, labels, layout, None, None, supervisor)

    def _forget(self, container_id: str) -> None:
        with self._lock:
            self._live.pop(container_id, None)

    def _no_bubblewrap(self) -> str:
        with self._lock:
            if self._why_no_bubblewrap is None:
                self._why_no_bubblewrap = local_bubblewrap.why_unusable()
            return self._why_no_bubblewrap


def _tree_size(path: Path) -> int:
    """Bytes of all files; links are counted themselves."""
    return sum(
        os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - tens of thousands of files
        for parent, _, names in os.walk(path)
        for name in names
    )


def _copy_tree(source: Path, target: Path) -> None:
    """Everything, links and modes as they are, owned by us; shares blocks where the file system can."""
    if sys.platform == "linux":
        command = ["cp", "-a", "--no-preserve=ownership", "--reflink=auto", "--", f"{source}/.", str(target)]
    else:
        command = ["cp", "-Rp", f"{source}/.", str(target)]
    target.mkdir()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        code = ErrorCode.DISK_FULL if "No space left on device" in said else ErrorCode.INTERNAL
        raise SandboxError(code, f"can not copy {source}: {said}")


def _start_boxed(spec: SandboxSpec, layout: Layout) -> Running:
    local_bubblewrap.write_accounts(layout.etc)
    view = local_bubblewrap.View(
        layout.tree, layout.tmp, layout.home, layout.control, layout.etc, spec.cwd, spec.network
    )
    info, info_end = os.pipe()
    try:
        python = str(local_bubblewrap.python_of_base())
        channel, process = _spawn(
            layout,
            lambda fd: local_bubblewrap.arguments(
                view, _SUPERVISOR, [python, "-I", "-S", "-X", "utf8", local_bubblewrap.SUPERVISOR, str(fd)], info_end
            ),
            (info_end,),
        )
    except BaseException:
        os.close(info)
        raise
    finally:
        os.close(info_end)
    with os.fdopen(info, "rb") as file:
        said = file.read()
    pid = json.loads(said)["child-pid"] if said else process.pid
    return Running(channel, process, Process.of(pid))


def _start_plain(layout: Layout) -> Running:
    channel, process = _spawn(
        layout,
        lambda fd: [sys.executable, "-I", "-S", "-X", "utf8", str(_SUPERVISOR), str(fd)],
        (),
    )
    return Running(channel, process, Process.of(process.pid))


def _spawn(
    layout: Layout, command: Callable[[int], list[str]], inherit: tuple[int, ...]
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    with theirs, (layout.root / "log").open("wb") as log:
        try:
            process = subprocess.Popen(
                command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ.get("PATH", local_bubblewrap.SYSTEM_PATH), "LC_ALL": "C.UTF-8"},
                pass_fds=(theirs.fileno(), *inherit),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxError(ErrorCode.INTERNAL, f"can not start a sandbox: {error}") from error
    return ours, process


def _inside_boxed(spec: SandboxSpec) -> Inside:
    path = f"{Path(sys.base_prefix)}/bin:{local_bubblewrap.SYSTEM_PATH}"
    env = {**DEFAULT_ENVIRONMENT, "PATH": path, "HOME": local_bubblewrap.HOME}
    limits = _rlimits(spec.limits)
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if os.getuid() != 0 and kernel >= _NPROC_PER_NAMESPACE:
        limits["RLIMIT_NPROC"] = spec.limits.pids
    return Inside(env, spec.env, _shell(), local_bubblewrap.CONTROL, limits, _cpus(spec.limits), lambda path: path)


def _inside_plain(spec: SandboxSpec, layout: Layout) -> Inside:
    path = f"{Path(sys.base_prefix)}/bin:{os.environ.get('PATH', local_bubblewrap.SYSTEM_PATH)}"
    env = {
        **DEFAULT_ENVIRONMENT,
        "PATH": path,
        "HOME": str(layout.home),
        "TMPDIR": str(layout.tmp),
        "GIT_CONFIG_NOSYSTEM": "1",
        # The directory may lie inside a repository of the caller's.
        "GIT_CEILING_DIRECTORIES": str(layout.root),
    }

    def mapped(path: str) -> str:
        inside = path == spec.cwd or path.startswith(spec.cwd + "/")
        return f"{layout.tree}{path[len(spec.cwd) :]}" if inside else path

    return Inside(env, spec.env, _shell(), str(layout.control), _rlimits(spec.limits), _cpus(spec.limits), mapped)


def _shell() -> str:
    return next((shell for shell in _SHELLS if Path(shell).exists()), "/bin/sh")


def _rlimits(limits: Limits) -> dict[str, int]:
    return {"RLIMIT_AS": limits.memory, "RLIMIT_FSIZE": limits.memory, "RLIMIT_CORE": 0}


def _cpus(limits: Limits) -> tuple[int, ...]:
    """As many of this machine's CPUs as the limit says, not always the same ones; empty means all."""
    if sys.platform != "linux":
        return ()
    available = sorted(os.sched_getaffinity(0))
    wanted = max(1, round(limits.cpus))
    if wanted >= len(available):
        return ()
    first = secrets.randbelow(len(available))
    return tuple(available[(first + step) % len(available)] for step in range(wanted))
