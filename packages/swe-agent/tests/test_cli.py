"""The command line: what it lists, refuses, prints and leaves behind."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from swe_agent.cli import run
from swe_agent.settings import SolveSettings
from swe_agent.solve import default_directory, ended_run, read_issue
from swe_agent.trajectory import AgentStatus, Step, Trajectory
from swe_agent.viewer import print_trajectory
from swe_exec_server.common.errors import UsageError

Cli = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `swe-agent` as its users do, in an empty directory and environment."""

    def call(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", "from swe_agent.cli import main; main()", *arguments]
        env = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        return subprocess.run(command, input=stdin, cwd=tmp_path, env=env, capture_output=True, timeout=120)

    return call


def test_help_lists_the_commands_that_exist(cli: Cli) -> None:
    shown = cli("--help").stdout.decode()
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ")] == [
        *("solve", "show", "replay", "parse")
    ]


def test_help_of_a_command_names_flags_and_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["solve", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "--step-limit" in shown
    assert "SWE_AGENT_STEP_LIMIT" in shown


def test_parse_case(
    parse_case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(parse_case["text"].encode())))
    assert run(["parse", "--finish-reason", parse_case.get("finish_reason", "stop")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert parse_case["expect"].items() <= answer.items()


def test_parse_through_a_pipe(cli: Cli) -> None:
    ended = cli("parse", stdin="```bash\r\necho é\r\n```".encode())
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"action": "echo é"})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["dance"], "unknown command 'dance'; choose one of solve, show, replay, parse"),
        (["parse", "--finish-reason", "tired"], "--finish-reason"),
        (["show"], "run"),
        (["show", "nowhere"], "nowhere"),
        (["show", "x", "--errors", "--step", "1"], "choose one of --errors, --step, --context and --patch"),
        (["replay"], "run"),
        (["replay", "nowhere"], "nowhere"),
        (["solve", "--image", "x"], "--issue"),
        (["solve", "--issue", "-", "--model", "scripted:submit"], "--repo is needed"),
        (["solve", "--image", "x", "--base", "v1", "--issue", "-", "--model", "m"], "--base needs a --repo"),
        (["solve", "--repo", "nowhere", "--issue", "i.md", "--model", "m"], "i.md"),
        (["solve", "--image", "x", "--issue", "none.md", "--model", "scripted:submit"], "none.md"),
        (["solve", "--image", "x", "--issue", "-", "--model", "scripted:submit"], "it is empty"),
        (["solve", "--image", "x", "--issue", "-", "--model", "m", "--step-limit", "0"], "--step-limit"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(cli: Cli, arguments: list[str], complaint: str) -> None:
    ended = cli(*arguments)
    assert ended.returncode == 2
    assert ended.stderr.decode().startswith("swe-agent: ")
    assert ended.stderr.count(b"\n") == 1
    assert complaint in ended.stderr.decode()


def test_a_model_that_cannot_be_reached_is_told_before_anything_starts(cli: Cli) -> None:
    arguments = ("--image", "x", "--issue", "-", "--model", "qwen", "--api-base", "http://127.0.0.1:9/v1")
    ended = cli("solve", *arguments, stdin=b"It crashes.")
    assert ended.returncode == 2
    assert b"no model server at http://127.0.0.1:9/v1" in ended.stderr


def test_a_dead_exec_server_is_told_before_anything_starts(cli: Cli) -> None:
    arguments = (
        "--image",
        "x",
        "--issue",
        "-",
        "--model",
        "scripted:submit",
        "--exec-server-urls",
        "http://127.0.0.1:9",
    )
    ended = cli("solve", *arguments, stdin=b"It crashes.")
    assert ended.returncode == 2
    assert b"http://127.0.0.1:9" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


def trajectory() -> Trajectory:
    steps = [
        Step(1, "Look.\n\n```bash\nls\n```", action="ls", returncode=0, output="a [b]\n:smile:\n\x1b[31mred\x1b[0m\n"),
        Step(2, "nothing", error="format", found=0),
        Step(3, "```bash\nseq 99\n```", action="seq 99", returncode=1, output="".join(f"{n}\n" for n in range(99))),
        Step(4, "```bash\ncat x\n```", action="cat x", returncode=0, output="\0\1\2", output_bytes=3),
    ]
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    return Trajectory("i-1", AgentStatus.STEP_LIMIT, "why", steps, patch=patch, patch_source="diff", elapsed=3.2)


def test_show_prints_status_steps_and_patch_plainly_in_a_pipe(cli: Cli, tmp_path: Path) -> None:
    trajectory().save(tmp_path / "run")
    shown = cli("show", "run").stdout.decode()
    assert "i-1: step_limit, 4 steps, 3.2 s, patch of 57 bytes (diff)" in shown
    for expected in ("$ ls", "| a [b]", "| :smile:", "| red", "nothing run: format, 0 blocks", "+new"):
        assert expected in shown
    assert "(3 bytes, binary)" in shown
    assert "... 83 lines ..." in shown
    assert "\x1b" not in shown
    assert "83 lines" not in cli("show", "run", "--full").stdout.decode()


def test_show_lists_the_runs_of_a_directory(cli: Cli, tmp_path: Path) -> None:
    for name in ("b__0", "a__0"):
        trajectory().save(tmp_path / "runs" / name)
    lines = cli("show", "runs").stdout.decode().splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["a__0", "step_limit", "4"], ["b__0", "step_limit", "4"]]


def test_show_refuses_a_damaged_record(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "traj.json").write_text("{")
    ended = cli("show", ".")
    assert ended.returncode == 2
    assert b"traj.json: cannot be read" in ended.stderr


def test_the_terminal_gets_colours_and_no_foreign_escapes() -> None:
    file = io.StringIO()
    print_trajectory(Console(file=file, force_terminal=True, color_system="standard"), trajectory(), full=True)
    assert "\x1b[32m+new" in file.getvalue()
    assert "\u2502 \x1b[0mred\n" in file.getvalue()
    assert "\x1b[31mred" not in file.getvalue()


def settings(**changes: Any) -> SolveSettings:
    return SolveSettings(**{"image": "x", "issue": "-", "model": "m", **changes})


def test_the_identity_leaves_out_where_a_run_happens_and_all_secrets() -> None:
    here = settings(api_key="k", token="t", output_dir="a", exec_server_urls="http://a,http://b", fresh=True)
    assert here.identity() == settings().identity()
    assert default_directory(here.identity()) == default_directory(settings().identity())
    assert default_directory(settings(step_limit=5).identity()) != default_directory(here.identity())
    assert here.exec_server_urls == ["http://a", "http://b"]


def test_zero_means_no_limit() -> None:
    loop = settings(wall_limit=0, token_limit=0).loop()
    assert (loop.wall_limit, loop.token_limit) == (None, None)


def test_an_ended_run_is_found_again_and_a_different_one_refused(tmp_path: Path) -> None:
    assert ended_run(tmp_path, {"model": "m"}) is None
    trajectory().save(tmp_path, {"identity": {"model": "m", "step_limit": 20}})
    found = ended_run(tmp_path, {"model": "m", "step_limit": 20})
    assert found is not None
    assert found.status is AgentStatus.STEP_LIMIT
    with pytest.raises(UsageError, match="--step-limit 20, not 5"):
        ended_run(tmp_path, {"model": "m", "step_limit": 5})


@pytest.mark.parametrize("status", [s for s in AgentStatus if s.is_infrastructure])
def test_a_killed_or_lost_run_is_started_over(tmp_path: Path, status: AgentStatus) -> None:
    Trajectory("i", status).save(tmp_path, {"identity": {}})
    assert ended_run(tmp_path, {}) is None


def test_an_issue_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "issue.md"
    file.write_text("It crashes: é\n", encoding="utf-8")
    assert read_issue(str(file)) == "It crashes: é\n"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_issue(str(file))


def test_show_jumps_to_what_went_wrong(cli: Cli, tmp_path: Path) -> None:
    trajectory().save(tmp_path / "run")
    shown = cli("show", "run", "--errors").stdout.decode()
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("step ")] == ["2", "3"]
    assert "2 steps of 4 went wrong, 2 went well" in shown
    assert "+new" not in shown


def test_show_prints_one_step_whole(cli: Cli, tmp_path: Path) -> None:
    trajectory().save(tmp_path / "run")
    shown = cli("show", "run", "--step", "3").stdout.decode()
    assert "| 50" in shown
    assert "$ ls" not in shown
    refused = cli("show", "run", "--step", "5")
    assert (refused.returncode, refused.stderr) == (2, b"swe-agent: --step 5: the run has 4 steps\n")


def test_show_prints_what_the_model_saw(cli: Cli, tmp_path: Path) -> None:
    run = trajectory()
    run.messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "the issue"}]
    for step in run.steps:
        run.messages += [{"role": "assistant", "content": step.response}]
        run.messages += [{"role": "user", "content": f"seen {step.index}"}]
    run.save(tmp_path / "run")
    first = cli("show", "run", "--context", "1").stdout.decode()
    assert "2  user  9 characters\n> the issue" in first
    assert "seen" not in first
    second = cli("show", "run", "--context", "2").stdout.decode()
    assert "> seen 1" in second
    assert "> ```bash" in second
    assert "seen 2" not in second


def test_show_gives_the_patch_byte_by_byte(cli: Cli, tmp_path: Path) -> None:
    run = trajectory()
    run.patch += b"\xff\r\n"
    run.save(tmp_path / "run")
    assert cli("show", "run", "--patch").stdout == run.patch


@pytest.mark.docker
def test_solve_in_a_container_prints_the_patch_and_the_same_command_shows_it_again(
    cli: Cli, tmp_path: Path, docker_base_image: str
) -> None:
    setup = "git init -q; echo hello > x; git add -A; git -c user.name=t -c user.email=t@example.invalid commit -qm s"
    turns = [f"```bash\n{c}\n```" for c in (setup, "echo bye > x", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]
    (tmp_path / "turns.json").write_text(json.dumps({"turns": turns}))
    arguments = ("solve", "--image", docker_base_image, "--issue", "-", "--model", "replay:turns.json")
    ended = cli(*arguments, "--output-dir", "out", stdin=b"It says hello.")
    assert ended.returncode == 0, ended.stderr
    assert b"-hello\n+bye\n" in ended.stdout
    assert ended.stdout == (tmp_path / "out" / "patch.diff").read_bytes()
    assert b"$ echo bye > x" in ended.stderr
    again = cli(*arguments, "--output-dir", "out", stdin=b"It says hello.")
    assert (again.returncode, again.stdout) == (0, ended.stdout)
    assert b"has ended before" in again.stderr
    other = cli(*arguments, "--output-dir", "out", stdin=b"It says something else.")
    assert other.returncode == 2
    assert b"--issue" in other.stderr


@pytest.mark.docker
def test_solve_names_an_image_that_is_not_there(cli: Cli, docker_base_image: str) -> None:
    arguments = ("--image", "no-such-image:at-all", "--issue", "-", "--model", "scripted:submit")
    ended = cli("solve", *arguments, stdin=b"It crashes.")
    assert ended.returncode == 2
    assert b"docker pull no-such-image:at-all" in ended.stderr
