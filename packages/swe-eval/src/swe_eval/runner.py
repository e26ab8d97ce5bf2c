"""Many attempts at once, each recorded the moment it ends, none run twice.

The invariant: every planned attempt leaves exactly one row. What ended before a kill is read back and left alone; what
could not be judged (infrastructure, a fault of ours, not run) is done again by a later start of the same command.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from swe_agent.models import Model
from swe_exec_server.common.files import JsonlWriter
from swe_exec_server.sandbox import SandboxProvider

from swe_eval.attempt import Attempt, AttemptOptions, Watcher, run_attempt
from swe_eval.instances import Instance
from swe_eval.results import NOT_JUDGED, RESULTS, AttemptResult, RecordError, now, read_results
from swe_eval.verdicts import VerdictClass

ModelOf = Callable[[str], Model]


class Plan:
    """What is to be run: `(instance, image)`, and instances that cannot run with the reason why."""

    def __init__(self, runnable: Sequence[tuple[Instance, str]], blocked: Sequence[tuple[Instance, str]] = ()) -> None:
        self.runnable = tuple(runnable)
        self.blocked = tuple(blocked)

    @property
    def order(self) -> list[str]:
        """All instance ids, blocked ones last."""
        return [instance.instance_id for instance, _ in (*self.runnable, *self.blocked)]


def attempt_directory(run: Path, instance_id: str, index: int) -> Path:
    """`<run>/<instance_id>__<attempt>`."""
    return run / f"{instance_id}__{index}"


async def run_plan(
    plan: Plan,
    provider: SandboxProvider,
    model_of: ModelOf,
    options: AttemptOptions,
    directory: Path,
    *,
    max_concurrent: int,
    watcher: Watcher | None = None,
    on_result: Callable[[AttemptResult], None] = lambda _: None,
) -> list[AttemptResult]:
    """Run what is still to do; the rows of all planned attempts, in the plan's order.

    Cancellation (Ctrl-C) gives every container back before it goes on; rows written so far stay. Raises `RecordError`,
    after the same, when a row cannot be written.
    """
    done = {row.instance_id: row for row in read_results(directory) if row.class_ not in NOT_JUDGED}
    places = asyncio.Semaphore(max_concurrent)
    failures: list[BaseException] = []
    with _results(directory) as writer:

        def record(row: AttemptResult) -> None:
            try:
                writer.append(row.to_row())
            except OSError as error:
                raise RecordError(error.strerror) from error
            done[row.instance_id] = row
            on_result(row)

        async def one(instance: Instance, image: str) -> None:
            async with places:
                where = attempt_directory(directory, instance.instance_id, 0)
                attempt = Attempt(instance, image, model_of(instance.instance_id), where)
                record(await run_attempt(attempt, provider, options, watcher))

        for instance, reason in plan.blocked:
            record(AttemptResult(instance_id=instance.instance_id, class_=VerdictClass.NOT_RUN, resolved=False,
                                 error=reason, finished_at=now()))  # fmt: skip
        try:
            async with asyncio.TaskGroup() as group:
                for instance, image in plan.runnable:
                    if instance.instance_id not in done:
                        group.create_task(one(instance, image), name=instance.instance_id)
        except* RecordError as errors:
            failures.extend(errors.exceptions)
    if failures:
        raise failures[0]  # several attempts may have met the same full disk
    return [done[instance_id] for instance_id in plan.order]


def _results(directory: Path) -> JsonlWriter:
    try:
        return JsonlWriter(directory / RESULTS)
    except OSError as error:
        raise RecordError(error.strerror) from error
