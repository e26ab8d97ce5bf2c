"""The process inside a local sandbox that starts its commands. Runs as a script; standard library only.

One supervisor lives as long as its sandbox. It forks a *guardian* per command, and the guardian forks the command.
Guardians are child subreapers (Linux), so whatever a command starts stays below its guardian, however often it
forks or calls setsid: on a timeout everything below is killed before the answer is given, and after a normal
end the guardian stays as long as something started on purpose lives, and reaps it.

The supervisor ends, with all below it, when its server's end of the socket closes: a killed server leaves nothing.

Protocol: a message of one byte on a stream socket carries five file descriptors: the request (JSON), what the command
reads, both ends of the pipe it writes to, and a pipe for the answer, one JSON line `{"returncode", "timed_out"}`.
"""

import array
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

FD_COUNT = 5
MISSING_CWD = 126
CANNOT_START = 127
TIMED_OUT = -1
KILL_PATIENCE = 10.0
"""Seconds to wait for killed processes to go; only one stuck in the kernel takes as long."""

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_DUMPABLE = 4


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere ancestry and sessions have to do."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def parents() -> dict[int, int]:
    """Parent of every live process, zombies left out."""
    found: dict[int, int] = {}
    if sys.platform != "linux":
        with os.popen("ps -axo pid=,ppid=,stat=") as listing:
            rows = [line.split() for line in listing]
        return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
    for name in os.listdir("/proc"):  # noqa: PTH208 - the fast way, hundreds on every timeout
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the fast way
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    found[int(name)] = int(parent)
    return found


def below(root: int) -> set[int]:
    """All live descendants of `root`, without itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found


def kill_below(root: int, spare: frozenset[int] = frozenset()) -> None:
    """Stop everything below `root` first, so that nothing forks away, then kill it and wait until it is gone."""
    stopped: set[int] = set()
    while new := below(root) - stopped - spare:
        for pid in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= new
    deadline = time.monotonic() + KILL_PATIENCE
    while time.monotonic() < deadline:
        left = (below(root) | (stopped & parents().keys())) - spare
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if root == os.getpid():
            reap(-1)
        time.sleep(0.002)


def reap(main: int) -> tuple[int | None, bool]:
    """Reap what has ended: exit code of `main` when it is among it, and whether any child is left."""
    code: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == main:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def start(request: dict[str, Any], stdin: int, output: int) -> None:
    """Become the command; never returns."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.dup2(stdin, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        try:
            os.chdir(request["cwd"])
        except OSError as error:
            os.write(2, f"cannot enter {request['shown_cwd']}: {os.strerror(error.errno or 0)}\n".encode())
            os._exit(MISSING_CWD)
        program: str = request["program"]
        limit(request["rlimits"])
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        try:
            os.execve(program, request["argv"], request["env"])
        except OSError as error:
            os.write(2, f"cannot start {program}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_START)


def limit(rlimits: dict[str, int]) -> None:
    """Set soft and hard limits, by name, as far as the present hard limits allow."""
    import resource

    for name, wanted in rlimits.items():
        number = getattr(resource, name, None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, (value, value))


def guard(request: dict[str, Any], stdin: int, output: int, drain: int, answer: int) -> None:
    """Run one command to its end or its timeout, answer, stay while anything it left lives; never returns.

    `drain` is the read end of the output pipe: once the server has turned away, what a left process still writes is
    read and dropped, so that it neither blocks nor dies of its output.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    timeout = float(request["timeout"])
    deadline = time.monotonic() + timeout
    main = os.fork()
    if main == 0:
        start(request, stdin, output)
    os.close(output)
    os.close(stdin)
    code: int | None = None
    left = True
    while code is None:
        wait = deadline - time.monotonic()
        if wait <= 0:
            kill_below(os.getpid())
            reap(main)
            break
        with contextlib.suppress(InterruptedError):
            select.select([woken], [], [], wait)
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        code, left = reap(main)
    result = {"returncode": TIMED_OUT if code is None else code, "timed_out": code is None}
    with contextlib.suppress(BrokenPipeError):
        os.write(answer, json.dumps(result).encode() + b"\n")
    if code is not None and left:
        _stay(woken, drain, answer)
    os._exit(0)


def _stay(woken: int, drain: int, answer: int) -> None:
    """Until no child is left. The server closes its end of `answer` when it has read all the output it wants."""
    poller = select.poll()
    poller.register(woken, select.POLLIN)
    poller.register(answer, 0)
    while True:
        for number, event in poller.poll():
            if number == answer:
                poller.unregister(answer)
                poller.register(drain, select.POLLIN)
            elif number == drain:
                if not event & select.POLLIN or not os.read(drain, 1 << 20):
                    poller.unregister(drain)
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
        if not reap(-1)[1]:
            return


def receive(channel: socket.socket) -> list[int] | None:
    """The descriptors of the next request; None when the server is gone."""
    size = FD_COUNT * array.array("i").itemsize
    data, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_LEN(size))
    if not data:
        return None
    numbers = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
    for number in numbers:
        os.set_inheritable(number, False)
    return list(numbers)


def serve(channel: socket.socket) -> None:
    """Start a guardian for each request until the server goes, then end everything."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    woken, wake = os.pipe()
    for number in (woken, wake):
        os.set_blocking(number, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    guardians: set[int] = set()
    while True:
        readable, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            _bury(guardians)
        if channel.fileno() in readable:
            numbers = receive(channel)
            if numbers is None:
                kill_below(os.getpid())
                return
            guardian = os.fork()
            if guardian == 0:
                channel.close()
                os.close(woken)
                os.close(wake)
                _guard_request(numbers)
            guardians.add(guardian)
            for number in numbers:
                os.close(number)


def _guard_request(numbers: list[int]) -> None:
    try:
        request_file, stdin, output, drain, answer = numbers
        with os.fdopen(request_file, "rb") as file:
            file.seek(0)
            request = json.load(file)
        guard(request, stdin, output, drain, answer)
    finally:
        os._exit(1)


def _bury(guardians: set[int]) -> None:
    """Reap guardians. One that was killed leaves its command to us: that ends with it."""
    killed = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        killed = killed or (pid in guardians and status != 0)
        guardians.discard(pid)
    if killed:
        tree = frozenset(guardians).union(*(below(guardian) for guardian in guardians))
        kill_below(os.getpid(), spare=tree)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
