"""The boots that one container keeps alive, each on an attached stream: *runners*.

Promises: a runner serves one command at a time, and a command that finds none free gets a new one, so none waits for
another. A runner whose stream is not as clean as new is never given out again.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from swe_exec_server.docker_engine import AttachedStream
from swe_exec_server.shell import Profile, Request, new_nonce, settle_line
from swe_exec_server.shell_reply import Hello, Reply

KEEP_IDLE = 2
"""Idle runners that stay whatever happens; a runner is two processes, about 1 MiB."""
IDLE_SECONDS = 30.0
"""How long the others stay."""
_SETTLE_PAUSES = (0.001, 0.004, 0.015)  # enough for what a command started last and did not wait for
_SETTLE_SECONDS = 1.0


class Runner:
    """A boot that has said hello.

    Attributes:
        exec_id: the engine's name for it.
        pids: below these processes lies all that it starts.
    """

    def __init__(self, stream: AttachedStream, exec_id: str, pids: tuple[int, ...]) -> None:
        self.stream = stream
        self.exec_id = exec_id
        self.pids = pids
        self.idle_since = 0.0
        self._profile: Profile | None = None

    def ask(self, request: Request, max_output: int) -> Reply:
        """Queue a request; `stream.receive` of the reply sends it."""
        line, late = request.encode()
        if request.profile is not None and request.profile is not self._profile:
            self._profile = request.profile
            self.stream.send([self._profile.encode()])
        self.stream.send([line])
        return Reply(request.nonce, max_output, late)

    def settled(self) -> bool:
        """Whether what its last command left running has ended by now; looks for about 20 ms."""
        for pause in _SETTLE_PAUSES:
            self.stream.receive(Hello(), time.monotonic() + pause)
            nonce = new_nonce()
            reply = Reply(nonce, 0)
            self.stream.send([settle_line(nonce)])
            self.stream.receive(reply, time.monotonic() + _SETTLE_SECONDS)
            if reply.state != "left":
                return reply.state == "clean"
        return False

    def alive(self) -> bool:
        """Whether its stream is still open, as far as the engine has told."""
        self.stream.receive(Hello(), time.monotonic())
        return not self.stream.ended

    def close(self) -> None:
        """Let go of it: it ends by itself, and what its commands left running goes on."""
        self.stream.close()


class RunnerPool:
    """The runners of one container. Thread-safe.

    Args:
        start: makes a runner, or raises.
    """

    def __init__(self, start: Callable[[], Runner]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._idle: list[Runner] = []
        self._spare: Future[Runner] | None = None
        self._closed = False

    def take(self) -> Runner:
        """A runner for the caller alone: the one used last, else one that is being started, else a new one."""
        while True:
            with self._lock:
                spare = None
                runner = self._idle.pop() if self._idle else None
                if runner is None:
                    spare, self._spare = self._spare, None
            if runner is None:
                return self._start() if spare is None else spare.result()
            if runner.alive():
                return runner
            runner.close()

    def give(self, runner: Runner) -> None:
        """Take back a runner that is as clean as new."""
        runner.idle_since = time.monotonic()
        with self._lock:
            closed = self._closed
            if not closed:
                self._idle.append(runner)
        if closed:
            runner.close()
        else:
            self.trim()

    def drop(self, runner: Runner) -> None:
        """Let go of a runner that cannot serve again, and start another beside the caller if that was the last."""
        runner.close()
        if (spare := self._promise()) is not None:
            threading.Thread(target=self._make, args=[spare, self._start], daemon=True).start()

    def settle(self, runner: Runner) -> None:
        """Take back, beside the caller, a runner whose command left something running, or drop it."""

        def make() -> Runner:
            if runner.settled():
                return runner
            runner.close()
            return self._start()

        if (spare := self._promise()) is not None:
            threading.Thread(target=self._make, args=[spare, make], daemon=True).start()
        else:
            runner.close()

    def _promise(self) -> "Future[Runner] | None":
        """A runner to come; None when one is there or promised already."""
        with self._lock:
            if self._idle or self._spare is not None or self._closed:
                return None
            self._spare = Future()
            return self._spare

    def trim(self) -> None:
        """End those that were idle for long; the oldest stand first."""
        until = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [runner for runner in self._idle[: max(0, len(self._idle) - KEEP_IDLE)] if runner.idle_since < until]
            self._idle = self._idle[len(old) :]
        for runner in old:
            runner.close()

    def close(self) -> None:
        """Let go of all idle ones, and from now on of each that is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for runner in idle:
            runner.close()

    def _make(self, spare: "Future[Runner]", make: Callable[[], Runner]) -> None:
        try:
            runner = make()
        except BaseException as error:  # noqa: BLE001 - it belongs to who asks for a runner next
            with self._lock:
                if self._spare is spare:
                    self._spare = None
            spare.set_exception(error)
            return
        with self._lock:
            mine = self._spare is spare
            if mine:
                self._spare = None
        if mine:
            self.give(runner)
        else:
            spare.set_result(runner)
