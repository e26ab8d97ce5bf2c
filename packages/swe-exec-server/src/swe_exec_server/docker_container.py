"""One container of a Docker engine: commands, files, its end.

Promises: what a timed-out command started is gone before its result is returned; a container that died is an error
with its reason, never a command's output; no command is run twice.
"""

import contextlib
import json
import re
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
from swe_exec_server.shell_pool import Runner, RunnerPool
from swe_exec_server.shell_reply import Hello, Reply
from swe_exec_server.wire import ErrorCode, SandboxError

TTL_LABEL = "swe-exec.ttl"
ENV_LABEL = "swe-exec.env"
"""The lease's variables as JSON. Not the container's own: they must not reach what the server itself runs in it."""

FILE_TIMEOUT = 300.0
_START_SECONDS = 60.0
_DRAIN_SECONDS = 5.0
_POLL_SECONDS = 0.05
_KILL_ATTEMPTS = 3
_BEGIN_ATTEMPTS = 5
_DYING_SECONDS = 0.3  # a container whose processes were all killed still reads as running for a moment
# What a shell or the engine says when the container has used up its processes or memory.
# "read init-p": the engine's own starter died because it could not make its threads.
_EXHAUSTED = re.compile(
    r"resource temporarily unavailable|cannot fork|cannot allocate memory|read init-p", re.IGNORECASE
)


class _NoProcessLeft(Exception):
    """No shell could be started, by the doing of the container's own commands: their result."""

    def __init__(self, result: ExecResult) -> None:
        super().__init__()
        self.result = result


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
        self._variables: shell.Profile | None = None
        self._runners = RunnerPool(self._start_runner)
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
            request = shell.Request(spec.command, spec.cwd, environment, spec.stdin)
        else:
            request = shell.Request(spec.command, spec.cwd, spec.env, spec.stdin, self._profile())
        return self._run(request, spec.timeout, spec.max_output)

    def _run(self, request: shell.Request, timeout: float, max_output: int) -> ExecResult:
        for _ in range(_BEGIN_ATTEMPTS):
            try:
                runner = self._runners.take()
            except _NoProcessLeft as error:
                return error.result
            try:
                result = self._run_on(runner, request, timeout, max_output)
            except BaseException:
                self._runners.drop(runner)
                raise
            if result is not None:
                return result
        raise SandboxError(ErrorCode.INTERNAL, f"container {self._name}: its shells end before they run a command")

    def _run_on(self, runner: Runner, request: shell.Request, timeout: float, max_output: int) -> ExecResult | None:
        """None when the runner had died before, so that the command never began."""
        stream = runner.stream
        reply = runner.ask(request, max_output)
        started = time.monotonic()
        self._converse(stream, reply, started + timeout)
        timed_out = not (reply.done or stream.ended)
        if timed_out:
            self._end_timed_out(runner, reply, request.marker)
        duration = time.monotonic() - started
        if not (reply.begun or timed_out) and self._died_before(runner, reply):
            self._runners.drop(runner)
            return None
        returncode = TIMED_OUT_RETURNCODE if timed_out else self._returncode(runner.exec_id, reply)
        output = reply.output
        result = ExecResult(returncode, output.result(), output.total, timed_out, output.truncated, duration)
        if timed_out or request.spoils:
            self._runners.drop(runner)
        elif reply.state == "clean":
            self._runners.give(runner)
        elif reply.state == "left":
            self._runners.settle(runner)
        else:
            self._runners.drop(runner)
        return result

    def _end_timed_out(self, runner: Runner, reply: Reply, marker: str) -> None:
        with ThreadPoolExecutor(1) as helper:
            killed = helper.submit(self._kill, marker, runner.pids)
            # Read on meanwhile: an engine that cannot hand over a dead command's output finishes no other.
            while not (killed.done() or reply.done or runner.stream.ended):
                runner.stream.receive(reply, time.monotonic() + _POLL_SECONDS)
            killed.result()
        runner.stream.receive(reply, time.monotonic() + _DRAIN_SECONDS)
        reply.close()

    def _start_runner(self) -> Runner:
        """A new boot, ready; its start is no command's time."""
        nonce, marker = shell.new_nonce(), shell.new_nonce()
        hello = Hello(nonce)
        environment = {shell.MARKER_VARIABLE: marker, **shell.BOOT_ENVIRONMENT}
        exec_id = self._exec_create(scripts.boot_command(), stdin=True, env=environment)
        stream = self._attach(exec_id)
        try:
            stream.send([shell.boot_text(nonce)])
            stream.receive(hello, time.monotonic() + _START_SECONDS)
            if hello.pids is not None:
                return Runner(stream, exec_id, hello.pids)
            if stream.ended:
                raise self._no_shell(exec_id, hello.said)
            self._kill(marker, ())
            message = f"the Docker engine did not start a command within {_START_SECONDS:g} s"
            raise SandboxError(ErrorCode.ENGINE_DOWN, message)
        except BaseException:
            stream.close()
            raise

    def _died_before(self, runner: Runner, reply: Reply) -> bool:
        """Whether the engine knows that a boot has ended; it has handed on all output then."""
        if reply.failure or self._gone() is not None:
            return False
        self._engine.exit_code(runner.exec_id)
        return True

    def _converse(self, stream: AttachedStream, reply: Reply, deadline: float) -> None:
        """Until the reply is there or the deadline has passed; a long command keeps its container's lease alive."""
        every = float(self._labels.get(TTL_LABEL, "60")) / 3
        while not (reply.done or stream.ended) and time.monotonic() < deadline:
            stream.receive(reply, min(deadline, time.monotonic() + every))
            if not (reply.done or stream.ended):
                # Beside this thread: the engine may wait for us to read.
                threading.Thread(target=self._renew_quietly, daemon=True).start()

    def _returncode(self, exec_id: str, reply: Reply) -> int:
        """The command's; where the boot died before it could tell, the boot's own."""
        if reply.failure:
            raise SandboxError(ErrorCode.INTERNAL, f"container {self._name}: {reply.failure}")
        if reply.returncode is not None:
            return reply.returncode
        code = self._code_of_dead(exec_id)
        said = one_line(reply.noise + reply.output.result().decode("utf-8", "replace"))
        if _EXHAUSTED.search(said) and code < 128:
            # No process left for a shell: the commands' own doing, and so their result.
            reply.output.feed(f"{reply.noise}cannot fork: the container's process limit is reached\n".encode())
            return scripts.CANNOT_START
        return code

    def _no_shell(self, exec_id: str, said: str) -> Exception:
        """Why a boot ended before it was ready."""
        if _EXHAUSTED.search(said):
            if (gone := self._gone()) is not None:
                return gone
            output = f"{said}\ncannot fork: the container's process limit is reached\n".encode()
            return _NoProcessLeft(ExecResult(scripts.CANNOT_START, output, len(output), False, False, 0.0))
        with contextlib.suppress(SandboxError):
            said = f"{said} (exit code {self._engine.exit_code(exec_id)})"
        time.sleep(_DYING_SECONDS)
        message = f"container {self._name}: no shell could be started: {one_line(said)}"
        return self._gone() or SandboxError(ErrorCode.INTERNAL, message)

    def _code_of_dead(self, exec_id: str) -> int:
        """A dead boot's exit code; raises when its container went with it."""
        code = None if self._gone() else self._engine.exit_code(exec_id)
        time.sleep(_DYING_SECONDS)
        gone = self._gone()
        if gone is not None or code is None:
            raise gone or SandboxError(ErrorCode.INTERNAL, f"container {self._name}: a command's end got lost")
        return code

    def _profile(self) -> shell.Profile:
        """Variables of all commands: with those that a login shell leaves, captured once; none of them when there is
        no bash or its profile fails."""
        with self._lock:
            if self._variables is None:
                environment = {**shell.DEFAULT_ENVIRONMENT, **self._lease_env}
                login = self._login(environment) if self._user_shell == "login" else {}
                self._variables = shell.Profile({**shell.DEFAULT_ENVIRONMENT, **login, **self._lease_env})
            return self._variables

    def _login(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        request = shell.Request(scripts.CAPTURE_LOGIN, "/", environment)
        result = self._run(request, scripts.CAPTURE_LOGIN_TIMEOUT, 4 * 1024 * 1024)
        usable = not result.timed_out and not result.truncated
        return shell.parse_environment(result.output) if usable else {}

    def _kill(self, marker: str, pids: Sequence[int]) -> None:
        """End everything with the marker and below `pids`. If that fails, end the container: nothing may live on."""
        for attempt in range(_KILL_ATTEMPTS):
            with contextlib.suppress(SandboxError):
                # As the image's user: root reaches all; nobody else can have started what belongs to another user.
                if self._engine.exec_quiet(self._id, scripts.kill_command(marker, pids)) == 0:
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
        self._runners.trim()
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
        self._runners.close()
        try:
            with translated():
                # force kills at once: nothing in the container is owed a graceful stop.
                self._engine.api.remove_container(self._id, v=True, force=True)
        except SandboxError as error:
            # Gone already, or being removed by someone else at this moment.
            if error.code not in {ErrorCode.CONTAINER_UNKNOWN, ErrorCode.CONFLICT}:
                raise
