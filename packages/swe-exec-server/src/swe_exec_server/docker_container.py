"""One container of a Docker engine: commands, files, its end.

Promises: what a timed-out command started is gone before its result is returned; a container that died is an error
with its reason, never a command's output.
"""

import contextlib
import json
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from swe_exec_server import shell
from swe_exec_server import shell_scripts as scripts
from swe_exec_server.backend import ExecSpec
from swe_exec_server.common.errors import one_line
from swe_exec_server.docker_engine import AttachedStream, Engine, translated
from swe_exec_server.sandbox import TIMED_OUT_RETURNCODE, ExecResult
from swe_exec_server.wire import ErrorCode, SandboxError

TTL_LABEL = "swe-exec.ttl"
ENV_LABEL = "swe-exec.env"
"""The lease's variables as JSON. Not the container's own: they must not reach what the server itself runs in it."""

FILE_TIMEOUT = 300.0
_START_SECONDS = 60.0
_DRAIN_SECONDS = 5.0
_POLL_SECONDS = 0.05
_KILL_ATTEMPTS = 3
_DYING_SECONDS = 0.3  # a container whose processes were all killed still reads as running for a moment
# What a shell or the engine says when the container has used up its processes or memory.
# "read init-p": the engine's own starter died because it could not make its threads.
_EXHAUSTED = re.compile(
    r"resource temporarily unavailable|cannot fork|cannot allocate memory|read init-p", re.IGNORECASE
)

UserShell = Literal["login", "plain"]


class DockerContainer:
    """One container; see `backend.Container`."""

    def __init__(self, engine: Engine, id_: str, name: str, labels: Mapping[str, str], user_shell: UserShell) -> None:
        self._engine = engine
        self._id = id_
        self._name = name
        self._labels = dict(labels)
        self._user_shell = user_shell
        self._lock = threading.Lock()
        self._lease_env: Mapping[str, str] = json.loads(self._labels.get(ENV_LABEL, "{}"))
        self._login_env: Mapping[str, str] | None = None
        self._stopped_for_limits = False

    @property
    def id(self) -> str:
        return self._id

    @property
    def name(self) -> str:
        return self._name

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    # -- commands ------------------------------------------------------------------------------------------------------

    def exec(self, spec: ExecSpec) -> ExecResult:
        bad = [name for name in spec.env if not shell.valid_name(name)]
        if bad or "\0" in spec.command + spec.cwd + "".join(spec.env.values()):
            what = f"{bad[0]!r} is no variable name" if bad else "commands, paths and variables cannot hold NUL"
            raise SandboxError(ErrorCode.BAD_REQUEST, what)
        if spec.internal:
            environment = {**shell.LOCALE_ENVIRONMENT, **spec.env}
        else:
            login = self._login() if self._user_shell == "login" else {}
            environment = {**shell.DEFAULT_ENVIRONMENT, **login, **self._lease_env, **spec.env}
        request = shell.Request(spec.command, spec.cwd, environment, spec.stdin, plain=spec.internal)
        return self._run(request, spec.timeout, spec.max_output)

    def _run(self, request: shell.Request, timeout: float, max_output: int) -> ExecResult:
        marker = secrets.token_hex(16)
        reply = shell.Reply(request.nonce, max_output)
        exec_id = self._exec_create(
            scripts.boot_command(), stdin=True, env={shell.MARKER_VARIABLE: marker, **shell.BOOT_ENVIRONMENT}
        )
        with self._attach(exec_id) as stream:
            stream.send(request.encode())
            self._start(stream, reply, marker)
            started = time.monotonic()
            self._converse(stream, reply, started + timeout)
            timed_out = not (reply.done or stream.ended)
            if timed_out:
                with ThreadPoolExecutor(1) as helper:
                    killed = helper.submit(self._kill, marker, reply.boot_pid)
                    # Read on meanwhile: an engine that cannot hand over a dead command's output finishes no other.
                    while not (killed.done() or reply.done or stream.ended):
                        stream.receive(reply, time.monotonic() + _POLL_SECONDS)
                    killed.result()
                stream.receive(reply, time.monotonic() + _DRAIN_SECONDS)
                reply.close()
            duration = time.monotonic() - started
        returncode = TIMED_OUT_RETURNCODE if timed_out else self._returncode(exec_id, reply)
        output = reply.output
        return ExecResult(returncode, output.result(), output.total, timed_out, output.truncated, duration)

    def _start(self, stream: AttachedStream, reply: shell.Reply, marker: str) -> None:
        """Until the boot has begun: its start is not the command's time, and before it there is nothing to kill."""
        stream.receive(reply, time.monotonic() + _START_SECONDS, start=True)
        if reply.boot_pid is None and not stream.ended:
            self._kill(marker, None)
            message = f"the Docker engine did not start a command within {_START_SECONDS:g} s"
            raise SandboxError(ErrorCode.ENGINE_DOWN, message)

    def _converse(self, stream: AttachedStream, reply: shell.Reply, deadline: float) -> None:
        """Until the reply is there or the deadline has passed; a long command keeps its container's lease alive."""
        every = float(self._labels.get(TTL_LABEL, "60")) / 3
        while not (reply.done or stream.ended) and time.monotonic() < deadline:
            stream.receive(reply, min(deadline, time.monotonic() + every))
            if not (reply.done or stream.ended):
                # Beside this thread: the engine may wait for us to read.
                threading.Thread(target=self._renew_quietly, daemon=True).start()

    def _returncode(self, exec_id: str, reply: shell.Reply) -> int:
        """The command's; where the boot died before it could tell, the boot's own."""
        if reply.failure:
            raise SandboxError(ErrorCode.INTERNAL, f"container {self._name}: {reply.failure}")
        if reply.returncode is not None:
            return reply.returncode
        code = None if self._gone() else self._engine.exit_code(exec_id)
        time.sleep(_DYING_SECONDS)
        if (gone := self._gone()) is not None:
            raise gone
        said = one_line(reply.noise + reply.output.result().decode("utf-8", "replace"))
        if _EXHAUSTED.search(said) and (code is None or code < 128):
            # No process left for a shell: the commands' own doing, and so their result.
            reply.output.feed(f"{reply.noise}cannot fork: the container's process limit is reached\n".encode())
            return scripts.CANNOT_START
        if reply.boot_pid is None or code is None:
            raise SandboxError(ErrorCode.INTERNAL, f"container {self._name}: no shell could be started: {said}")
        return code

    def _login(self) -> Mapping[str, str]:
        """Variables as a login shell leaves them, captured once; none when there is no bash or its profile fails."""
        with self._lock:
            if self._login_env is None:
                environment = {**shell.DEFAULT_ENVIRONMENT, **self._lease_env}
                request = shell.Request(scripts.CAPTURE_LOGIN, "/", environment, plain=True)
                result = self._run(request, scripts.CAPTURE_LOGIN_TIMEOUT, 4 * 1024 * 1024)
                usable = not result.timed_out and not result.truncated
                self._login_env = shell.parse_environment(result.output) if usable else {}
            return self._login_env

    def _kill(self, marker: str, boot_pid: int | None) -> None:
        """End everything with the marker. If even that cannot be done, end the container: nothing may live on."""
        for attempt in range(_KILL_ATTEMPTS):
            with contextlib.suppress(SandboxError):
                # As the image's user: root reaches all; nobody else can have started what belongs to another user.
                if self._engine.exec_quiet(self._id, scripts.kill_command(marker, boot_pid)) == 0:
                    return
            time.sleep(0.2 * attempt)
        if (gone := self._gone()) is not None:
            raise gone
        self._stopped_for_limits = True
        with contextlib.suppress(SandboxError), translated():
            self._engine.api.kill(self._id)
        message = f"container {self._name} was stopped: a timed-out command's processes could not be ended in it"
        raise SandboxError(ErrorCode.CONTAINER_GONE, message, reason="limits")

    def renew(self) -> None:
        try:
            self._engine.exec_quiet(self._id, scripts.renew_command())
        except SandboxError as error:
            raise self._gone() or error from error

    def _renew_quietly(self) -> None:
        with contextlib.suppress(SandboxError):
            self.renew()

    def _exec_create(self, command: Sequence[str], *, stdin: bool, env: Mapping[str, str]) -> str:
        try:
            return self._engine.exec_create(self._id, command, stdin=stdin, env=env)
        except SandboxError as error:
            raise self._gone() or error from error

    def _attach(self, exec_id: str) -> AttachedStream:
        try:
            return self._engine.attach(exec_id)
        except SandboxError as error:
            raise self._gone() or error from error

    def _gone(self) -> SandboxError | None:
        """Why the container no longer runs; None while it does."""
        try:
            with translated():
                state = self._engine.api.inspect_container(self._id)["State"]
        except SandboxError as error:
            if error.code is ErrorCode.CONTAINER_UNKNOWN:
                return SandboxError(
                    ErrorCode.CONTAINER_GONE, f"container {self._name} no longer exists; create another"
                )
            return error
        if state["Running"] and not state.get("Paused"):
            return None
        how = "it was paused" if state.get("Paused") else f"exit code {state['ExitCode']}"
        if state.get("OOMKilled"):
            how = "killed by its memory limit"
        message = f"container {self._name} no longer runs ({how}); create another"
        limits = state.get("OOMKilled") or self._stopped_for_limits
        return SandboxError(ErrorCode.CONTAINER_GONE, message, reason="limits" if limits else "")

    # -- files ---------------------------------------------------------------------------------------------------------

    def read_file(self, path: str, max_bytes: int) -> bytes:
        return self._file(path, scripts.read_file_command(path, max_bytes), b"", max_bytes).output

    def write_file(self, path: str, data: bytes) -> None:
        self._file(path, scripts.write_file_command(path, len(data)), data, 64 * 1024)

    def _file(self, path: str, command: str, stdin: bytes, max_output: int) -> ExecResult:
        if not path.startswith("/"):
            raise SandboxError(ErrorCode.BAD_REQUEST, f"{path!r} is not an absolute path")
        result = self.exec(ExecSpec(command, "/", FILE_TIMEOUT, {}, stdin, max_output, internal=True))
        if result.returncode == 0 and not result.truncated:
            return result
        said = one_line(result.text)
        if "No space left" in said or "quota exceeded" in said:
            raise SandboxError(ErrorCode.DISK_FULL, f"{path}: no space left in the container")
        if result.timed_out or result.returncode not in {0, *scripts.FILE_ERRORS}:
            raise SandboxError(ErrorCode.INTERNAL, f"{path}: failed with exit code {result.returncode}: {said}")
        if result.truncated or result.returncode == scripts.FILE_TOO_LARGE:
            raise SandboxError(ErrorCode.TOO_LARGE, f"{path}: larger than {max_output} bytes")
        detail = f" ({said})" if said else ""
        raise SandboxError(ErrorCode.BAD_REQUEST, f"{path}: {scripts.FILE_ERRORS[result.returncode]}{detail}")

    # -- end -----------------------------------------------------------------------------------------------------------

    def destroy(self) -> None:
        try:
            with translated():
                # force kills at once: nothing in the container is owed a graceful stop.
                self._engine.api.remove_container(self._id, v=True, force=True)
        except SandboxError as error:
            # Gone already, or being removed by someone else at this moment.
            if error.code not in {ErrorCode.CONTAINER_UNKNOWN, ErrorCode.CONFLICT}:
                raise
