"""The main command: `swe-eval`. Everything that can be refused is refused before the first attempt starts."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from swe_agent.loop import LoopSettings
from swe_agent.models.factory import ModelSource, parse_model
from swe_agent.models.replay import Recordings, load_recordings
from swe_agent.models.sampling import Sampling
from swe_agent.prompts import load_prompts
from swe_exec_server.common.errors import EXIT_DONE, EXIT_INCOMPLETE, UsageError
from swe_exec_server.sandbox import SandboxSpec

from swe_eval import __version__
from swe_eval.attempt import AttemptOptions
from swe_eval.bundled import recorded_turns, recording_names
from swe_eval.datasets import Dataset, load
from swe_eval.instances import Instance
from swe_eval.progress import Board, closing_lines, results_table
from swe_eval.results import (
    NOT_JUDGED,
    AttemptResult,
    RecordError,
    read_results,
    summarize,
    write_predictions,
    write_summary,
)
from swe_eval.run_directory import RUN_FILE, check, claim, default_directory, locked
from swe_eval.runner import run_plan
from swe_eval.sandboxes import is_sample, make_plan, more, open_sandboxes
from swe_eval.settings import EvalSettings

LEASE_TTL_S = 120.0
SAMPLE_EVAL_TIMEOUT_S = 60.0


def evaluate(settings: EvalSettings, console: Console) -> int:
    """Run or resume an evaluation; the exit code of the command."""
    dataset = load(settings.data, environ=os.environ)
    instances = select(dataset, settings)
    source = open_model(settings, instances)
    identity = {**settings.identity(), "files": {file.path: file.sha256 for file in dataset.files}}
    directory = settings.output_dir or default_directory(_run_name(settings.data), identity)
    with locked(directory):
        if not settings.fresh:
            check(directory, identity)
        try:
            rows = asyncio.run(_run(settings, instances, source, directory, identity, console))
            _write_outcome(settings, rows, directory)
        except RecordError as error:
            why = f"stopped: {directory} cannot be written ({error}); make room, then the same command goes on"
            console.print(Text(why, "red"), soft_wrap=True)
            return EXIT_INCOMPLETE
        except KeyboardInterrupt:
            if (directory / RUN_FILE).exists():
                console.print(Text(f"interrupted; the same command goes on with {directory}"), soft_wrap=True)
            raise
    console.print(results_table(rows))
    for line in closing_lines(rows, str(directory)):
        console.print(line, soft_wrap=True)
    return EXIT_INCOMPLETE if any(row.class_ in NOT_JUDGED for row in rows) else EXIT_DONE


def _write_outcome(settings: EvalSettings, rows: list[AttemptResult], directory: Path) -> None:
    summary = summarize(rows, model=settings.model_name, data=settings.data, args=settings.public())
    try:
        write_summary(directory, summary)
        write_predictions(directory, rows, settings.model_name)
    except OSError as error:
        raise RecordError(error.strerror) from error


def select(dataset: Dataset, settings: EvalSettings) -> list[Instance]:
    """The instances asked for, in the data's order. Raises `UsageError` for ids that are not there."""
    instances = list(dataset.instances)
    if settings.instance_ids:
        known = {instance.instance_id for instance in instances}
        missing = [name for name in settings.instance_ids if name not in known]
        if missing:
            raise UsageError(f"--instance-ids: {missing[0]} is not in {dataset.name}" + more(len(missing) - 1))
        instances = [instance for instance in instances if instance.instance_id in settings.instance_ids]
    return instances[: settings.max_instances]


def open_model(settings: EvalSettings, instances: list[Instance]) -> ModelSource:
    """The model source, with a recording for every instance when it replays. Raises `UsageError`."""
    sampling = Sampling(
        temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens, seed=settings.seed
    )
    source = parse_model(
        settings.model_name,
        api_base=settings.api_base,
        api_key=settings.api_key,
        sampling=sampling,
        resolve_replay=find_recordings,
        action_style=settings.action_style,
    )
    if settings.is_replay:
        for instance in instances:
            source.open(instance.instance_id)
    return source


def find_recordings(name: str) -> Recordings:
    """Recordings by bundled name, else by path."""
    if name in recording_names():
        return recorded_turns(name)
    if not name or not Path(name).exists():
        raise UsageError(f"--model replay:{name}: neither a file nor one of {', '.join(recording_names())}")
    return load_recordings(Path(name))


async def _run(
    settings: EvalSettings,
    instances: list[Instance],
    source: ModelSource,
    directory: Path,
    identity: Mapping[str, Any],
    console: Console,
) -> list[AttemptResult]:
    prompts = load_prompts(settings.prompt, settings.action_style)

    def say(line: str) -> None:
        console.print(Text(line, "bright_black"), soft_wrap=True)

    try:
        await source.check()
        client = await open_sandboxes(settings, instances, directory, say)
        try:
            plan = await make_plan(settings, instances, client)
            claim(directory, identity, fresh=settings.fresh)
            earlier = [row for row in read_results(directory) if row.class_ not in NOT_JUDGED]
            if earlier:
                say(f"resuming {directory}: {len(earlier)} of {len(instances)} attempts are done")
            if plan.blocked:
                say(f"{plan.blocked[0][1]}{more(len(plan.blocked) - 1)}: not run")
            with Board(console, len(instances), earlier, settings.step_limit) as board:
                return await run_plan(
                    plan,
                    client,
                    source.open,
                    _options(settings, instances, source, prompts),
                    directory,
                    max_concurrent=settings.max_concurrent,
                    watcher=board,
                    on_result=board.result,
                )
        finally:
            await client.close()
    finally:
        await source.close()


def _options(settings: EvalSettings, instances: list[Instance], source: ModelSource, prompts: Any) -> AttemptOptions:
    all_sample = all(is_sample(instance) for instance in instances)
    meta = {
        "model": source.name,
        "sampling": dict(source.sampling),
        "data": settings.data,
        "settings": settings.public(),
        "version": __version__,
    }
    return AttemptOptions(
        loop=LoopSettings(
            step_limit=settings.step_limit,
            exec_timeout=settings.exec_timeout,
            wall_limit=settings.rollout_timeout,
            action_style=settings.action_style,
        ),
        prompts=prompts,
        spec=SandboxSpec(
            image="-", ttl=LEASE_TTL_S, timeout=settings.rollout_timeout, trusted=settings.trusts_its_commands
        ),
        eval_timeout=min(settings.eval_timeout, SAMPLE_EVAL_TIMEOUT_S) if all_sample else settings.eval_timeout,
        infra_retries=settings.infra_retries,
        meta=meta,
    )


def _run_name(data: str) -> str:
    """A short file name for a run on `data`."""
    parts = [Path(part).name.split(".")[0] for part in data.split(",")]
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in "+".join(parts).replace("+", "-"))[:60] or "run"
