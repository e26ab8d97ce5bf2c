"""The loop on a real repository: how runs end, what they leave, and what the model was told."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models import ContextExhausted, Message, Model, ModelLost, ModelResponse, ReplayExhausted
from swe_agent.models.replay import RecordedTurn, ReplayModel
from swe_agent.models.scripted import ScriptedModel, bash_turn
from swe_agent.prompts import MARKER, Prompts
from swe_agent.trajectory import AgentStatus, Step, Trajectory, load_trajectory
from swe_exec_server.sandbox import Sandbox
from swe_exec_server.wire import ErrorCode, SandboxError

SETTINGS = LoopSettings(exec_timeout=20, wall_limit=60, snapshot_timeout=5)
TASK = Task("repo__hello-1", "The greeting must be hi.")
EDIT = "sed -i 's/hello /hi /' hello.py"
SUBMIT = f"echo {MARKER}"

Solve = Callable[..., Any]


@pytest.fixture
def solve(sandbox: Sandbox, prompts: Prompts) -> Solve:
    """Play commands (or use `model`) in a fresh repository."""

    async def run(*commands: str, model: Model | None = None, sandbox: Sandbox = sandbox, **options: Any) -> Trajectory:
        settings = replace(SETTINGS, **{k: options.pop(k) for k in list(options) if hasattr(SETTINGS, k)})
        model = model or ReplayModel([bash_turn(command) for command in commands])
        return await run_agent(TASK, model, sandbox, settings, prompts, **options)

    return run


def scripted(turns: Sequence[Any]) -> ScriptedModel:
    """The turns of a case: commands, or objects that say what is raised."""
    raised: dict[int, Exception] = {len(turns): ReplayExhausted("no more turns")}
    raised |= {number: ModelLost(turn["raise"]) for number, turn in enumerate(turns) if isinstance(turn, dict)}
    return ScriptedModel(lambda messages: bash_turn(turns[len(messages) // 2 - 1]), raise_at=raised)


async def test_case(turns_case: dict[str, Any], make_sandbox: Callable[..., Sandbox], solve: Solve) -> None:
    sandbox = make_sandbox(lost_after=turns_case.get("kill_container_after"))
    expected = turns_case["expect"]
    model = scripted(turns_case["turns"])
    started = time.monotonic()
    trajectory = await solve(model=model, sandbox=sandbox, step_limit=turns_case.get("step_limit", 20))
    assert time.monotonic() - started < expected.get("within_seconds", 60)
    assert (trajectory.status is AgentStatus.SUBMITTED) == expected.get("submitted", False)
    assert trajectory.status == expected.get("status", trajectory.status)
    assert expected.get("patch_contains", "").encode() in trajectory.patch
    assert len(trajectory.steps) == expected.get("steps", len(trajectory.steps))
    assert len(trajectory.steps) <= expected.get("steps_max", 1000)


async def test_a_submission_hands_in_the_diff_with_new_files(solve: Solve) -> None:
    trajectory = await solve(f"{EDIT}; printf 'a\\r\\n\\377' > new.bin", SUBMIT)
    assert trajectory.status is AgentStatus.SUBMITTED
    assert trajectory.patch_source == "diff"
    assert b"+print('hi world')" in trajectory.patch
    assert b"new.bin" in trajectory.patch
    assert len(trajectory.base_commit) == 40


async def test_commits_of_the_model_count(solve: Solve) -> None:
    commit = "git -c user.name=m -c user.email=m@example.invalid commit -qam done"
    trajectory = await solve(f"{EDIT} && {commit}", SUBMIT)
    assert b"+print('hi world')" in trajectory.patch


async def test_text_after_the_marker_is_the_patch_only_where_nothing_differs(solve: Solve) -> None:
    typed = await solve(f"printf '{MARKER} \\r\\nno \\377 diff\\n'")
    assert (typed.patch, typed.patch_source) == (b"no \xff diff\n", "submission")
    edited = await solve(f"{EDIT}; {SUBMIT}; echo my patch")
    assert edited.patch_source == "diff"
    assert b"my patch" not in edited.patch


async def test_text_that_the_node_cut_is_no_patch(solve: Solve) -> None:
    trajectory = await solve(f"{SUBMIT}; seq 2000", max_output_bytes=4000)
    assert (trajectory.patch, trajectory.patch_source) == (b"", "none")
    assert "4000 bytes" in trajectory.error


async def test_nothing_changed_is_an_empty_patch(solve: Solve) -> None:
    trajectory = await solve(SUBMIT)
    assert (trajectory.status, trajectory.patch, trajectory.patch_source) == (AgentStatus.SUBMITTED, b"", "none")


@pytest.mark.parametrize("command", [f"echo; {SUBMIT}", f"echo ' {MARKER}'", f"{SUBMIT}x", f"{SUBMIT}; exit 3"])
async def test_what_is_no_submission(solve: Solve, command: str) -> None:
    trajectory = await solve(command, "true")
    assert trajectory.status is AgentStatus.STEP_LIMIT
    assert len(trajectory.steps) == 2


async def test_a_submission_that_times_out_is_none(solve: Solve) -> None:
    trajectory = await solve(f"{SUBMIT}; sleep 30", exec_timeout=0.5)
    assert trajectory.status is AgentStatus.STEP_LIMIT
    assert trajectory.steps[0].timed_out
    assert "stopped after" in trajectory.steps[0].observation


async def test_recorded_turns_that_run_out_end_as_a_step_limit_with_the_diff(solve: Solve) -> None:
    trajectory = await solve(EDIT)
    assert trajectory.status is AgentStatus.STEP_LIMIT
    assert "1 recorded turns" in trajectory.error
    assert trajectory.patch_source == "diff"


async def test_format_errors_are_told_and_nothing_of_them_is_run(solve: Solve, sandbox: Any) -> None:
    turns = ["no block", "```bash\ntouch a\n```\n```bash\ntouch b\n```", bash_turn(SUBMIT)]
    trajectory = await solve(model=ReplayModel(turns))
    assert [(step.error, step.found) for step in trajectory.steps] == [("format", 0), ("format", 2), (None, None)]
    assert "2 ```bash blocks" in trajectory.steps[1].observation
    assert sandbox.commands == [SUBMIT]
    assert trajectory.patch == b""


async def test_a_row_of_format_errors_ends_the_run_with_the_diff(solve: Solve) -> None:
    turns = [bash_turn(EDIT), "a", "b", "c", bash_turn(SUBMIT)]
    trajectory = await solve(model=ReplayModel(turns), max_format_errors=3)
    assert trajectory.status is AgentStatus.FORMAT_ERRORS
    assert len(trajectory.steps) == 4
    assert trajectory.patch_source == "diff"


async def test_a_command_in_between_starts_a_new_row(solve: Solve) -> None:
    turns = ["a", "b", bash_turn("true"), "c", "d", bash_turn(SUBMIT)]
    assert (await solve(model=ReplayModel(turns), max_format_errors=3)).status is AgentStatus.SUBMITTED


async def test_cut_responses_have_their_own_message_and_count(solve: Solve) -> None:
    cut = RecordedTurn(bash_turn("touch never"), "length")
    trajectory = await solve(model=ReplayModel([cut, "a", "b", cut, bash_turn(SUBMIT)]), max_format_errors=3)
    assert trajectory.status is AgentStatus.SUBMITTED
    assert [step.error for step in trajectory.steps] == ["truncated", "format", "format", "truncated", None]
    assert "cut off" in trajectory.steps[0].observation
    assert trajectory.patch == b""


async def test_the_model_is_told_the_turns_left(solve: Solve) -> None:
    seen: list[str] = []

    def script(messages: Sequence[Message]) -> str:
        seen.append(messages[-1]["content"])
        return bash_turn("true") if len(seen) != 2 else "no block"

    trajectory = await solve(model=ScriptedModel(script), step_limit=3)
    assert "3 turns" in seen[0]
    assert "2 turns left" in seen[1]
    assert "1 turn left" in seen[2]
    assert trajectory.status is AgentStatus.STEP_LIMIT
    roles = [message["role"] for message in trajectory.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert trajectory.messages[3]["content"] == trajectory.steps[0].observation


@pytest.mark.parametrize(("told", "steps"), [(40, 3), (None, 4)])
async def test_the_token_limit_counts_what_the_model_wrote(solve: Solve, told: int | None, steps: int) -> None:
    answer = ModelResponse(bash_turn("true").ljust(120), prompt_tokens=1000, completion_tokens=told)
    trajectory = await solve(model=ScriptedModel(lambda _: answer), token_limit=120)
    assert trajectory.status is AgentStatus.TOKEN_LIMIT
    assert len(trajectory.steps) == steps
    assert trajectory.completion_tokens == (told or 0) * steps


async def test_the_time_limit_ends_a_thinking_model_and_keeps_the_diff(solve: Solve) -> None:
    model = ScriptedModel(lambda _: bash_turn(EDIT), raise_at={})
    slow = ScriptedModel(lambda _: "", latency=(30, 30))

    class Slows:
        name = "slows"

        async def respond(self, messages: Sequence[Message]) -> ModelResponse:
            return await (slow if model.calls else model).respond(messages)

        async def close(self) -> None: ...

    trajectory = await solve(model=Slows(), wall_limit=1.0)
    assert trajectory.status is AgentStatus.TIME_LIMIT
    assert trajectory.patch_source == "diff"
    assert trajectory.elapsed < 20


async def test_the_time_limit_ends_a_running_command(solve: Solve) -> None:
    trajectory = await solve("sleep 30", "true", wall_limit=1.0)
    assert trajectory.status is AgentStatus.TIME_LIMIT
    assert [step.timed_out for step in trajectory.steps] == [True]
    assert trajectory.elapsed < 20


async def test_a_full_context_ends_with_the_diff(solve: Solve) -> None:
    model = ScriptedModel(lambda _: bash_turn(EDIT), raise_at={1: ContextExhausted("4097 tokens")})
    trajectory = await solve(model=model)
    assert (trajectory.status, trajectory.error) == (AgentStatus.CONTEXT_EXHAUSTED, "4097 tokens")
    assert trajectory.patch_source == "diff"


async def test_a_lost_model_leaves_a_snapshot(solve: Solve) -> None:
    trajectory = await solve(model=scripted([EDIT, {"raise": "gone\nfor good"}]))
    assert (trajectory.status, trajectory.error) == (AgentStatus.MODEL_LOST, "gone for good")
    assert trajectory.patch_source == "snapshot"
    assert b"+print('hi world')" in trajectory.patch


async def test_a_bug_becomes_an_agent_error_with_a_snapshot(solve: Solve) -> None:
    def fails(step: Step) -> None:
        raise ZeroDivisionError("in\nthe watcher")

    trajectory = await solve(EDIT, SUBMIT, on_step=fails)
    assert (trajectory.status, trajectory.error) == (AgentStatus.AGENT_ERROR, "ZeroDivisionError: in the watcher")
    assert trajectory.patch_source == "snapshot"


async def test_a_snapshot_that_takes_too_long_is_given_up(solve: Solve, make_sandbox: Callable[..., Sandbox]) -> None:
    trajectory = await solve(
        model=scripted([EDIT, {"raise": "gone"}]), sandbox=make_sandbox(diff_delay=30), snapshot_timeout=0.2
    )
    assert (trajectory.status, trajectory.patch_source) == (AgentStatus.MODEL_LOST, "none")
    assert trajectory.elapsed < 20


@pytest.mark.parametrize(("reason", "status"), [("limits", AgentStatus.SANDBOX_LIMIT), ("", AgentStatus.SANDBOX_LOST)])
async def test_a_gone_container(
    solve: Solve, make_sandbox: Callable[..., Sandbox], reason: str, status: AgentStatus
) -> None:
    trajectory = await solve(EDIT, "true", sandbox=make_sandbox(lost_after=1, reason=reason))
    assert trajectory.status is status
    assert "container_gone" in trajectory.error
    assert [step.returncode for step in trajectory.steps] == [0, None]


class Thinker:
    """Plays commands; before each but the first it thinks until the sandbox has given a diff."""

    name = "thinker"

    def __init__(self, sandbox: Any, *commands: str) -> None:
        self._sandbox = sandbox
        self._commands = iter(commands)

    async def respond(self, messages: Sequence[Message]) -> ModelResponse:
        self._sandbox.diffed.clear()
        if len(messages) > 2:
            await asyncio.wait_for(self._sandbox.diffed.wait(), 20)
            await asyncio.sleep(0.05)  # for the diff to reach the loop
        return ModelResponse(bash_turn(next(self._commands)))

    async def close(self) -> None: ...


@pytest.mark.parametrize("reason", ["limits", ""])
async def test_a_container_killed_later_leaves_the_diff_taken_while_the_model_thought(
    solve: Solve, make_sandbox: Callable[..., Sandbox], reason: str
) -> None:
    sandbox = make_sandbox(lost_after=2, reason=reason)
    model = Thinker(sandbox, EDIT, "echo more >> notes.txt", "true")
    trajectory = await solve(model=model, sandbox=sandbox, snapshot_delay=0.0)
    assert trajectory.status is (AgentStatus.SANDBOX_LIMIT if reason else AgentStatus.SANDBOX_LOST)
    assert trajectory.patch_source == "snapshot"
    assert b"+print('hi world')" in trajectory.patch
    assert b"+more" in trajectory.patch


async def test_a_diff_that_was_not_there_when_the_model_answered_does_not_count(
    solve: Solve, make_sandbox: Callable[..., Sandbox]
) -> None:
    sandbox = make_sandbox(lost_after=2, reason="limits", diff_delay=0.3)
    commands = [EDIT, "sleep 1", "true"]
    model = ScriptedModel(lambda messages: bash_turn(commands[len(messages) // 2 - 1]), latency=(0.1, 0.1))
    trajectory = await solve(model=model, sandbox=sandbox, snapshot_delay=0.0)
    assert (trajectory.status, trajectory.patch_source) == (AgentStatus.SANDBOX_LIMIT, "none")


async def test_a_node_that_fails_otherwise_is_lost_with_a_snapshot(solve: Solve, sandbox: Any) -> None:
    execute = sandbox.exec

    async def exec_once(command: str, **options: Any) -> Any:
        if sandbox.commands:
            raise SandboxError(ErrorCode.UNREACHABLE, "no answer")
        return await execute(command, **options)

    sandbox.exec = exec_once
    trajectory = await solve(EDIT, "true")
    assert trajectory.status is AgentStatus.SANDBOX_LOST
    assert trajectory.patch_source == "snapshot"


async def test_a_diff_that_fails_at_the_end_is_a_lost_sandbox(solve: Solve, sandbox: Any) -> None:
    async def fails(**_: Any) -> Any:
        raise SandboxError(ErrorCode.ENGINE_DOWN, "no engine")

    sandbox.diff = fails
    trajectory = await solve(EDIT, SUBMIT)
    assert (trajectory.status, trajectory.patch_source) == (AgentStatus.SANDBOX_LOST, "none")


async def test_cancellation_is_recorded_with_a_snapshot_and_raised(solve: Solve, tmp_path: Path) -> None:
    commands = [EDIT, "sleep 30"]
    started = asyncio.Event()
    model = ReplayModel([bash_turn(command) for command in commands])
    run = asyncio.create_task(solve(model=model, directory=tmp_path / "run", on_step=lambda step: started.set()))
    await started.wait()
    await asyncio.sleep(0.1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    recorded = load_trajectory(tmp_path / "run")
    assert recorded.status is AgentStatus.CANCELLED
    assert recorded.patch_source == "snapshot"
    assert b"+print('hi world')" in recorded.patch
    assert [step.action for step in recorded.steps] == commands


async def test_a_second_cancellation_ends_the_snapshot_and_still_records(
    solve: Solve, make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    run = asyncio.create_task(
        solve("sleep 30", sandbox=make_sandbox(diff_delay=30), directory=tmp_path / "run", snapshot_timeout=60)
    )
    await asyncio.sleep(0.5)
    run.cancel()
    await asyncio.sleep(0.3)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    recorded = load_trajectory(tmp_path / "run")
    assert (recorded.status, recorded.patch_source) == (AgentStatus.CANCELLED, "none")


async def test_every_step_is_on_disk_before_the_next(solve: Solve, tmp_path: Path) -> None:
    counts: list[int] = []

    def look(step: Step) -> None:
        counts.append(len(load_trajectory(tmp_path).steps))

    trajectory = await solve(EDIT, "true", SUBMIT, directory=tmp_path, on_step=look)
    assert counts == [1, 2, 3]
    assert load_trajectory(tmp_path) == trajectory


async def test_meta_tells_model_settings_and_prompts(solve: Solve, tmp_path: Path) -> None:
    await solve(SUBMIT, directory=tmp_path, meta={"image": "x:1"}, step_limit=7)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["schema"] == 1
    assert (meta["model"], meta["image"], meta["instance_id"]) == ("replay", "x:1", TASK.instance_id)
    assert meta["settings"]["step_limit"] == 7
    assert meta["prompts"]["name"] == "default"


async def test_a_record_that_cannot_be_written_is_an_agent_error(solve: Solve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    trajectory = await solve(EDIT, SUBMIT, directory=tmp_path / "file")
    assert trajectory.status is AgentStatus.AGENT_ERROR
    assert "cannot be written" in trajectory.error


async def test_the_sandbox_stays_open_for_its_owner(solve: Solve, sandbox: Any) -> None:
    await solve(SUBMIT)
    assert not sandbox.closed


async def test_odd_characters_in_responses_do_not_stop_a_run(solve: Solve, tmp_path: Path) -> None:
    model = ReplayModel([bash_turn("echo '\ud800\0'"), bash_turn(SUBMIT)])
    trajectory = await solve(model=model, directory=tmp_path)
    assert trajectory.status is AgentStatus.SUBMITTED
    assert load_trajectory(tmp_path) == trajectory


@pytest.mark.docker
async def test_in_a_real_container(docker_base_image: str, prompts: Prompts, tmp_path: Path) -> None:
    from swe_exec_server.embedded import EmbeddedOptions, open_embedded
    from swe_exec_server.sandbox import SandboxSpec

    commit = "git -c user.name=t -c user.email=t@example.invalid commit -qm start"
    setup = f"git init -q && echo \"print('hello world')\" > hello.py && git add -A && {commit}"
    provider = open_embedded(EmbeddedOptions(tmp_path, backend="docker", max_containers=1))
    try:
        async with await provider.create(SandboxSpec(image=docker_base_image)) as sandbox:
            assert (await sandbox.exec(setup)).returncode == 0
            turns = [bash_turn(command) for command in ("kill -9 1 || true", EDIT, SUBMIT)]
            trajectory = await run_agent(TASK, ReplayModel(turns), sandbox, SETTINGS, prompts)
    finally:
        await provider.close()
    assert trajectory.status is AgentStatus.SUBMITTED
    assert b"+print('hi world')" in trajectory.patch
