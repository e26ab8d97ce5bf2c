"""One attempt: lease -> agent loop -> fresh lease -> grade. Evaluation and training both call this.

Whatever happens, an attempt ends in exactly one class and leaves no container. Only cancellation escapes, after the
containers are given back. The agent's container is never the grading container.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models import Model
from swe_agent.prompts import Prompts
from swe_agent.trajectory import AgentStatus, Step, Trajectory, TrajectoryError, load_trajectory
from swe_exec_server.common.errors import one_line
from swe_exec_server.common.files import write_atomic, write_json
from swe_exec_server.sandbox import Sandbox, SandboxProvider, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

from swe_eval.evaluation import evaluate_patch
from swe_eval.instances import Instance
from swe_eval.results import AttemptResult, now
from swe_eval.verdicts import Flag, Verdict, VerdictClass

T = TypeVar("T")
REPORT_FILE, LOG_FILE = "report.json", "test_output.txt"
FINAL_ERRORS = frozenset({ErrorCode.BAD_REQUEST, ErrorCode.UNAUTHORIZED, ErrorCode.IMAGE_UNKNOWN, ErrorCode.TOO_LARGE})
"""Sandbox errors that no second try can change."""


class Watcher(Protocol):
    """Who is told how an attempt goes. `phase` is `queue`, `agent` or `tests`."""

    def phase(self, instance_id: str, phase: str) -> None: ...

    def step(self, instance_id: str, step: Step) -> None: ...


class NoWatcher:
    """Nobody."""

    def phase(self, instance_id: str, phase: str) -> None:
        pass

    def step(self, instance_id: str, step: Step) -> None:
        pass


@dataclass(frozen=True)
class AttemptOptions:
    """What attempts of one run have in common.

    Attributes:
        spec: template of every lease; image, cwd and owner come from the instance.
        eval_timeout: seconds for the tests, where the instance sets no limit.
        infra_retries: how often a step lost to infrastructure is tried again.
    """

    loop: LoopSettings
    prompts: Prompts
    spec: SandboxSpec
    eval_timeout: float = 3600.0
    infra_retries: int = 2
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """One instance to be worked on once: its image, its model, its directory below the run's."""

    instance: Instance
    image: str
    model: Model
    directory: Path
    index: int = 0


async def run_attempt(
    attempt: Attempt, provider: SandboxProvider, options: AttemptOptions, watcher: Watcher | None = None
) -> AttemptResult:
    """Work on the instance, grade what came out, write the attempt's directory, return its row.

    An attempt whose agent had finished before a kill is only graded. Raises nothing but CancelledError.
    """
    started = time.monotonic()
    watcher = watcher or NoWatcher()
    trajectory: Trajectory | None = None
    try:
        trajectory = _finished(attempt.directory) or await _work(attempt, provider, options, watcher)
        verdict = _without_tests(trajectory)
        if verdict is None:
            watcher.phase(attempt.instance.instance_id, "tests")
            verdict, log = await _grade(attempt, trajectory.patch, provider, options)
            write_atomic(attempt.directory / LOG_FILE, log)
    except SandboxError as error:
        verdict = Verdict.without_tests(VerdictClass.INFRA_ERROR, error=one_line(error))
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end the other attempts
        verdict = Verdict.without_tests(VerdictClass.AGENT_ERROR, error=one_line(f"{type(error).__name__}: {error}"))
    try:
        write_json(attempt.directory / REPORT_FILE, verdict.to_json())
    except OSError as error:
        verdict = Verdict.without_tests(VerdictClass.AGENT_ERROR, error=one_line(f"{REPORT_FILE}: {error}"))
    return _row(attempt, trajectory, verdict, time.monotonic() - started)


def lease_spec(instance: Instance, image: str, template: SandboxSpec) -> SandboxSpec:
    """The lease of an instance's container."""
    return replace(template, image=image, cwd=instance.cwd, owner=instance.instance_id)


def _finished(directory: Path) -> Trajectory | None:
    try:
        trajectory = load_trajectory(directory)
    except TrajectoryError:
        return None
    return None if trajectory.status.is_infrastructure else trajectory


async def _work(attempt: Attempt, provider: SandboxProvider, options: AttemptOptions, watcher: Watcher) -> Trajectory:
    instance = attempt.instance
    spec = lease_spec(instance, attempt.image, options.spec)

    async def once() -> Trajectory:
        watcher.phase(instance.instance_id, "queue")
        async with await provider.create(spec) as sandbox:
            watcher.phase(instance.instance_id, "agent")
            trajectory = await run_agent(
                Task(instance_id=instance.instance_id, issue=instance.problem_statement, cwd=instance.cwd),
                attempt.model,
                sandbox,
                options.loop,
                options.prompts,
                directory=attempt.directory,
                meta={**options.meta, "image": attempt.image},
                on_step=lambda step: watcher.step(instance.instance_id, step),
            )
        if trajectory.status is AgentStatus.SANDBOX_LOST:
            raise _LostWorkError(trajectory)
        return trajectory

    try:
        return await _retrying(once, options.infra_retries)
    except _LostWorkError as lost:
        return lost.trajectory


class _LostWorkError(SandboxError):
    """The agent's container was lost; carries what had been recorded until then."""

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__(ErrorCode.CONTAINER_GONE, trajectory.error)
        self.trajectory = trajectory


async def _grade(
    attempt: Attempt, patch: bytes, provider: SandboxProvider, options: AttemptOptions
) -> tuple[Verdict, bytes]:
    instance = attempt.instance

    async def fresh_sandbox() -> Sandbox:
        return await provider.create(lease_spec(instance, attempt.image, options.spec))

    async def once() -> tuple[Verdict, bytes]:
        return await evaluate_patch(
            fresh_sandbox, instance, patch, timeout=instance.test_timeout or options.eval_timeout
        )

    tries = options.infra_retries + 1
    ended: list[SandboxError] = []

    async def counted() -> tuple[Verdict, bytes]:
        try:
            return await once()
        except SandboxError as error:
            if error.code is ErrorCode.CONTAINER_GONE:
                ended.append(error)
            raise

    try:
        return await _retrying(counted, options.infra_retries)
    except SandboxError as error:
        if tries < 2 or len(ended) < tries:
            raise
        # One such end may be the node's. Every time, with the same patch, it is the patch: else killing would pay.
        flags = (Flag.CONTAINER_ENDED.value,)
        return Verdict.without_tests(VerdictClass.UNRESOLVED, error=one_line(error), flags=flags), b""


async def _retrying(work: Callable[[], Awaitable[T]], retries: int) -> T:
    """Run `work`, again after an infrastructure failure that another try may not meet."""
    for left in range(retries, -1, -1):
        try:
            return await work()
        except SandboxError as error:
            if left == 0 or error.code in FINAL_ERRORS:
                raise
            await asyncio.sleep(min(10.0, 0.5 * 2 ** (retries - left)))
    raise AssertionError("unreachable")


def _without_tests(trajectory: Trajectory) -> Verdict | None:
    """The verdict of a run that says nothing about its model; None when its patch is to be graded."""
    classes = {
        AgentStatus.SANDBOX_LOST: VerdictClass.INFRA_ERROR,
        AgentStatus.MODEL_LOST: VerdictClass.INFRA_ERROR,
        AgentStatus.AGENT_ERROR: VerdictClass.AGENT_ERROR,
        AgentStatus.CANCELLED: VerdictClass.NOT_RUN,
    }
    found = classes.get(trajectory.status)
    return Verdict.without_tests(found, error=trajectory.error) if found else None


def _row(attempt: Attempt, trajectory: Trajectory | None, verdict: Verdict, elapsed: float) -> AttemptResult:
    return AttemptResult(
        instance_id=attempt.instance.instance_id,
        attempt=attempt.index,
        class_=verdict.class_,
        resolved=verdict.resolved,
        resolved_strict=verdict.resolved_strict,
        flags=verdict.flags,
        exit_status=trajectory.status.value if trajectory else "",
        patch_source=trajectory.patch_source if trajectory else "none",
        n_steps=len(trajectory.steps) if trajectory else 0,
        prompt_tokens=trajectory.prompt_tokens if trajectory else None,
        completion_tokens=trajectory.completion_tokens if trajectory else None,
        f2p=verdict.f2p,
        p2p=verdict.p2p,
        image=attempt.image,
        error=verdict.error or (trajectory.error if trajectory else ""),
        elapsed=round(elapsed, 3),
        finished_at=now(),
        run_dir=attempt.directory.name,
    )
