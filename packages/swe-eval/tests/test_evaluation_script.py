"""The evaluation script run by a real bash in a real repository, and whole evaluations in real sandboxes."""

import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from swe_eval.datasets import load
from swe_eval.evaluation import evaluate_patch
from swe_eval.evaluation_script import (
    NoTestCommand,
    check_test_command,
    evaluation_script,
    new_nonce,
    setup_failure,
)
from swe_eval.grading import ListedTests, grade_log
from swe_eval.instances import Instance
from swe_eval.markers import END, START, begin_line, end_line
from swe_eval.verdicts import Verdict, VerdictClass
from swe_exec_server.client import AsyncExecClient
from swe_exec_server.embedded import EmbeddedOptions, open_embedded
from swe_exec_server.sandbox import Sandbox, SandboxSpec

NONCE = "0123456789abcdef"
IDENTITY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
for _who in ("AUTHOR", "COMMITTER"):
    IDENTITY |= {f"GIT_{_who}_NAME": "A", f"GIT_{_who}_EMAIL": "a@example.org"}


def git(repo: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=repo, env=os.environ | IDENTITY, check=True, capture_output=True
    ).stdout


def write(repo: Path, path: str, data: bytes, *, executable: bool = False) -> None:
    (repo / path).parent.mkdir(parents=True, exist_ok=True)
    (repo / path).write_bytes(data)
    (repo / path).chmod(0o755 if executable else 0o644)


OLD_TEST = b"import unittest, x\nclass T(unittest.TestCase):\n    def test_one(self): self.assertEqual(x.ONE, 1)\n"
NEW_TEST = OLD_TEST + b"    def test_two(self): self.assertEqual(x.TWO, 2)\n"
CRLF_DATA = b"one\r\ntwo\r\n"
F2P, P2P = ("tests.test_x.T.test_two",), ("tests.test_x.T.test_one",)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "testbed"
    root.mkdir()
    git(root, "init", "-q")
    write(root, "x.py", b"ONE = 1\n")
    write(root, "tests/__init__.py", b"")
    write(root, "tests/test_x.py", OLD_TEST)
    write(root, "tests/gone.txt", b"old\n")
    write(root, "tests/data.txt", b"one\r\n")
    write(root, ".gitattributes", b"*.txt eol=crlf\n")
    git(root, "-c", "core.autocrlf=false", "add", "-A")
    git(root, "commit", "-qm", "base")
    return root


@pytest.fixture
def instance(repo: Path) -> Instance:
    """The test patch changes a file, adds an executable, a link and a file with a space and a quote, removes one."""
    base = git(repo, "rev-parse", "HEAD").decode().strip()
    write(repo, "tests/test_x.py", NEW_TEST)
    write(repo, "tests/new/it's new.sh", b"#!/bin/sh\necho hi", executable=True)
    (repo / "tests/link").symlink_to("test_x.py")
    (repo / "tests/gone.txt").unlink()
    git(repo, "add", "-A")
    patch = git(repo, "diff", "--cached", "--binary", "HEAD")
    git(repo, "reset", "-q", "--hard")
    return Instance(
        "a__b-1",
        "",
        F2P,
        P2P,
        base_commit=base,
        test_patch=patch,
        test_cmd="python3 -m unittest -v tests.test_x",
        log_parser="unittest",
    )


def run(repo: Path, script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", script], cwd=repo, env=os.environ | IDENTITY, capture_output=True, check=False)


def verdict_of(repo: Path, instance: Instance) -> tuple[Verdict, subprocess.CompletedProcess[bytes]]:
    done = run(repo, evaluation_script(instance, NONCE))
    verdict = grade_log(done.stdout, ListedTests.of(instance), exit_code=done.returncode, nonce=NONCE)
    return verdict, done


def test_official_files_are_written_byte_for_byte_with_their_modes(repo: Path, instance: Instance) -> None:
    before = git(repo, "rev-parse", "HEAD"), (repo / ".git/index").read_bytes()
    verdict, done = verdict_of(repo, instance)
    assert (repo / "tests/test_x.py").read_bytes() == NEW_TEST
    assert (repo / "tests/new/it's new.sh").read_bytes() == b"#!/bin/sh\necho hi"
    assert os.access(repo / "tests/new/it's new.sh", os.X_OK)
    assert not os.access(repo / "tests/test_x.py", os.X_OK)
    assert (repo / "tests/link").readlink() == Path("test_x.py")
    assert not (repo / "tests/gone.txt").exists()
    assert (git(repo, "rev-parse", "HEAD"), (repo / ".git/index").read_bytes()) == before
    assert (done.returncode, verdict.resolved, verdict.f2p, verdict.p2p) == (1, False, (0, 1), (1, 1))


def test_a_fix_is_resolved(repo: Path, instance: Instance) -> None:
    write(repo, "x.py", b"ONE, TWO = 1, 2\n")
    verdict, done = verdict_of(repo, instance)
    assert (done.returncode, verdict.class_, verdict.resolved_strict) == (0, VerdictClass.RESOLVED, True)
    assert verdict.flags == ()


def test_what_the_patch_put_in_the_place_of_test_files_is_replaced(repo: Path, instance: Instance) -> None:
    write(repo, "x.py", b"ONE, TWO = 1, 2\n")
    outside = repo.parent / "outside"
    write(outside, "keep.txt", b"kept\n")
    (repo / "tests/test_x.py").unlink()
    write(repo, "tests/test_x.py/__init__.py", b"")  # a directory
    (repo / "tests/new").symlink_to(outside)  # a directory that leads elsewhere
    write(repo, "tests/link", b"a file")
    verdict, _ = verdict_of(repo, instance)
    assert verdict.resolved
    assert (repo / "tests/new").is_dir() and not (repo / "tests/new").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["keep.txt"]


def test_a_whole_tests_directory_replaced_by_a_link(repo: Path, instance: Instance) -> None:
    outside = repo.parent / "outside"
    write(outside, "test_x.py", b"raise SystemExit(0)\n")
    subprocess.run(["rm", "-r", "tests"], cwd=repo, check=True)
    (repo / "tests").symlink_to(outside)
    verdict_of(repo, instance)
    assert not (repo / "tests").is_symlink()
    assert (repo / "tests/test_x.py").read_bytes() == NEW_TEST
    assert (outside / "test_x.py").read_bytes() == b"raise SystemExit(0)\n"


def test_hooks_and_line_end_settings_of_the_repository_change_nothing(repo: Path, instance: Instance) -> None:
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "config", "core.hooksPath", "hooks")
    write(repo, "hooks/post-checkout", b"#!/bin/sh\ntouch hooked\n", executable=True)
    verdict_of(repo, instance)
    assert (repo / "tests/test_x.py").read_bytes() == NEW_TEST
    assert not (repo / "hooked").exists()


def test_an_unknown_base_commit_falls_back_to_the_images_head(repo: Path, instance: Instance) -> None:
    write(repo, "x.py", b"ONE, TWO = 1, 2\n")
    verdict, _ = verdict_of(repo, replace(instance, base_commit="f" * 40))
    assert verdict.resolved


def test_test_files_that_cannot_be_written_are_told_apart(repo: Path, instance: Instance) -> None:
    broken = replace(instance, test_patch=instance.test_patch.replace(b" import unittest, x", b" import something"))
    done = run(repo, evaluation_script(broken, NONCE))
    assert done.returncode == 97
    assert "patch does not apply" in setup_failure(done.stdout, NONCE)
    assert setup_failure(done.stdout, "another nonce") == ""


def test_the_test_command_sees_no_colours_no_input_and_gives_its_exit_code(repo: Path, instance: Instance) -> None:
    command = "cat; echo \"colours: ${FORCE_COLOR-off} $NO_COLOR\"; echo 'no line end' >&2; printf x; exit 7"
    script = evaluation_script(replace(instance, test_cmd=command, test_patch=b""), NONCE)
    done = run(repo, script)
    begin, end = begin_line(NONCE), end_line(NONCE)
    assert done.returncode == 7
    assert done.stdout.decode() == f"\n{begin}\ncolours: off 1\nno line end\nx\n{end}\n"
    assert done.stderr == b""


# --- scripts of rows --------------------------------------------------------------------------------------------------

ROW_SCRIPT = f"""#!/bin/bash
set -uxo pipefail
cat <<'EOF_114329324912'
: '{START}'
EOF_114329324912
: '{START}'
printf 'PASSED a\\nFAILED b - no'; (exit 3)
: '{END}'
true
"""


def scripted(script: str) -> Instance:
    return Instance("a__b-1", "", ("a",), ("b",), eval_script=script, log_parser="pytest")


def test_a_rows_script_keeps_its_lines_and_gains_the_exit_code_of_its_tests() -> None:
    script = evaluation_script(scripted(ROW_SCRIPT), NONCE)
    own = ROW_SCRIPT.splitlines()
    assert [line for line in script.splitlines() if line in own] == own
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 3
    verdict = grade_log(done.stdout, ListedTests.of(scripted(ROW_SCRIPT)), exit_code=3, nonce=NONCE)
    assert (verdict.f2p, verdict.p2p, verdict.flags) == ((1, 1), (0, 1), ())


@pytest.mark.parametrize(("code", "complete"), [(0, True), (4, False)])
def test_a_script_that_stops_at_the_first_failure(code: int, complete: bool) -> None:
    script = "#!/bin/bash\nset -exo pipefail\ntrue <<'EOF_1'\nPASSED fake\nEOF_1\n"
    script += f"(echo PASSED a; exit {code})\ngit checkout x\n"
    done = subprocess.run(
        ["bash", "-c", evaluation_script(scripted(script), NONCE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == code  # not that of the checkout, which fails here
    assert (end_line(NONCE).encode() in done.stdout.split(b"\n")) == complete
    verdict = grade_log(done.stdout, ListedTests.of(scripted(script)), exit_code=code, nonce=NONCE)
    assert dict(verdict.status) == {"a": "PASSED"}


def test_a_script_without_any_landmark_is_marked_as_a_whole() -> None:
    done = subprocess.run(
        ["bash", "-c", evaluation_script(scripted("echo PASSED a\nfalse"), NONCE)], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.decode() == f"\n{begin_line(NONCE)}\nPASSED a\n\n{end_line(NONCE)}\n"


def test_rows_that_cannot_be_run_are_told_before_the_start() -> None:
    with pytest.raises(NoTestCommand, match=r"^a__b-1: the row has neither eval_script nor test_cmd"):
        check_test_command(Instance("a__b-1", "", ("t",), (), log_parser="pytest"))
    with pytest.raises(NoTestCommand, match=r"^a__b-1: no log parser"):
        check_test_command(Instance("a__b-1", "", ("t",), (), test_cmd="x"))


def test_every_evaluation_has_its_own_nonce() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100


# --- whole evaluations ------------------------------------------------------------------------------------------------

GOLD = b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n ONE = 1\n+TWO = 2\n"
WRONG = GOLD.replace(b"TWO = 2", b"TWO = 3")


@pytest.fixture
async def client(tmp_path: Path, repo: Path) -> AsyncIterator[AsyncExecClient]:
    options = EmbeddedOptions(directory=tmp_path / "run", backend="local", local_images=lambda _: repo)
    client = open_embedded(options)
    yield client
    await client.close()


async def evaluate(client: AsyncExecClient, instance: Instance, patch: bytes, timeout: float = 60) -> Verdict:
    async def fresh() -> Sandbox:
        return await client.create(SandboxSpec(image="local", trusted=True))

    verdict, log = await evaluate_patch(fresh, instance, patch, timeout=timeout)
    assert isinstance(log, bytes)
    return verdict


@pytest.mark.parametrize(
    ("patch", "class_"),
    [
        (GOLD, VerdictClass.RESOLVED),
        (GOLD.rstrip(), VerdictClass.RESOLVED),
        (WRONG, VerdictClass.UNRESOLVED),
        (b"", VerdictClass.EMPTY_PATCH),
        (b"no patch\n", VerdictClass.MALFORMED_PATCH),
        (GOLD.replace(b" ONE = 1", b"-NONE = 1").replace(b"+1,2", b"+1"), VerdictClass.APPLY_FAILED),
    ],
    ids=["gold", "no-final-newline", "wrong", "empty", "prose", "wrong-context"],
)
async def test_a_patch_ends_in_its_class(
    client: AsyncExecClient, instance: Instance, patch: bytes, class_: VerdictClass
) -> None:
    verdict = await evaluate(client, instance, patch)
    assert verdict.class_ is class_
    assert verdict.resolved == verdict.resolved_strict == (class_ is VerdictClass.RESOLVED)
    assert bool(verdict.error) == (class_ in (VerdictClass.MALFORMED_PATCH, VerdictClass.APPLY_FAILED))


async def test_a_patch_that_edits_the_tests_is_graded_without_those_hunks(
    client: AsyncExecClient, instance: Instance
) -> None:
    cheat = b"diff --git a/tests/test_x.py b/tests/test_x.py\ndeleted file mode 100644\n"
    cheat += b"--- a/tests/test_x.py\n+++ /dev/null\n"
    cheat += b"@@ -1,3 +0,0 @@\n" + b"".join(b"-" + line for line in OLD_TEST.splitlines(keepends=True))
    alone = await evaluate(client, instance, cheat)
    assert (alone.class_, alone.p2p) == (VerdictClass.UNRESOLVED, (1, 1))
    assert alone.flags == ("test_files_dropped",)
    both = await evaluate(client, instance, GOLD + cheat)
    assert (both.class_, both.dropped) == (VerdictClass.RESOLVED, ("tests/test_x.py",))


async def test_tests_over_their_time_keep_what_did_run(client: AsyncExecClient, instance: Instance) -> None:
    slow = replace(instance, test_cmd="python3 -m unittest -v tests.test_x; sleep 60")
    verdict = await evaluate(client, slow, GOLD, timeout=3)
    assert (verdict.class_, verdict.timed_out, verdict.resolved) == (VerdictClass.TEST_TIMEOUT, True, False)
    assert (verdict.f2p, verdict.p2p) == ((1, 1), (1, 1))


async def test_a_test_patch_that_does_not_fit_is_not_the_models_fault(
    client: AsyncExecClient, instance: Instance
) -> None:
    broken = replace(instance, test_patch=instance.test_patch.replace(b" import unittest, x", b" import something"))
    verdict = await evaluate(client, broken, GOLD)
    assert verdict.class_ is VerdictClass.INFRA_ERROR
    assert "official test files" in verdict.error


@pytest.mark.docker
async def test_the_same_verdicts_in_a_container(tmp_path: Path, docker_base_image: str, instance: Instance) -> None:
    """The tree is made in the container by the fixture's own history, carried as a bundle."""
    repo = tmp_path / "testbed"
    bundle = git(repo, "bundle", "create", "-q", "-", "HEAD")
    client = open_embedded(EmbeddedOptions(directory=tmp_path / "run", backend="docker", max_containers=2))

    async def fresh() -> Sandbox:
        sandbox = await client.create(SandboxSpec(image=docker_base_image, owner="test"))
        await sandbox.write_file("/tmp/repo.bundle", bundle)
        done = await sandbox.exec("git init -q . && git pull -q /tmp/repo.bundle HEAD && rm /tmp/repo.bundle")
        assert done.returncode == 0, done.text
        return sandbox

    try:
        classes = [(await evaluate_patch(fresh, instance, patch, timeout=60))[0].class_ for patch in (GOLD, WRONG)]
    finally:
        await client.close()
    assert classes == [VerdictClass.RESOLVED, VerdictClass.UNRESOLVED]


def test_the_bundled_tasks_have_scripts() -> None:
    for instance in load("sample", environ={}).instances:
        check_test_command(instance)
        assert evaluation_script(instance, NONCE).startswith("#!/bin/bash\n")
