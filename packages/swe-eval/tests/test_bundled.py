"""Every bundled task holds what its files say, checked with real git, real tests and real shells.

The replay below is deliberately a second, tiny implementation of submission and grading: what it and the product agree
on is a property of the recordings.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from swe_eval import bundled
from swe_eval.bundled.docker_image import SampleBaseUnavailable, build_context, ensure_docker_images
from swe_eval.bundled.local_image import ensure_local_image
from swe_eval.bundled.repository import commit_files, make_repo_script, materialise
from swe_eval.bundled.tasks import read_json

ROWS = {row["instance_id"]: row for row in bundled.sample_rows()}
per_task = pytest.mark.parametrize("instance_id", bundled.SAMPLE_NAMES)

MARKER = b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
STEP_LIMIT = 20
TEST_LINE = re.compile(r"^(\w+) \(([\w.]+)\) \.\.\. (?:.* )?(\S+)$", re.MULTILINE)


def environment() -> dict[str, str]:
    """What commands see: this interpreter as python3, and nothing of the user's git configuration."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LANG": "C.UTF-8",
    }


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=repository, input=stdin, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def applies(repository: Path, patch: bytes) -> bool:
    done = subprocess.run(
        ["git", "apply", "-"], cwd=repository, input=patch, env=environment(), capture_output=True, check=False
    )
    return done.returncode == 0


def run_tests(repository: Path, row: dict[str, Any]) -> dict[str, str] | None:
    """Test id -> last word of its line ("ok", "FAIL", "ERROR"); None when the time limit was over."""
    try:
        done = subprocess.run(
            ["bash", "-c", row["test_cmd"]],
            cwd=repository,
            env=environment(),
            capture_output=True,
            timeout=row.get("test_timeout", 60),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    found = TEST_LINE.findall(done.stderr.decode(errors="replace"))
    # Python 3.11 and later write the method's name into the parentheses as well.
    return {place if place.endswith(f".{name}") else f"{place}.{name}": word for name, place, word in found}


def passing(statuses: dict[str, str] | None) -> set[str]:
    return {name for name, word in (statuses or {}).items() if word == "ok"}


def touched(patch: str) -> set[str]:
    return set(re.findall(r"^diff --git a/(.*) b/\1$", patch, re.MULTILINE))


@per_task
def test_base_and_gold_give_the_listed_tests(instance_id: str, tmp_path: Path) -> None:
    row = ROWS[instance_id]
    assert materialise(instance_id, tmp_path) == row["base_commit"]
    assert git(tmp_path, "status", "--porcelain") == b""
    f2p, p2p = set(row["FAIL_TO_PASS"]), set(row["PASS_TO_PASS"])

    assert applies(tmp_path, row["test_patch"].encode())
    assert passing(run_tests(tmp_path, row)) == p2p
    assert applies(tmp_path, row["patch"].encode())
    assert passing(run_tests(tmp_path, row)) == f2p | p2p


@per_task
def test_a_task_is_shaped_like_a_real_one(instance_id: str) -> None:
    row, files = ROWS[instance_id], bundled.repo_files(instance_id)
    assert row["FAIL_TO_PASS"]
    assert len(row["PASS_TO_PASS"]) >= 6
    assert 150 <= sum(len(data.splitlines()) for data in files.values()) <= 600
    assert len([path for path in files if path.endswith(".py") and "/" in path and not path.startswith("tests/")]) >= 4
    assert 2 <= len(read_json(instance_id, "history.json")) <= 5
    assert not [path for path in files if any(part.startswith(".") for part in path.split("/"))]
    assert all(path.startswith("tests/") for path in touched(row["test_patch"]))
    assert not any(path.startswith("tests/") for path in touched(row["patch"]))


@per_task
def test_issue_and_tree_do_not_give_the_answer_away(instance_id: str) -> None:
    row, files = ROWS[instance_id], bundled.repo_files(instance_id)
    added = [line[1:].strip() for line in row["patch"].splitlines() if re.match(r"\+(?!\+\+ )", line)]
    assert not [line for line in added if len(line) > 15 and line in row["problem_statement"]]
    names = {test.rpartition(".")[2] for test in row["FAIL_TO_PASS"]}
    new_names = names - {test.rpartition(".")[2] for test in row["PASS_TO_PASS"]}
    tree = b"\n".join(files.values()).decode()
    assert not [name for name in new_names if re.search(rf"\bdef {name}\b", tree)]


def test_the_mix_of_tasks() -> None:
    patches = {instance_id: row["patch"] for instance_id, row in ROWS.items()}
    assert len(ROWS) >= 13
    assert len([patch for patch in patches.values() if len(touched(patch)) > 1]) >= 3
    assert len([patch for patch in patches.values() if len(touched(patch)) == 1]) >= 4
    assert [instance_id for instance_id, patch in patches.items() if "new file mode" in patch]
    assert [instance_id for instance_id, patch in patches.items() if re.search(r"^\+.*\r\n", patch, re.MULTILINE)]
    assert [row for row in ROWS.values() if "new file mode" in row["test_patch"]]
    assert [path for instance_id in ROWS for path in bundled.repo_files(instance_id) if not path.isascii()]
    assert [test for row in ROWS.values() for test in row["FAIL_TO_PASS"] if not test.isascii()]


@dataclass(frozen=True)
class Replay:
    """How a recording ended: the patch, whether it was submitted, and the turns that were no single command."""

    patch: bytes
    submitted: bool
    format_errors: int


def replay(turns: list[str], repository: Path, base: str) -> Replay:
    format_errors = 0
    submission: bytes | None = None
    for turn in turns:
        blocks = re.findall(r"^```bash\n(.*?)\n```$", turn, re.MULTILINE | re.DOTALL)
        if len(blocks) != 1:
            format_errors += 1
            continue
        assert submission is None, "a turn after the submission"
        done = subprocess.run(
            ["bash", "-c", blocks[0]],
            cwd=repository,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        first, _, rest = done.stdout.partition(b"\n")
        if done.returncode == 0 and first.rstrip() == MARKER:
            submission = rest
    git(repository, "add", "--all")
    diff = git(repository, "diff", "--cached", "--binary", "--full-index", base)
    return Replay(diff or submission or b"", submission is not None, format_errors)


def without_test_files(patch: bytes, test_files: set[str]) -> bytes:
    sections = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    return b"".join(section for section in sections if not touched(section.decode(errors="replace")) & test_files)


def verdict(patch: bytes, repository: Path, row: dict[str, Any]) -> tuple[str, dict[str, str] | None]:
    """(class, test statuses) of a patch on a clean checkout."""
    if not patch:
        return "empty_patch", None
    if not re.search(rb"^--- .*\n\+\+\+ .*\n@@ -\d", patch, re.MULTILINE):
        return "malformed_patch", None
    if not applies(repository, without_test_files(patch, touched(row["test_patch"]))):
        return "apply_failed", None
    assert applies(repository, row["test_patch"].encode())
    statuses = run_tests(repository, row)
    if statuses is None:
        return "test_timeout", None
    resolved = passing(statuses) >= {*row["FAIL_TO_PASS"], *row["PASS_TO_PASS"]}
    return "resolved" if resolved else "unresolved", statuses


@per_task
def test_recordings_end_as_they_say(instance_id: str, tmp_path: Path) -> None:
    row, records = ROWS[instance_id], bundled.recordings(instance_id)
    assert records["gold"]["expected_class"] == "resolved"
    assert 4 <= len(records["gold"]["turns"]) <= 9
    assert any(record["expected_class"] != "resolved" for record in records.values())
    for name, record in records.items():
        work, clean = tmp_path / name / "work", tmp_path / name / "clean"
        base = materialise(instance_id, work)
        materialise(instance_id, clean)
        result = replay(record["turns"], work, base)
        got, statuses = verdict(result.patch, clean, row)

        assert record["why"]
        assert got == record["expected_class"], f"{name}: {got}\n{result.patch.decode(errors='replace')}"
        assert result.submitted or len(record["turns"]) == STEP_LIMIT, name
        assert name != "format-error" or result.format_errors >= 2
        assert b".pyc" not in result.patch
        if name == "breaks-passing":
            assert not set(row["PASS_TO_PASS"]) <= passing(statuses)
        if name == "edits-tests":
            dropped = without_test_files(result.patch, touched(row["test_patch"]))
            assert dropped != result.patch
        if name == "incomplete":
            assert not set(row["FAIL_TO_PASS"]) <= passing(statuses)


def test_recordings_use_relative_paths_only() -> None:
    for instance_id in bundled.SAMPLE_NAMES:
        for record in bundled.recordings(instance_id).values():
            assert not [turn for turn in record["turns"] if "/testbed" in turn]


def test_gold_and_mixed_cover_every_task() -> None:
    assert bundled.recording_names()[:2] == ["gold", "mixed"]
    assert set(bundled.recorded_turns("gold")) == set(bundled.recorded_turns("mixed")) == set(ROWS)
    assert set(bundled.expected_classes("gold").values()) == {"resolved"}
    classes = list(bundled.expected_classes("mixed").values())
    assert set(classes) == {
        "resolved",
        "unresolved",
        "empty_patch",
        "malformed_patch",
        "apply_failed",
        "test_timeout",
    }
    assert classes.count("resolved") >= 4


def test_the_readme_lists_the_mixed_table() -> None:
    readme = (Path(bundled.__file__).parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+__\S+) \| (\S+) \| (\w+) \|", readme, re.MULTILINE)
    assert {instance_id: verdict_class for instance_id, _, verdict_class in rows} == bundled.expected_classes("mixed")
    for instance_id, name, _ in rows:
        assert bundled.recordings(instance_id)[name]["turns"] == bundled.recorded_turns("mixed")[instance_id]


def test_other_recordings_cover_the_tasks_that_have_them() -> None:
    for name in bundled.recording_names()[2:]:
        turns = bundled.recorded_turns(name)
        assert turns
        assert set(turns) == set(bundled.expected_classes(name)) < set(ROWS)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="gold, mixed"):
        bundled.recorded_turns("nope")
    with pytest.raises(KeyError, match="mergeling"):
        bundled.repo_files("nope__nope-1")


def test_image_names_are_lower_case_and_name_their_contents() -> None:
    names = [row["image"] for row in ROWS.values()]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"swe-sample/[a-z0-9_-]+:[0-9a-f]{12}", name)


def test_the_git_script_does_not_depend_on_place_or_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance_id = "brackwater__tabulon-203"
    configuration = tmp_path / "gitconfig"
    settings = ["core.autocrlf=true", "init.defaultBranch=trunk", "commit.gpgsign=true", "user.name=Somebody"]
    for setting in settings:
        git(tmp_path, "config", "--file", str(configuration), *setting.split("="))
    first = materialise(instance_id, tmp_path / "first")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    second = tmp_path / "second with a blank"
    for path, data in bundled.repo_files(instance_id).items():
        (second / path).parent.mkdir(parents=True, exist_ok=True)
        (second / path).write_bytes(data)
    hostile = {**os.environ, "GIT_CONFIG_GLOBAL": str(configuration), "GIT_DEFAULT_HASH": "sha256", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        ["sh", "-s"],
        input=make_repo_script(instance_id).encode(),
        cwd=second,
        env=hostile,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == first == ROWS[instance_id]["base_commit"]
    assert git(second, "show", "HEAD:tabulon/columns.py") == bundled.repo_files(instance_id)["tabulon/columns.py"]
    assert git(second, "branch", "--show-current").strip() == b"main"


def test_a_history_that_leaves_files_out_is_refused() -> None:
    history = [{"message": "one", "files": ["a.py"]}, {"message": "two", "files": ["b/*"]}]
    assert commit_files(history, ["b/c.py", "a.py"]) == [["a.py"], ["b/c.py"]]
    with pytest.raises(ValueError, match=r"in no commit: d\.py"):
        commit_files(history, ["a.py", "b/c.py", "d.py"])
    with pytest.raises(ValueError, match="'two' adds no file"):
        commit_files(history, ["a.py"])


def test_local_image_is_made_once_for_concurrent_callers(tmp_path: Path) -> None:
    instance_id = bundled.SAMPLE_NAMES[0]
    program = (
        "import sys; from pathlib import Path; from swe_eval.bundled.local_image import ensure_local_image;"
        "print(ensure_local_image(sys.argv[1], Path(sys.argv[2])))"
    )
    callers = [
        subprocess.Popen([sys.executable, "-c", program, instance_id, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = {caller.communicate()[0].strip() for caller in callers}
    assert [caller.returncode for caller in callers] == [0, 0, 0]
    assert answers == {str(ensure_local_image(instance_id, tmp_path))}
    assert len(list(tmp_path.iterdir())) == 1
    image = Path(answers.pop())
    assert git(image, "rev-parse", "HEAD").decode().strip() == ROWS[instance_id]["base_commit"]
    assert git(image, "status", "--porcelain") == b""


def test_build_context_is_reproducible() -> None:
    instance_id = "glyphwise__wrapkit-9"
    context = build_context(instance_id, "base:1")
    assert context == build_context(instance_id, "base:1") != build_context(instance_id, "base:2")


@pytest.mark.docker
def test_docker_image_holds_a_clean_checkout_of_the_base_commit() -> None:
    import docker

    # File names beyond ASCII are where a build context could go wrong.
    instance_id = "glyphwise__wrapkit-9"
    lines: list[str] = []
    ensure_docker_images([instance_id], base=None, on_progress=lines.append)
    again: list[str] = []
    ensure_docker_images([instance_id], base=None, on_progress=again.append)
    assert again == []

    client = docker.from_env()
    try:
        output = client.containers.run(
            ROWS[instance_id]["image"],
            ["sh", "-c", "git rev-parse HEAD; git status --porcelain; python3 -m unittest 2>&1 | tail -n 1"],
            remove=True,
            network_mode="none",
        )
    finally:
        client.close()
    assert output.decode().split() == [ROWS[instance_id]["base_commit"], "OK"]


@pytest.mark.docker
def test_a_base_that_cannot_be_had_is_named() -> None:
    lines: list[str] = []
    with pytest.raises(SampleBaseUnavailable, match=r"127\.0\.0\.1:1/none:1 is not here"):
        ensure_docker_images(bundled.SAMPLE_NAMES[:1], base="127.0.0.1:1/none:1", on_progress=lines.append)
    assert lines == ["pulling 127.0.0.1:1/none:1"]


def test_rows_survive_json() -> None:
    assert json.loads(json.dumps(list(ROWS.values()))) == list(ROWS.values())
