"""The loop: ask, parse, run, observe, stop. One call is one run, and it always ends in a `Trajectory` with one status.

Promises: a response is run whole or not at all; every step is on disk before the next one starts; whatever goes wrong,
the repository's diff is tried for before the run ends, because the container may be gone right after. The loop owns
neither model nor sandbox and closes neither. Only cancellation is raised, after it was recorded.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from swe_exec_server.common.errors import one_line
from swe_exec_server.sandbox import DEFAULT_CWD, DiffResult, ExecResult, Sandbox
from swe_exec_server.wire import ErrorCode, SandboxError

from swe_agent.actions import FormatError
from swe_agent.limits import LimitReached, LoopSettings, StepBudget
from swe_agent.models import ContextExhausted, Model, ModelLost, ModelResponse, ReplayExhausted
from swe_agent.observation import render_observation
from swe_agent.prompts import MARKER, Prompts
from swe_agent.snapshots import SnapshotTaker
from swe_agent.styles import style_of
from swe_agent.trajectory import AgentStatus, Step, Trajectory

__all__ = ["LoopSettings", "Task", "run_agent", "submitted_text"]


@dataclass(frozen=True)
class Task:
    """What is to be done.

    Attributes:
        issue: the text as it was filed.
        cwd: directory of the repository inside the sandbox.
        base: commit that the diff is taken against; None means HEAD as the image had it.
    """

    instance_id: str
    issue: str
    cwd: str = DEFAULT_CWD
    base: str | None = None


@dataclass(frozen=True)
class _End:
    """How a run ended in good order. `text` is what a submission printed after the marker, None if the node cut it."""

    status: AgentStatus
    detail: str = ""
    text: bytes | None = b""


async def run_agent(
    task: Task,
    model: Model,
    sandbox: Sandbox,
    settings: LoopSettings,
    prompts: Prompts,
    *,
    directory: Path | None = None,
    meta: Mapping[str, Any] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Trajectory:
    """Work on `task` until the model hands in or a limit is reached.

    Args:
        directory: where the record is written, after every step; None keeps it in memory.
        meta: what meta.json tells beside model, settings and prompts; no secrets.
        on_step: called with each finished step.

    Raises:
        asyncio.CancelledError: after the run was recorded as `cancelled`.
    """
    run = _Run(task, model, sandbox, settings, prompts, directory, on_step)
    described = describe(task, model, settings, prompts) | dict(meta or {})
    try:
        await run.save_all(described)
        await run.work()
    except asyncio.CancelledError:
        try:
            await run.end_with_snapshot(AgentStatus.CANCELLED, "")
        finally:  # a second cancellation during the snapshot changes nothing about the record
            run.save_now()
        raise
    except Exception as error:  # noqa: BLE001 - a bug must not lose the patch; it becomes a status
        await run.end_with_snapshot(AgentStatus.AGENT_ERROR, one_line(f"{type(error).__name__}: {error}"))
    try:
        await run.save_all(None)
    except OSError as error:
        run.trajectory.status = AgentStatus.AGENT_ERROR
        run.trajectory.error = f"the record cannot be written: {one_line(error)}"
    return run.trajectory


def describe(task: Task, model: Model, settings: LoopSettings, prompts: Prompts) -> dict[str, Any]:
    """How a run is set up, for meta.json."""
    return {
        "instance_id": task.instance_id,
        "cwd": task.cwd,
        "model": model.name,
        "sampling": dict(getattr(model, "sampling", {})),
        "settings": asdict(settings),
        "prompts": {"name": prompts.name, "sha256": prompts.sha256},
    }


def submitted_text(result: ExecResult) -> bytes | None:
    """What stands after the marker line if `result` hands in, else None.

    It does when the command succeeded and the first line of its output, right-stripped, is the marker.
    """
    if result.returncode != 0 or result.timed_out:
        return None
    first, _, rest = result.output.partition(b"\n")
    return rest if first.rstrip() == MARKER.encode() else None


class _Run:
    """The state of one run. `work` goes forward; the `end` methods give the trajectory its status and patch."""

    def __init__(
        self,
        task: Task,
        model: Model,
        sandbox: Sandbox,
        settings: LoopSettings,
        prompts: Prompts,
        directory: Path | None,
        on_step: Callable[[Step], None] | None,
    ) -> None:
        self._task = task
        self._model = model
        self._sandbox = sandbox
        self._settings = settings
        self._prompts = prompts
        self._directory = directory
        self._style = style_of(settings.action_style)
        self._on_step = on_step
        self._writing = threading.Lock()
        self._started = time.monotonic()
        self._budget = StepBudget(settings, self._started)
        self._snapshots = SnapshotTaker(sandbox, task.cwd, task.base, settings.snapshot_delay)
        self._variables = {
            "cwd": task.cwd,
            "step_limit": settings.step_limit,
            "exec_timeout": settings.exec_timeout,
            "marker": MARKER,
        }
        self.trajectory = Trajectory(
            task.instance_id,
            messages=[
                {"role": "system", "content": prompts.system(**self._variables)},
                {"role": "user", "content": prompts.task(issue=_encodable(task.issue), **self._variables)},
            ],
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    async def work(self) -> None:
        """Turn after turn until something ends the run, then its patch."""
        try:
            await self._end_with_diff(await self._turns())
        except ModelLost as error:
            await self.end_with_snapshot(AgentStatus.MODEL_LOST, one_line(error))
        except SandboxError as error:
            await self._end_lost(error)

    async def _turns(self) -> _End:
        try:
            while True:
                self._budget.check(self.trajectory.steps)
                if (end := await self._turn()) is not None:
                    return end
        except LimitReached as limit:
            return _End(limit.status, limit.detail)
        except ReplayExhausted as error:
            return _End(AgentStatus.STEP_LIMIT, one_line(error))
        except ContextExhausted as error:
            return _End(AgentStatus.CONTEXT_EXHAUSTED, one_line(error))
        finally:
            await self._snapshots.stop()

    async def _turn(self) -> _End | None:
        steps = self.trajectory.steps
        if steps:
            self.trajectory.messages += self._style.answer(steps[-1].tool_calls, steps[-1].observation)
        asked = time.monotonic()
        response = await self._ask()
        self.trajectory.messages.append(self._style.said(response))
        step = Step(
            index=len(steps) + 1,
            response=response.text,
            finish_reason=response.finish_reason,
            reasoning=response.reasoning,
            tool_calls=response.tool_calls,
            model_s=time.monotonic() - asked,
            prompt_tokens=response.prompt_tokens,
            completion_tokens=response.completion_tokens,
        )
        action = self._style.parse(response)
        if isinstance(action, FormatError):
            await self._finish(replace(step, error=action.kind, found=action.found, observation=self._refusal(action)))
            return None
        return await self._run(replace(step, action=action.command), action.command)

    async def _run(self, step: Step, command: str) -> _End | None:
        """Run the command of `step` and finish it."""
        timeout = self._exec_timeout()
        try:
            result = await self._sandbox.exec(
                command, cwd=self._task.cwd, timeout=timeout, max_output=self._settings.max_output_bytes
            )
        except BaseException:
            # The command may have run: its step is part of the record, without a result.
            self.trajectory.steps.append(step)
            raise
        step = replace(
            step,
            returncode=result.returncode,
            output=result.text,
            output_bytes=result.output_bytes,
            timed_out=result.timed_out,
            truncated=result.truncated,
            exec_s=result.duration,
        )
        text = submitted_text(result)
        if text is not None:
            await self._finish(step)
            return _End(AgentStatus.SUBMITTED, text=None if result.truncated else text)
        shown = render_observation(result, self._prompts, timeout=timeout, max_chars=self._settings.max_output_chars)
        await self._finish(replace(step, observation=self._with_turns_left(shown)))
        return None

    async def _ask(self) -> ModelResponse:
        """The model's response within what is left of the run's time. Snapshots go on meanwhile."""
        steps = self.trajectory.steps
        self._snapshots.begin(changed=bool(steps) and steps[-1].action is not None)
        try:
            async with asyncio.timeout(self._budget.seconds_left()) as limit:
                response = await self._model.respond(tuple(self.trajectory.messages))
        except TimeoutError:
            if limit.expired():
                raise LimitReached(AgentStatus.TIME_LIMIT, "the time was over while the model was thinking") from None
            raise
        finally:
            self._snapshots.end()
        return replace(
            response, text=_encodable(response.text), reasoning=response.reasoning and _encodable(response.reasoning)
        )

    def _exec_timeout(self) -> float:
        left = self._budget.seconds_left()
        return self._settings.exec_timeout if left is None else min(self._settings.exec_timeout, max(left, 0.1))

    def _refusal(self, error: FormatError) -> str:
        template = self._prompts.truncated if error.kind == "truncated" else self._prompts.format_error
        return self._with_turns_left(template(found=error.found, fault=error.fault, **self._variables))

    def _with_turns_left(self, text: str) -> str:
        """The message with the number of turns that remain; a message that is never sent carries none."""
        left = self._settings.step_limit - len(self.trajectory.steps) - 1
        return text if left <= 0 else f"{text}\n\n{self._prompts.turns_left(turns_left=left, **self._variables)}"

    async def _finish(self, step: Step) -> None:
        self.trajectory.steps.append(step)
        self._tick()
        if self._directory is not None:
            await asyncio.to_thread(self._write, self._directory, self.trajectory.save_steps)
        if self._on_step is not None:
            self._on_step(step)

    def _tick(self) -> None:
        self.trajectory.elapsed = time.monotonic() - self._started

    async def save_all(self, meta: Mapping[str, Any] | None) -> None:
        self._tick()
        if self._directory is not None:
            await asyncio.to_thread(self._write, self._directory, partial(self.trajectory.save, meta=meta))

    def save_now(self) -> None:
        """Save without giving control away; what cannot be written now is given up."""
        self._tick()
        if self._directory is not None:
            with suppress(OSError):
                self._write(self._directory, self.trajectory.save)

    def _write(self, directory: Path, save: Callable[[Path], None]) -> None:
        # One writer at a time, each with the state of its own moment: a cancelled save may still run in its thread, and
        # must not put an older record over a newer one.
        with self._writing:
            save(directory)

    async def _end_with_diff(self, end: _End) -> None:
        """End in good order: the diff is the patch; where it is blank, what the submission printed."""
        result = await self._sandbox.diff(cwd=self._task.cwd, base=self._task.base)
        trajectory = self.trajectory
        trajectory.status, trajectory.error, trajectory.base_commit = end.status, end.detail, result.base
        if result.patch.strip():
            trajectory.patch, trajectory.patch_source = result.patch, "diff"
        elif end.text is None:
            limit = self._settings.max_output_bytes
            trajectory.error = f"nothing differs, and the text handed in is longer than {limit} bytes"
        elif end.text.strip():
            trajectory.patch, trajectory.patch_source = end.text, "submission"

    async def end_with_snapshot(self, status: AgentStatus, detail: str) -> None:
        """End in disorder: the diff is tried for, for a bounded time; the last one taken before stands in for it."""
        self.trajectory.status, self.trajectory.error = status, detail
        self._take_over(await self._snapshots.final(self._settings.snapshot_timeout))

    async def _end_lost(self, error: SandboxError) -> None:
        killed_by_limits = error.code == ErrorCode.CONTAINER_GONE and error.reason == "limits"
        if error.code in (ErrorCode.CONTAINER_GONE, ErrorCode.CONTAINER_UNKNOWN):
            status = AgentStatus.SANDBOX_LIMIT if killed_by_limits else AgentStatus.SANDBOX_LOST
            self.trajectory.status, self.trajectory.error = status, one_line(error)
            self._take_over(self._snapshots.last)
        else:
            await self.end_with_snapshot(AgentStatus.SANDBOX_LOST, one_line(error))

    def _take_over(self, snapshot: DiffResult | None) -> None:
        if snapshot is None:
            return
        self.trajectory.base_commit = snapshot.base
        if snapshot.patch.strip():
            self.trajectory.patch, self.trajectory.patch_source = snapshot.patch, "snapshot"


def _encodable(text: str) -> str:
    """`text` without lone surrogates, which JSON can carry and neither UTF-8 files nor shells can take."""
    return text.encode("utf-8", "replace").decode("utf-8")
