"""Diff, apply and evaluate in real sandboxes: Docker, bubblewrap and plain processes give the same answers."""

import hashlib
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from swe_exec_server import git_ops, local_bubblewrap
from swe_exec_server.backend import Backend, Container, ExecSpec
from swe_exec_server.docker_sandbox import DockerBackend
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.sandbox import DiffResult, ExecResult, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

CWD = "/testbed"
HELLO = "def hello(name):\n    return 'hello ' + name\n"
SET_UP = r"""
set -e; unset GIT_DIR
printf "def hello(name):\n    return 'hello ' + name\n" > hello.py
echo demo > README.md
printf 'build/\n*.o\n' > .gitignore
git init -q .
git add -A
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
git -c user.name=a -c user.email=a@example.invalid commit -qm first
"""
HI = "sed -i 's/hello /hi /' hello.py"
LISTING = r"""
find . -path ./.git -prune -o -path ./inner/.git -prune -o ! -type d -print0 | sort -z | xargs -0 -r sh -c '
  for path; do
    if [ -L "$path" ]; then printf "%s -> %s\n" "$path" "$(readlink "$path")"
    else printf "%s %s %s\n" "$path" "$([ -x "$path" ] && echo x)" "$(sha256sum < "$path")"; fi
  done' sh
"""


class Workbench:
    """Fresh repositories at /testbed, all with the same commit."""

    def __init__(self, backend: Backend, image: str, prepare: bool) -> None:
        self.backend, self.image, self.prepare = backend, image, prepare
        self.made: list[Container] = []

    def fresh(self, set_up: str = "", env: Mapping[str, str] | None = None) -> "Repository":
        spec = SandboxSpec(self.image, trusted=True, env=env or {})
        container = self.backend.create(spec, f"swe-{uuid.uuid4().hex[:12]}", {})
        self.made.append(container)
        repository = Repository(container)
        if self.prepare:
            repository.run(SET_UP)
        if set_up:
            repository.run(set_up)
        repository.base = git_ops.image_base(container, CWD)
        return repository

    def close(self) -> None:
        for container in self.made:
            container.destroy()


class Repository:
    """One of them, with the steps that the tests are made of."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.base: str | None = None

    def run(self, command: str, *, check: bool = True) -> ExecResult:
        result = self.container.exec(ExecSpec(command, CWD))
        assert not check or result.returncode == 0, result.text
        return result

    def diff(self, *, base: str | None = None, untracked: bool = True) -> DiffResult:
        return git_ops.extract_diff(self.container, CWD, base, self.base, untracked)

    def apply(self, patch: bytes) -> git_ops.ApplyOutcome:
        return git_ops.apply_patch(self.container, CWD, patch)

    def put(self, path: str, data: bytes) -> None:
        self.container.write_file(f"{CWD}/{path}", data)

    def get(self, path: str) -> bytes:
        return self.container.read_file(f"{CWD}/{path}", 10**8)

    def tree(self) -> str:
        """Every file with its kind, executable bit and content."""
        return self.run(LISTING).text

    def git_state(self) -> str:
        """The index, the references and the objects, as they are on disk."""
        return self.run("sha256sum .git/index .git/HEAD .git/config; find .git -type f | sort; git for-each-ref").text

    def temporary_files(self) -> str:
        return self.run('ls -A "${TMPDIR:-/tmp}"').text


@pytest.fixture(scope="session")
def image_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    subprocess.run(["sh", "-c", SET_UP], cwd=directory, check=True)
    return directory


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.docker), "bubblewrap", "process"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    made: Workbench
    if request.param == "docker":
        backend = DockerBackend(f"test-{uuid.uuid4().hex[:12]}")
        made = Workbench(backend, request.getfixturevalue("docker_base_image"), prepare=True)
    else:
        if request.param == "bubblewrap" and (why := local_bubblewrap.why_unusable()):
            pytest.skip(why)
        tree: Path = request.getfixturevalue("image_tree")
        local = LocalBackend(tmp_path / "sandboxes", {"repo": tree}.get, mode=request.param)
        made = Workbench(local, "repo", prepare=False)
    yield made
    made.close()


def assert_round_trip(bench: Workbench, change: Callable[[Repository], object], set_up: str = "") -> DiffResult:
    """A change, its patch, and the patch on a fresh copy: the trees are equal."""
    changed = bench.fresh(set_up)
    change(changed)
    diff = changed.diff()
    assert diff.patch
    other = bench.fresh(set_up)
    outcome = other.apply(diff.patch)
    assert outcome.applied, outcome.log
    assert other.tree() == changed.tree()
    return diff


def test_binary_and_text(bench: Workbench) -> None:
    diff = assert_round_trip(bench, lambda repo: repo.run(f"printf '\\000\\001\\377' > blob.bin; {HI}"))
    assert b"GIT binary patch" in diff.patch
    assert diff.base
    assert diff.warnings == ()


def test_deletion_rename_mode_and_empty_file(bench: Workbench) -> None:
    commands = "git mv README.md READ.md; chmod +x hello.py; touch empty.txt; mkdir -p 'dïr'; echo x > 'dïr/ü n.txt'"
    assert_round_trip(bench, lambda repo: repo.run(commands))
    assert_round_trip(bench, lambda repo: repo.run("rm hello.py README.md; mkdir hello.py; echo x > hello.py/x"))


CONTENTS = {
    "crlf": b"a\r\nb\r\n",
    "lone-cr": b"a\rb\rc\n",
    "no-final-newline": b"no final newline",
    "blank-lines": b"\n\n \n\n",
    "no-utf8": b"\xff\xfe\x00\n",
    "empty": b"",
    "blank-context": b"x\n" * 3 + b" \n" * 3,
    "only-cr": b"\r",
    "long-line": b"x" * 300_000,
}


def test_bytes_survive_in_new_and_in_changed_files(bench: Workbench) -> None:
    repo = bench.fresh()
    before = repo.tree()
    for name, content in CONTENTS.items():
        repo.put(name, content)
    created = repo.diff().patch
    made = repo.tree()
    repo.run("git add -A && git -c user.name=a -c user.email=a@example.invalid commit -qm more")
    assert repo.diff(base="HEAD").patch == b""
    for name, content in CONTENTS.items():
        repo.put(name, b"first\n" + content)
    changed = repo.diff(base="HEAD").patch
    other = bench.fresh()
    assert other.tree() == before
    assert other.apply(created).applied_by == "git"
    assert other.tree() == made
    assert other.apply(changed).applied_by == "git"
    assert other.tree() == repo.tree()
    for name, content in CONTENTS.items():
        assert other.get(name) == b"first\n" + content


def test_links_and_names(bench: Workbench) -> None:
    commands = r"""
    ln -s hello.py link; ln -s /nowhere/at/all dangling; rm README.md; ln -s hello.py README.md
    touch -- '-dash' 'a"quote' 'back\slash' 'sp ace' "$(printf 'tab\there')" "$(printf 'new\nline')"
    touch -- "$(printf 'bad\377')"
    for file in -dash 'a"quote' 'back\slash'; do echo "$file" > "./$file"; done
    """
    assert_round_trip(bench, lambda repo: repo.run(commands))


def test_files_and_directories_change_places(bench: Workbench) -> None:
    set_up = "mkdir d; echo 1 > d/a; echo 2 > d/b; git add -A; git -c user.name=a -c user.email=a@b commit -qm d"
    assert_round_trip(bench, lambda repo: repo.run("rm -r d; echo now a file > d; rm hello.py"), set_up)


def test_a_directory_becomes_a_link_to_where_it_went(bench: Workbench) -> None:
    set_up = "mkdir d; echo 1 > d/a; echo 2 > d/b; git add -A; git -c user.name=a -c user.email=a@b commit -qm d"
    assert_round_trip(bench, lambda repo: repo.run("mv d e; ln -s e d"), set_up)


def test_committed_work_is_work(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run(f"{HI} && git -c user.name=a -c user.email=a@example.invalid commit -qam wip; echo more >> README.md")
    patch = repo.diff().patch
    assert b"+    return 'hi ' + name" in patch
    assert b"+more" in patch
    assert b"hi " not in repo.diff(base="HEAD").patch


def test_a_diff_changes_nothing(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run("echo new > new.txt; echo staged > staged.txt; git add staged.txt")
    before = repo.git_state(), repo.tree(), repo.temporary_files()
    assert b"new.txt" in repo.diff().patch
    assert (repo.git_state(), repo.tree(), repo.temporary_files()) == before
    assert repo.run("git status --porcelain").text == "A  staged.txt\n?? new.txt\n"


def test_nothing_changed_is_an_empty_patch(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run("touch hello.py; mkdir build; echo x > build/out; echo x > a.o")
    assert repo.diff().patch == b""


def test_ignored_files_count_only_when_added_on_purpose(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run("mkdir build; echo x > build/kept; echo x > build/artefact; git add -f build/kept")
    patch = repo.diff().patch
    assert b"build/kept" in patch
    assert b"artefact" not in patch


def test_untracked_files_can_be_left_out(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run(f"{HI}; echo 1 > loose.txt; echo 2 > added.txt; git add added.txt")
    patch = repo.diff(untracked=False).patch
    assert b"hi " in patch
    assert b"added.txt" in patch
    assert b"loose.txt" not in patch


def test_dubious_ownership(bench: Workbench) -> None:
    repo = bench.fresh()
    if repo.run(f"{HI}; chown -R 1234 .", check=False).returncode != 0:
        pytest.skip("no other owner can be set here")
    assert b"hi " in repo.diff().patch


def test_stale_index_lock(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run(f"{HI}; touch .git/index.lock")
    assert b"hi " in repo.diff().patch


def test_nested_repositories_are_reported(bench: Workbench) -> None:
    commit = "git -c user.name=a -c user.email=a@example.invalid commit -qm a"
    repo = bench.fresh()
    repo.run(f"git init -q inner && cd inner && echo a > a && git add a && {commit}; cd ..; {HI}; git init -q 'in [2]'")
    diff = repo.diff()
    assert b"hi " in diff.patch
    assert b"Subproject" not in diff.patch
    assert b"inner" not in diff.patch
    assert any("inner" in warning for warning in diff.warnings)
    assert any("in [2]" in warning for warning in diff.warnings)
    assert bench.fresh().apply(diff.patch).applied
    repo.run(f"git add inner; {commit}")
    assert b"Subproject" not in repo.diff().patch


def test_a_file_that_became_a_repository_is_reported(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run(
        f"rm README.md; git init -q README.md; cd README.md; echo a > a; git add a; "
        f"git -c user.name=a -c user.email=a@example.invalid commit -qm a; cd ..; {HI}"
    )
    diff = repo.diff()
    assert b"Subproject" not in diff.patch
    assert b"hi " in diff.patch
    assert any("README.md" in warning for warning in diff.warnings)


def test_configuration_and_attributes_have_no_say(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run(
        r"""
        git config diff.noprefix true; git config diff.mnemonicPrefix true; git config color.ui always
        git config core.autocrlf true; git config core.safecrlf true; git config diff.external /bin/false
        git config diff.py.textconv 'tr a-z A-Z'; git config filter.up.clean 'tr a-z A-Z'
        git config core.fileMode false
        git config core.quotePath true; git config core.hooksPath "$PWD/hooks"; git config core.fsmonitor /bin/false
        printf '* text=auto\n*.py diff=py filter=up\n*.bin -diff\n' > .gitattributes
        printf 'a\r\nb\r\n' > dos.txt; chmod +x README.md; printf 'x\0' > x.bin
        """
        + HI
    )
    diff = repo.diff()
    assert b"diff --git a/hello.py b/hello.py\n" in diff.patch
    assert b"+a\r\n+b\r\n" in diff.patch
    assert b"new mode 100755" in diff.patch
    assert b"\x1b[" not in diff.patch
    other = bench.fresh()
    assert other.apply(diff.patch).applied
    assert other.tree() == repo.tree()


EOL = r"""
printf '*.bat text eol=crlf\n' > .gitattributes; printf 'one\r\ntwo\r\nthree\r\n' > run.bat; printf 'x\r\n' > still.bat
git add -A; git -c user.name=a -c user.email=a@example.invalid commit -qm bat
"""


def test_files_that_attributes_check_out_with_crlf(bench: Workbench) -> None:
    diff = assert_round_trip(bench, lambda repo: repo.run("sed -i 's/two/TWO/' run.bat"), EOL)
    assert b"-two\r\n+TWO\r\n" in diff.patch
    assert b"-one" not in diff.patch
    assert b"still.bat" not in diff.patch
    repo = bench.fresh(EOL)
    made_of_blobs = b"--- a/run.bat\n+++ b/run.bat\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert repo.apply(made_of_blobs).applied_by == "git"
    assert repo.get("run.bat") == b"one\r\n2\r\nthree\r\n"


def test_a_subdirectory_gives_the_patch_of_the_whole_repository(bench: Workbench) -> None:
    repo = bench.fresh("mkdir sub; echo 1 > sub/x; git add -A; git -c user.name=a -c user.email=a@b commit -qm sub")
    repo.run(HI)
    patch = git_ops.extract_diff(repo.container, f"{CWD}/sub", None, repo.base, True).patch
    assert b"a/hello.py" in patch
    other = bench.fresh("mkdir sub; echo 1 > sub/x")
    assert git_ops.apply_patch(other.container, f"{CWD}/sub", patch).applied
    assert other.get("hello.py") == repo.get("hello.py")


def test_faults_are_errors_never_empty_patches(bench: Workbench) -> None:
    repo = bench.fresh()

    def code(base: str | None = None, cwd: str = CWD) -> tuple[ErrorCode, str]:
        with pytest.raises(SandboxError) as caught:
            git_ops.extract_diff(repo.container, cwd, base, repo.base, True)
        assert "\n" not in caught.value.message
        return caught.value.code, caught.value.message

    assert code(base="no-such-branch")[0] == ErrorCode.BAD_REQUEST
    assert code(base="--output=/tmp/x")[0] == ErrorCode.BAD_REQUEST
    assert code(cwd="/")[0] == ErrorCode.BAD_REQUEST
    assert "/no/where" in code(cwd="/no/where")[1]
    repo.run("echo '[broken' > .git/config")
    assert code()[0] == ErrorCode.INTERNAL
    repo.run("rm -rf .git/config; find .git/objects -type f -exec rm -f {} +")
    assert code()[0] in (ErrorCode.INTERNAL, ErrorCode.BAD_REQUEST)
    repo.run("rm -rf .git")
    assert code()[0] == ErrorCode.BAD_REQUEST
    assert git_ops.image_base(repo.container, CWD) is None
    assert repo.temporary_files() == ""


@pytest.mark.parametrize(
    ("set_up", "cwd"),
    [
        ("true", ""),
        ("git pack-refs --all", ""),
        ("git checkout -q --detach", ""),
        ("git checkout -q -b a/b", ""),
        ("mkdir sub", "/sub"),
        ("git worktree add -q linked", "/linked"),
        ("git clone -q --bare . bare", "/bare"),
    ],
)
def test_the_base_is_what_git_calls_head(bench: Workbench, set_up: str, cwd: str) -> None:
    repo = bench.fresh(set_up)
    expected = repo.run("git rev-parse HEAD").text.strip()
    assert git_ops.image_base(repo.container, CWD + cwd) == (expected if cwd != "/bare" else None)


@pytest.mark.parametrize("set_up", ["rm -rf .git", "rm -rf .git; git init -q", "rm -rf .git; mkdir .git"])
def test_there_is_no_base_without_a_commit(bench: Workbench, set_up: str) -> None:
    assert git_ops.image_base(bench.fresh(set_up).container, CWD) is None


def test_without_a_repository_at_lease_time_the_base_is_head_now(bench: Workbench) -> None:
    repo = bench.fresh("rm -rf .git")
    assert repo.base is None
    repo.run("git init -q . && git add -A && git -c user.name=a -c user.email=a@example.invalid commit -qm x")
    repo.run(HI)
    diff = repo.diff()
    assert b"+    return 'hi ' + name" in diff.patch
    assert b"README" not in diff.patch
    assert diff.base == repo.run("git rev-parse HEAD").text.strip()


def test_a_patch_applies_without_a_repository(bench: Workbench) -> None:
    changed = bench.fresh()
    changed.run(f"{HI}; printf '\\0\\1' > new.bin; rm README.md")
    patch = changed.diff().patch
    bare = bench.fresh("rm -rf .git")
    assert bare.apply(patch).applied
    assert bare.tree() == changed.tree()
    assert bare.run("ls -A").text.split() == [".gitignore", "hello.py", "new.bin"]


def test_three_way_takes_over_when_context_moved(bench: Workbench) -> None:
    lines = "seq 1 30 > numbers; git add -A; git -c user.name=a -c user.email=a@example.invalid commit -qm n"
    changed = bench.fresh(lines)
    changed.run("sed -i 's/^15$/fifteen/' numbers")
    patch = changed.diff().patch
    moved = bench.fresh(lines)
    moved.run("sed -i 's/^12$/twelve/; s/^11$/eleven/' numbers")
    outcome = moved.apply(patch)
    assert (outcome.applied, outcome.applied_by) == (True, "3way"), outcome.log
    assert b"twelve" in moved.get("numbers")
    assert b"fifteen" in moved.get("numbers")
    assert moved.run("git diff --cached --name-only").text == ""


def test_fuzz_is_the_last_resort(bench: Workbench) -> None:
    repo = bench.fresh("printf 'a\\nb\\nc\\nd\\ne\\nf\\ng\\n' > letters")
    fuzzy = b"--- a/letters\n+++ b/letters\n@@ -1,7 +1,7 @@\n A\n b\n c\n-d\n+D\n e\n f\n G\n"
    outcome = repo.apply(fuzzy)
    assert (outcome.applied, outcome.applied_by) == (True, "fuzz"), outcome.log
    assert repo.get("letters") == b"a\nb\nc\nD\ne\nf\ng\n"
    assert sorted(repo.run("ls").text.split()) == ["README.md", "hello.py", "letters"]


def test_a_failed_chain_leaves_no_trace(bench: Workbench) -> None:
    repo = bench.fresh("echo loose > loose.txt; chmod 600 loose.txt; echo staged > staged.txt; git add staged.txt")
    half = (
        b"diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-demo\n+changed\n"
        b"diff --git a/deep/new.txt b/deep/new.txt\nnew file mode 100644\n"
        b"--- /dev/null\n+++ b/deep/new.txt\n@@ -0,0 +1 @@\n+n\n"
        b"diff --git a/hello.py b/hello.py\n--- a/hello.py\n+++ b/hello.py\n"
        b"@@ -1,2 +1,2 @@\n no such line\n-nor this\n+x\n"
    )
    before = repo.git_state(), repo.tree(), repo.run("stat -c '%n %a %Y' *; ls -A").text
    outcome = repo.apply(half)
    assert not outcome.applied
    assert outcome.applied_by == "none"
    assert "git apply" in outcome.log
    assert "patch --fuzz" in outcome.log
    assert (repo.git_state(), repo.tree(), repo.run("stat -c '%n %a %Y' *; ls -A").text) == before
    assert repo.temporary_files() == ""


def test_an_applied_patch_leaves_only_itself(bench: Workbench) -> None:
    repo = bench.fresh("echo loose > loose.txt; echo staged > staged.txt; git add staged.txt")
    before = repo.git_state()
    assert repo.apply(b"--- a/README.md\n+++ b/README.md\n@@ -1 +1,2 @@\n demo\n+trailing space \n").applied
    assert repo.get("README.md") == b"demo\ntrailing space \n"
    assert repo.git_state() == before
    assert repo.temporary_files() == ""


@pytest.mark.parametrize("path", ["../outside", ".git/hooks/pre-commit", "x/../../outside", "a//b", "./hello.py"])
def test_paths_with_a_second_meaning_are_refused(bench: Workbench, path: str) -> None:
    repo = bench.fresh()
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n".encode()
    outcome = repo.apply(patch)
    assert not outcome.applied
    assert "refused" in outcome.log


def test_links_are_not_followed_out_of_the_tree(bench: Workbench) -> None:
    repo = bench.fresh('mkdir "${TMPDIR:-/tmp}/target"; ln -s "${TMPDIR:-/tmp}/target" out')
    outcome = repo.apply(b"--- /dev/null\n+++ b/out/file\n@@ -0,0 +1 @@\n+x\n")
    assert not outcome.applied
    assert repo.run('ls -A "${TMPDIR:-/tmp}/target"').text == ""


def evaluate(
    repo: Repository, patch: bytes, script: str, *, empty: bool = False, timeout: float = 60.0
) -> tuple[bool, int | None, str]:
    result = git_ops.evaluate(repo.container, CWD, patch, script, timeout, empty, 1 << 20)
    assert (result.returncode == -1) == result.timed_out
    return result.applied, result.returncode, result.output.decode()


def test_evaluate_script_that_reads_stdin(bench: Workbench) -> None:
    repo = bench.fresh()
    assert evaluate(repo, b"", "cat\necho LAST-LINE\nexit 3\n", empty=True) == (True, 3, "LAST-LINE\n")
    assert repo.temporary_files() == ""


def test_evaluate_applies_first_and_keeps_nothing_of_it_in_sight(bench: Workbench) -> None:
    patch = b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-demo\n+done\n"
    script = 'cat README.md; git status --porcelain; a=(1 2); echo ${#a[@]}; ls -A "${TMPDIR:-/tmp}"/.swe-*'
    applied, code, output = evaluate(bench.fresh(), patch, script)
    assert (applied, code) == (True, 0)
    assert output.splitlines()[:3] == ["done", " M README.md", "2"]
    assert "patch" not in output


def test_evaluate_runs_with_the_variables_of_the_lease_and_git_of_ours_without(bench: Workbench) -> None:
    repo = bench.fresh(env={"MINE": "a b", "GIT_DIR": "/nowhere", "GIT_EXTERNAL_DIFF": "/bin/false"})
    assert repo.base is not None
    assert evaluate(repo, b"", 'echo "$MINE"', empty=True) == (True, 0, "a b\n")
    repo.put("README.md", b"changed\n")
    assert b"+changed" in repo.diff().patch


def test_evaluate_large_patch(bench: Workbench) -> None:
    lines = (b"0123456789" * 5)[:49] + b"\n"
    count = 100_000
    patch = b"--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,%d @@\n" % count + (b"+" + lines) * count
    applied, code, output = evaluate(bench.fresh(), patch, "wc -c < big.txt")
    assert (applied, code, output.strip()) == (True, 0, "5000000")


def test_evaluate_refuses_what_makes_no_sense(bench: Workbench) -> None:
    repo = bench.fresh()
    for patch, script, empty in ((b"", "true", False), (b" \n", "true", False), (b"", " \n", True)):
        with pytest.raises(SandboxError) as caught:
            evaluate(repo, patch, script, empty=empty)
        assert caught.value.code == ErrorCode.BAD_REQUEST
    prose = b"diff --git is a command; --- a/x +++ b/x are headers"
    applied, code, output = evaluate(repo, prose, "touch ran")
    assert (applied, code) == (False, None)
    assert output.startswith("malformed patch: ")
    assert repo.run("ls").text == "README.md\nhello.py\n"


def test_evaluate_completes_what_a_transport_stripped(bench: Workbench) -> None:
    set_up = (
        "printf 'a\\nb\\n\\n\\n\\n' > gaps; git add -A; git -c user.name=a -c user.email=a@example.invalid commit -qm g"
    )
    changed = bench.fresh(set_up)
    changed.run("sed -i s/b/B/ gaps")
    patch = changed.diff().patch
    assert patch.endswith(b" \n \n \n")
    assert evaluate(bench.fresh(set_up), patch.strip(), "cat gaps") == (True, 0, "a\nB\n\n\n\n")


def test_evaluate_timeout_keeps_the_output(bench: Workbench) -> None:
    repo = bench.fresh()
    assert evaluate(repo, b"", "echo before; sleep 300", empty=True, timeout=1.0) == (True, -1, "before\n")
    assert repo.temporary_files() == ""


def test_a_patch_larger_than_any_output_limit(bench: Workbench) -> None:
    repo = bench.fresh()
    repo.run("head -c 3000000 /dev/urandom > noise.bin; seq 1 400000 > numbers.txt")
    patch = repo.diff().patch
    other = bench.fresh()
    assert other.apply(patch).applied
    for name in ("noise.bin", "numbers.txt"):
        assert hashlib.sha256(other.get(name)).digest() == hashlib.sha256(repo.get(name)).digest()


def test_images_are_copied_not_used(image_tree: Path, tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path / "s", {"repo": image_tree}.get, mode="process")
    bench = Workbench(backend, "repo", prepare=False)
    try:
        bench.fresh().run(f"{HI}; rm -rf .git")
    finally:
        bench.close()
    assert (image_tree / "hello.py").read_text() == HELLO
    assert (image_tree / ".git").is_dir()
