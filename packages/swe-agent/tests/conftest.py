"""A real, small repository and a sandbox that runs the tests' own commands in it as plain processes."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from swe_agent.prompts import Prompts, load_prompts
from swe_exec_server.sandbox import DiffResult, EvaluateResult, ExecResult, Sandbox
from swe_exec_server.wire import ErrorCode, SandboxError

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
NOT_ON_THIS_MACHINE = {"kill -9 1 || true": "true"}
"""Commands of the cases that only a real container may get."""


def run_git(directory: Path, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
    return subprocess.run([*GIT, *arguments], cwd=directory, env=env, check=True, capture_output=True).stdout


class ShellSandbox:
    """A sandbox for commands that are part of these tests. Container paths do not exist: `cwd` is its directory.

    Args:
        lost_after: commands that run; the next one finds the container gone. `reason` as in `SandboxError`.
        diff_delay: seconds that every diff takes.
    """

    def __init__(
        self, directory: Path, lost_after: int | None = None, reason: str = "", diff_delay: float = 0.0
    ) -> None:
        self.id = self.image = "shell"
        self.directory = directory
        self.commands: list[str] = []
        self.diffed = asyncio.Event()
        self.closed = False
        self._lost_after = lost_after
        self._lost = False
        self._reason = reason
        self._diff_delay = diff_delay
        self._base = run_git(directory, "rev-parse", "HEAD").decode().strip()

    def _check(self) -> None:
        if self._lost:
            raise SandboxError(ErrorCode.CONTAINER_GONE, "the container is gone", self._reason)

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float = 180.0,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output: int = 1024 * 1024,
    ) -> ExecResult:
        self._lost = self._lost_after is not None and len(self.commands) >= self._lost_after
        self._check()
        self.commands.append(command)
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", NOT_ON_THIS_MACHINE.get(command, command)),
            cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        reading = asyncio.ensure_future(process.communicate())
        try:
            done, _ = await asyncio.wait({reading}, timeout=timeout)
        finally:
            if not reading.done():
                os.killpg(process.pid, signal.SIGKILL)
        output = (await reading)[0]
        kept = output if len(output) <= max_output else output[: max_output // 2] + output[-(max_output // 2) :]
        return ExecResult(
            returncode=(process.returncode or 0) if done else -1,
            output=kept,
            output_bytes=len(output),
            timed_out=not done,
            truncated=kept != output,
            duration=time.monotonic() - started,
        )

    async def diff(self, *, cwd: str | None = None, base: str | None = None, untracked: bool = True) -> DiffResult:
        self._check()
        await asyncio.sleep(self._diff_delay)
        index = self.directory / ".git" / "test-index"
        env = {**os.environ, "GIT_INDEX_FILE": str(index)}
        run_git(self.directory, "add", "-A", env=env)
        patch = run_git(self.directory, "diff", "--cached", "--binary", base or self._base, env=env)
        index.unlink()
        self.diffed.set()
        return DiffResult(patch, base or self._base)

    async def evaluate(
        self,
        patch: bytes,
        eval_script: str,
        *,
        cwd: str | None = None,
        timeout: float = 3600.0,
        allow_empty_patch: bool = False,
        max_output: int | None = None,
    ) -> EvaluateResult:
        raise SandboxError(ErrorCode.BAD_REQUEST, "an agent grades nothing")

    async def read_file(self, path: str) -> bytes:
        return (self.directory / path).read_bytes()

    async def write_file(self, path: str, data: bytes) -> None:
        (self.directory / path).write_bytes(data)

    async def close(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with hello.py and a note that mentions the marker."""
    directory = tmp_path / "repository"
    directory.mkdir()
    run_git(directory, "init", "-q")
    (directory / "hello.py").write_text("print('hello world')\n")
    (directory / "notes.txt").write_text("Hand in with COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n")
    run_git(directory, "add", "-A")
    run_git(directory, "commit", "-qm", "start")
    return directory


@pytest.fixture
def make_sandbox(repository: Path) -> Callable[..., Sandbox]:
    def make(**options: Any) -> Sandbox:
        return ShellSandbox(repository, **options)

    return make


@pytest.fixture
def sandbox(make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    return make_sandbox()


@pytest.fixture(scope="session")
def prompts() -> Prompts:
    return load_prompts()


def agent_cases() -> list[dict[str, Any]]:
    text = (Path(__file__).parent / "data" / "agent_cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`parse_case` takes the cases with a response, `turns_case` those with turns to play."""
    for name, key in (("parse_case", "text"), ("turns_case", "turns")):
        if name in metafunc.fixturenames:
            cases = [case for case in agent_cases() if key in case]
            metafunc.parametrize(name, cases, ids=[case["id"] for case in cases])
