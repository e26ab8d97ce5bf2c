"""A deterministic double of a sandbox: a function of the command says what it prints. For load tests and demos.

No container, no process, no disk: every call takes the same, given time and no more of the machine than a timer, so
that many loops can be run in one process and what they cost beside their commands can be measured. The same script and
the same calls give the same results. It keeps the contract of `sandbox.Sandbox`: a closed one is gone.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Self

from swe_exec_server.sandbox import (
    DEFAULT_EVALUATE_TIMEOUT,
    DEFAULT_EXEC_TIMEOUT,
    DEFAULT_MAX_OUTPUT,
    TIMED_OUT_RETURNCODE,
    DiffResult,
    EvaluateResult,
    ExecResult,
    SandboxSpec,
)
from swe_exec_server.wire import ErrorCode, SandboxError

Script = Callable[[str], tuple[int, bytes]]
"""From a command to its exit code and output."""

DEFAULT_LATENCY = 0.05


def echo_script(command: str) -> tuple[int, bytes]:
    """`echo WORDS` prints its words, everything else a line with its own hash; all succeed."""
    if command.startswith("echo "):
        return 0, command[5:].encode() + b"\n"
    return 0, hashlib.sha256(command.encode()).hexdigest().encode() + b"\n"


class ScriptedSandbox:
    """Answers with `script(command)` after `latency` seconds.

    Args:
        patch: what `diff` returns; an evaluation applies any patch and succeeds.
    """

    def __init__(
        self,
        script: Script = echo_script,
        *,
        latency: float = DEFAULT_LATENCY,
        patch: bytes = b"",
        image: str = "scripted",
        id: str = "scripted",  # noqa: A002 - named as in the protocol
    ) -> None:
        self._script, self._latency, self._patch = script, latency, patch
        self._image, self._id = image, id
        self._files: dict[str, bytes] = {}
        self._closed = False

    @property
    def id(self) -> str:
        return self._id

    @property
    def image(self) -> str:
        return self._image

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EXEC_TIMEOUT,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """The script's answer; a latency above `timeout` is a timed-out command."""
        if self._latency > timeout:
            await self._take(timeout)
            return ExecResult(TIMED_OUT_RETURNCODE, b"", 0, timed_out=True, truncated=False, duration=timeout)
        await self._take(self._latency)
        code, output = self._script(command)
        half = max_output // 2
        kept = output if len(output) <= max_output else output[: max_output - half] + output[len(output) - half :]
        return ExecResult(code, kept, len(output), False, kept != output, self._latency)

    async def diff(self, *, cwd: str | None = None, base: str | None = None, untracked: bool = True) -> DiffResult:
        await self._take(self._latency)
        return DiffResult(self._patch, base or "0" * 40)

    async def evaluate(
        self,
        patch: bytes,
        eval_script: str,
        *,
        cwd: str | None = None,
        timeout: float = DEFAULT_EVALUATE_TIMEOUT,
        allow_empty_patch: bool = False,
        max_output: int | None = None,
    ) -> EvaluateResult:
        result = await self.exec(eval_script, timeout=timeout, max_output=max_output or DEFAULT_MAX_OUTPUT)
        return EvaluateResult(
            applied=True,
            applied_by="git" if patch else "none",
            returncode=result.returncode,
            timed_out=result.timed_out,
            output=result.output,
            output_bytes=result.output_bytes,
            truncated=result.truncated,
            duration=result.duration,
        )

    async def read_file(self, path: str) -> bytes:
        await self._take(self._latency)
        if path not in self._files:
            raise SandboxError(ErrorCode.BAD_REQUEST, f"no file {path}")
        return self._files[path]

    async def write_file(self, path: str, data: bytes) -> None:
        await self._take(self._latency)
        self._files[path] = data

    async def close(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _take(self, seconds: float) -> None:
        if self._closed:
            raise SandboxError(ErrorCode.CONTAINER_GONE, "the sandbox was closed")
        await asyncio.sleep(seconds)


class ScriptedProvider:
    """Any number of scripted sandboxes; every image is there."""

    def __init__(self, script: Script = echo_script, *, latency: float = DEFAULT_LATENCY, patch: bytes = b"") -> None:
        self._script, self._latency, self._patch = script, latency, patch
        self._numbers = itertools.count()

    async def create(self, spec: SandboxSpec) -> ScriptedSandbox:
        name = f"scripted-{next(self._numbers)}"
        return ScriptedSandbox(self._script, latency=self._latency, patch=self._patch, image=spec.image, id=name)

    async def has_image(self, image: str) -> bool:
        return True

    async def close(self) -> None:
        return None
