"""One local sandbox: a private directory, and the supervisor in it that starts commands (see `local_process.py`).

Promises what every backend's container does. Files are read and written by commands inside, never from outside, so
that no link of the tree leads out of it.
"""

import array
import contextlib
import errno
import fcntl
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_exec_server.backend import ExecSpec
from swe_exec_server.capture import HeadTail
from swe_exec_server.local_process import KILL_PATIENCE, kill_below
from swe_exec_server.sandbox import ExecResult
from swe_exec_server.wire import ErrorCode, SandboxError

MAX_ARGUMENT = 100_000
"""Bytes of a command passed as one argument (Linux takes 128 KiB); larger ones travel as a file."""
ANSWER_PATIENCE = KILL_PATIENCE + 20.0
"""Seconds after a command's timeout in which its guardian must have answered."""
KILLED = 137
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_FILE, _TOO_LARGE = 3, 4


@dataclass(frozen=True)
class Process:
    """A process that is still the same one: a number alone may have been given to a stranger since."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        return cls(pid, start_time(pid))

    def alive(self) -> bool:
        return self.started != "" and start_time(self.pid) == self.started


@dataclass(frozen=True)
class Layout:
    """The directories of one sandbox below `root`."""

    root: Path

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def record(self) -> Path:
        return self.root / "sandbox.json"


@dataclass(frozen=True)
class Inside:
    """How commands run: environments, shells, limits, and what paths of the sandbox are called there.

    Attributes:
        base_env: of every command; `lease_env` is added for all but the node's own.
        shell: bash where there is one, else sh.
        control: the control directory as seen by commands.
        path: from a path as the caller says it to the one that commands see.
    """

    base_env: Mapping[str, str]
    lease_env: Mapping[str, str]
    shell: str
    control: str
    rlimits: Mapping[str, int]
    cpus: tuple[int, ...]
    path: Callable[[str], str]


@dataclass
class Running:
    """The live half of a sandbox: its supervisor's socket and process, and process 1 of a bubblewrap sandbox."""

    channel: socket.socket
    process: subprocess.Popen[bytes]
    init: Process


class LocalContainer:
    """See `backend.Container`. Without `running` it is what an earlier process left: it can only be destroyed."""

    def __init__(
        self,
        container_id: str,
        name: str,
        labels: Mapping[str, str],
        layout: Layout,
        inside: Inside | None,
        running: Running | None,
        leftover: Process | None = None,
        forget: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._id, self._name, self._labels = container_id, name, dict(labels)
        self._layout, self._inside, self._running = layout, inside, running
        self._leftover = leftover
        self._forget = forget
        self._lock = threading.Lock()
        self._counter = 0

    @property
    def id(self) -> str:
        return self._id

    @property
    def name(self) -> str:
        return self._name

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    def exec(self, spec: ExecSpec) -> ExecResult:
        inside, running = self._alive()
        _check(spec)
        started = time.monotonic()
        with self._argv(inside, spec) as argv:
            env = {**inside.base_env, **({} if spec.internal else inside.lease_env), **spec.env}
            request = {
                "program": "/bin/sh" if spec.internal else inside.shell,
                "argv": argv,
                "env": env,
                "cwd": inside.path(spec.cwd),
                "shown_cwd": spec.cwd,
                "timeout": spec.timeout,
                "rlimits": {} if spec.internal else dict(inside.rlimits),
                "cpus": list(inside.cpus),
            }
            kept = HeadTail(spec.max_output)
            answer = self._ask(running, request, spec.stdin, kept, spec.timeout + ANSWER_PATIENCE)
        return ExecResult(
            returncode=answer["returncode"],
            output=kept.result(),
            output_bytes=kept.total,
            timed_out=answer["timed_out"],
            truncated=kept.truncated,
            duration=time.monotonic() - started,
        )

    def read_file(self, path: str, max_bytes: int) -> bytes:
        inside, _ = self._alive()
        _check_path(path)
        name = shlex.quote(inside.path(path))
        script = (
            f"[ -f {name} ] || exit {_NO_FILE}\n"
            f'[ "$(wc -c <{name})" -le {max_bytes} ] || exit {_TOO_LARGE}\n'
            f"exec cat <{name}"
        )
        result = self.exec(ExecSpec(script, "/", timeout=600, max_output=max_bytes, internal=True))
        if result.returncode == _NO_FILE:
            raise SandboxError(ErrorCode.BAD_REQUEST, f"no such regular file: {path}")
        if result.returncode == _TOO_LARGE:
            raise SandboxError(ErrorCode.TOO_LARGE, f"{path} is larger than {max_bytes} bytes")
        if result.returncode != 0:
            raise SandboxError(ErrorCode.BAD_REQUEST, f"can not read {path}: {_said(result)}")
        return result.output

    def write_file(self, path: str, data: bytes) -> None:
        inside, _ = self._alive()
        _check_path(path)
        target = inside.path(path)
        parent, name = shlex.quote(os.path.dirname(target)), shlex.quote(target)  # noqa: PTH120 - a path elsewhere
        script = f"mkdir -p {parent} && cat >{name}"
        result = self.exec(ExecSpec(script, "/", timeout=600, stdin=data, internal=True))
        if result.returncode != 0:
            full = os.strerror(errno.ENOSPC) in result.text
            code = ErrorCode.DISK_FULL if full else ErrorCode.BAD_REQUEST
            raise SandboxError(code, f"can not write {path}: {_said(result)}")

    def renew(self) -> None:
        """A sandbox ends with its server, at once, so there is nothing to renew."""
        self._alive()

    def destroy(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.channel.close()
            try:
                running.process.wait(KILL_PATIENCE + 5)
            except subprocess.TimeoutExpired:
                _kill(running.init)
                running.process.kill()
                running.process.wait()
        if self._leftover is not None:
            _end_leftover(self._leftover)
        remove_tree(self._layout.root)
        self._forget(self._id)

    def _alive(self) -> tuple[Inside, Running]:
        if self._running is None or self._inside is None or self._running.process.poll() is not None:
            raise SandboxError(ErrorCode.CONTAINER_GONE, f"sandbox {self._name} no longer runs")
        return self._inside, self._running

    @contextlib.contextmanager
    def _argv(self, inside: Inside, spec: ExecSpec) -> Iterator[list[str]]:
        shell = "sh" if spec.internal else Path(inside.shell).name
        command = spec.command.encode("utf-8", "surrogateescape")
        if len(command) <= MAX_ARGUMENT:
            yield [shell, "-c", spec.command]
            return
        with self._lock:
            self._counter += 1
            name = f"command-{self._counter}"
        file = self._layout.control / name
        file.write_bytes(command)
        try:
            yield [shell, f"{inside.control}/{name}"]
        finally:
            file.unlink(missing_ok=True)

    def _ask(
        self, running: Running, request: dict[str, Any], stdin: bytes, kept: HeadTail, patience: float
    ) -> dict[str, Any]:
        output, output_end = os.pipe()
        answer, answer_end = os.pipe()
        request_file, stdin_file = _memory_file(json.dumps(request).encode()), _memory_file(stdin)
        try:
            descriptors = [request_file, stdin_file, output_end, output, answer_end]
            try:
                with self._lock:
                    running.channel.sendmsg(
                        [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                    )
            except OSError as error:
                raise SandboxError(ErrorCode.CONTAINER_GONE, f"sandbox {self._name} no longer runs") from error
            finally:
                for descriptor in (request_file, stdin_file, output_end, answer_end):
                    os.close(descriptor)
            said = _collect(output, answer, kept, patience)
        finally:
            os.close(output)
            os.close(answer)
        if said:
            parsed: dict[str, Any] = json.loads(said)
            return parsed
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(0.5)
        self._alive()
        # The sandbox lives but the guardian was killed, by a `kill -9 -1` for example; its command ended with it.
        return {"returncode": KILLED, "timed_out": False}


def _check(spec: ExecSpec) -> None:
    if bad := [name for name in spec.env if not _VARIABLE.fullmatch(name)]:
        raise SandboxError(ErrorCode.BAD_REQUEST, f"{bad[0]!r} is no variable name")
    if any("\0" in text for text in (spec.command, spec.cwd, *spec.env.values())):
        raise SandboxError(ErrorCode.BAD_REQUEST, "commands, paths and variables can not hold NUL")
    _check_path(spec.cwd)


def _check_path(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise SandboxError(ErrorCode.BAD_REQUEST, f"{path!r} is not an absolute path")


def _collect(output: int, answer: int, kept: HeadTail, patience: float) -> bytes:
    """Feed the output until the answer comes, then what is in the pipe at that moment; empty when none ever comes."""
    deadline = time.monotonic() + patience
    poller = select.poll()
    poller.register(output, select.POLLIN)
    poller.register(answer, select.POLLIN)
    said = b""
    while not said.endswith(b"\n"):
        events = dict(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
        if not events and time.monotonic() >= deadline:
            raise SandboxError(ErrorCode.INTERNAL, f"the sandbox gave no answer within {patience:.0f} s")
        if answer in events:
            part = os.read(answer, 4096)
            said += part
            if not part:
                break
        elif output in events:
            data = os.read(output, 1 << 16)
            kept.feed(data)
            if not data:
                poller.unregister(output)
    (waiting,) = struct.unpack("i", fcntl.ioctl(output, termios.FIONREAD, b"\0\0\0\0"))
    while waiting > 0 and (data := os.read(output, min(waiting, 1 << 16))):
        kept.feed(data)
        waiting -= len(data)
    return said


def _memory_file(data: bytes) -> int:
    """A descriptor from which `data` can be read, however large it is."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    if sys.platform == "linux":
        descriptor = os.memfd_create("swe")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def start_time(pid: int) -> str:
    """When a process started, as its system says it; empty when there is none, or only a zombie."""
    if sys.platform != "linux":
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return done.stdout.strip()
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _kill(process: Process) -> None:
    if process.alive():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


def _end_leftover(process: Process) -> None:
    """A supervisor whose server is gone ends by itself; one that hangs is ended with all below it."""
    deadline = time.monotonic() + 2.0
    while process.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    if process.alive():
        kill_below(process.pid)
        _kill(process)


def remove_tree(path: Path) -> None:
    """Remove a directory, also where commands took away the right to; one that is not there is no error."""

    def allow(function: Callable[..., Any], name: str, error: object) -> None:
        for target in (os.path.dirname(name), name):  # noqa: PTH120
            with contextlib.suppress(OSError):
                if not stat.S_ISLNK(os.lstat(target).st_mode):
                    os.chmod(target, 0o700)  # noqa: PTH101
        if os.path.isdir(name) and not os.path.islink(name):  # noqa: PTH112, PTH114
            shutil.rmtree(name, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                function(name)

    if path.exists():
        if sys.version_info >= (3, 12):
            shutil.rmtree(path, onexc=allow)
        else:
            shutil.rmtree(path, onerror=allow)
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)


def _said(result: ExecResult) -> str:
    return " ".join(result.text.split())[-300:]
