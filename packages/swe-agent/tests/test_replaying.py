"""A recorded run plays again where it was made, and what differs is found and named."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from swe_agent.cli import run
from swe_agent.mini import FOREIGN_SUFFIX
from swe_agent.replaying import compare, normalise
from swe_agent.trajectory import META_FILE, TRAJECTORY_FILE, Step, load_trajectory
from swe_exec_server.common.errors import UsageError
from swe_exec_server.local_bubblewrap import why_unusable
from swe_exec_server.sandbox import ExecResult

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
WHY_NO_BUBBLEWRAP = why_unusable()
BACKENDS = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("local", marks=pytest.mark.skipif(WHY_NO_BUBBLEWRAP != "", reason=WHY_NO_BUBBLEWRAP or "-")),
]


def result(output: str, returncode: int = 0, timed_out: bool = False) -> ExecResult:
    return ExecResult(-1 if timed_out else returncode, output.encode(), len(output), timed_out, False, 0.1)


STEP = Step(3, "", action="ls", returncode=0, output="a\nb\n")


@pytest.mark.parametrize(
    ("step", "now", "what"),
    [
        (STEP, result("a\nb\n"), None),
        (STEP, result("a\nc\n"), "output"),
        (STEP, result("a\nb"), "output"),
        (STEP, result("a\nb\n", 1), "exit code"),
        (STEP, result("a\nb\n", timed_out=True), "exit code"),
        (replace(STEP, returncode=-1, timed_out=True), result("a", timed_out=True), None),
        (replace(STEP, returncode=None), result("anything", 9), None),
        (replace(STEP, action=None), result("anything", 9), None),
    ],
)
def test_what_counts_as_a_difference(step: Step, now: ExecResult, what: str | None) -> None:
    found = compare(step, now)
    assert (found.what if found else None) == what


def test_a_difference_is_a_diff() -> None:
    found = compare(STEP, result("a\nc\n"))
    assert found is not None
    assert list(found.lines())[-2:] == ["-b", "+c"]
    failed = compare(STEP, result("a\nb\noh no\n", 2))
    assert failed is not None
    assert [line for line in failed.lines() if line[0] in "+-"][2:] == ["-exit 0", "+exit 2", "+oh no"]


def test_records_that_trimmed_their_output_are_compared_without_its_ends() -> None:
    assert compare(STEP, result("\na\nb"), exact=False) is None
    assert compare(STEP, result("a\n\nb"), exact=False) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("3 passed in 0.12s", "3 passed in 1.05s"),
        ("real 2 ms", "real 13 ms"),
        ("at 2026-01-02T03:04:05.678Z", "at 2026-12-31T23:59:59Z"),
        ("[03:04:05] go", "[23:59:59,123] go"),
        ("-rw-r--r-- 1 root root 5 Jul 17 01:31 a", "-rw-r--r-- 1 root root 5 Dec  1 06:18 a"),
        ("Date:   Fri Jan 2 03:04:05 2026 +0100", "Date:   Mon Nov 30 13:14:15 2026 +0100"),
        ("<A object at 0x7f12ab34cd>", "<A object at 0x7fffab0000>"),
        ("pid 17 ended", "pid 23456 ended"),
        ("wrote /tmp/tmpab12_x/out", "wrote /tmp/tmpzz99/out"),
    ],
)
def test_what_differs_by_nature_is_taken_out_only_if_asked(before: str, after: str) -> None:
    step = replace(STEP, output=before)
    assert compare(step, result(after)) is not None
    assert compare(step, result(after), volatile=True) is None


@pytest.mark.parametrize("text", ["3 passed, 1 failed", "exit code 12", "0x1f", "version 3.11.7", "line 120: x = 5"])
def test_the_rest_is_left_alone(text: str) -> None:
    assert normalise(text) == text


def solve(repository: Path, directory: Path, backend: str, *commands: str) -> None:
    (directory / "issue.md").write_text("The greeting must be hi.")
    turns = [f"```bash\n{command}\n```" for command in commands]
    (directory / "turns.json").write_text(json.dumps({"turns": turns}))
    arguments = ["--repo", str(repository), "--issue", str(directory / "issue.md"), "--backend", backend]
    model = ["--model", f"replay:{directory / 'turns.json'}", "--output-dir", str(directory / "run")]
    done = subprocess.run(
        [sys.executable, "-c", "from swe_agent.cli import main; main()", "solve", *arguments, *model],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_on_ones_own_repository_and_its_replay(
    repository: Path, tmp_path: Path, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "hello.py").chmod(0o755)
    commands = ("sed -i 's/hello /hi /' hello.py && git log --format=%s", "cat hello.py nothing; pwd", SUBMIT)
    solve(repository, tmp_path, backend, *commands)
    trajectory = load_trajectory(tmp_path / "run")
    assert trajectory.steps[0].output == "start\n"
    assert "/testbed" in trajectory.steps[1].output
    assert b"+print('hi world')" in trajectory.patch
    # It applies to what it was made from, which nobody has touched.
    assert (repository / "hello.py").read_text() == "print('hello world')\n"
    subprocess.run(["git", "apply", "--check", "-"], cwd=repository, input=trajectory.patch, check=True)
    assert json.loads((tmp_path / "run" / META_FILE).read_text())["repository"]["source"] == str(repository)

    assert run(["replay", str(tmp_path / "run")]) == 0
    assert "3 commands ran again, nothing differs" in capsys.readouterr().out
    _edit_output(tmp_path / "run", 1, "there is no such output\n")
    assert run(["replay", str(tmp_path / "run")]) == 1
    shown = capsys.readouterr().out
    assert "step 2: the output differs\n$ cat hello.py nothing; pwd" in shown
    assert "-there is no such output" in shown
    assert "+print('hi world')" in shown


def _edit_output(directory: Path, index: int, output: str) -> None:
    file = directory / TRAJECTORY_FILE
    value = json.loads(file.read_text())
    value["steps"][index]["output"] = output
    file.write_text(json.dumps(value))


@pytest.mark.docker
def test_a_run_of_mini_swe_agent_plays_again(
    tmp_path: Path, docker_base_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(command: str, output: str) -> list[object]:
        said = {"role": "assistant", "content": "", "extra": {"actions": [{"command": command}]}}
        return [said, {"role": "user", "content": "", "extra": {"raw_output": output, "returncode": 0}}]

    value = {
        "info": {"config": {"environment": {"image": docker_base_image, "cwd": "/tmp", "env": {"WORD": "hi"}}}},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "t"},
            *turn("echo $WORD; pwd", "hi\n/tmp\n"),
            *turn("echo 1 > x; cat x", "2\n"),
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }
    file = tmp_path / f"i{FOREIGN_SUFFIX}"
    file.write_text(json.dumps(value))
    assert run(["replay", str(file)]) == 1
    assert "step 2: the output differs" in capsys.readouterr().out


def test_a_record_without_an_image_asks_for_one(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "t"}, {"role": "assistant", "content": "```bash\nls\n```"}]
    file = tmp_path / f"i{FOREIGN_SUFFIX}"
    file.write_text(json.dumps(messages))
    with pytest.raises(UsageError, match="names no image; give one with --image"):
        run(["replay", str(file)])


@pytest.mark.docker
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--cwd", "/usr"], "its /usr already holds files, choose another --cwd"),
        (["--image", "no-such-image:at-all"], "docker pull no-such-image:at-all"),
        (["--backend", "local", "--image", "x"], "--backend local takes a --repo and no --image"),
    ],
)
def test_containers_that_cannot_take_a_repository_are_refused(
    repository: Path, tmp_path: Path, options: list[str], complaint: str, docker_base_image: str
) -> None:
    (tmp_path / "issue.md").write_text("?")
    arguments = ["solve", "--repo", str(repository), "--issue", str(tmp_path / "issue.md"), *options]
    with pytest.raises(UsageError, match=complaint):
        run([*arguments, "--model", "scripted:submit", "--output-dir", str(tmp_path / "run")])


@pytest.mark.docker
def test_a_large_repository_travels_in_parts(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker_base_image: str
) -> None:
    monkeypatch.setattr("swe_agent.repository.PART_BYTES", 20_000)
    assert shutil.which("git")
    (repository / "large.bin").write_bytes(bytes(range(256)) * 400)
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    author = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *author, "commit", "-qm", "large"], cwd=repository, check=True)
    turns = [f"```bash\n{command}\n```" for command in ("git status --short; cksum < large.bin", SUBMIT)]
    (tmp_path / "turns.json").write_text(json.dumps({"turns": turns}))
    (tmp_path / "issue.md").write_text("?")
    arguments = ["--repo", str(repository), "--issue", str(tmp_path / "issue.md"), "--image", docker_base_image]
    model = ["--model", f"replay:{tmp_path / 'turns.json'}", "--output-dir", str(tmp_path / "run")]
    assert run(["solve", *arguments, *model]) == 0
    expected = subprocess.run(["cksum"], stdin=(repository / "large.bin").open("rb"), capture_output=True, check=True)
    assert load_trajectory(tmp_path / "run").steps[0].output.encode() == expected.stdout
