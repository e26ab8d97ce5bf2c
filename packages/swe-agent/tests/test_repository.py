"""One's own repository: a clean checkout for the container, and the original as it was."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from swe_agent.repository import has_history, is_url, make_checkout, resolve_commit, shown_repo
from swe_exec_server.common.errors import UsageError

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def state_of(directory: Path) -> dict[str, tuple[str, int]]:
    """Content and modification time of every file and directory, those of git included."""
    found = {}
    for parent, _, names in os.walk(directory):
        for path in (Path(parent), *(Path(parent, name) for name in names)):
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (content, path.lstat().st_mtime_ns)
    return found


@pytest.fixture
def original(repository: Path) -> Path:
    """A repository with two commits, a branch, a tag, and work that is not committed."""
    git(repository, "tag", "v1")
    git(repository, "branch", "old")
    (repository / "more.py").write_text("x = 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "more")
    (repository / "hello.py").write_text("print('in flux')\n")
    (repository / "new.txt").write_text("untracked\n")
    return repository


def test_a_path_becomes_a_clean_checkout_and_stays_untouched(original: Path, tmp_path: Path) -> None:
    before = state_of(original)
    checkout = make_checkout(str(original), "", tmp_path / "out")
    assert state_of(original) == before
    assert checkout.commit == git(original, "rev-parse", "HEAD")
    assert checkout.notes == ("2 uncommitted changes are left out; work starts at HEAD",)
    assert (checkout.directory / "hello.py").read_text() == "print('hello world')\n"
    assert not (checkout.directory / "new.txt").exists()
    assert git(checkout.directory, "status", "--porcelain") == ""
    assert git(checkout.directory, "log", "--format=%s").split() == ["more", "start"]


def test_nothing_in_the_checkout_tells_where_it_came_from(original: Path, tmp_path: Path) -> None:
    checkout = make_checkout(str(original), "", tmp_path / "out")
    assert git(checkout.directory, "remote") == ""
    found = [
        path
        for path in (checkout.directory / ".git").rglob("*")
        if path.is_file() and str(original).encode() in path.read_bytes()
    ]
    assert found == []


@pytest.mark.parametrize("base", ["v1", "old", "HEAD~1"])
def test_work_may_start_from_an_earlier_commit(original: Path, tmp_path: Path, base: str) -> None:
    checkout = make_checkout(str(original), base, tmp_path / "out")
    assert checkout.commit == resolve_commit(str(original), base) == git(original, "rev-parse", base)
    assert not (checkout.directory / "more.py").exists()
    assert checkout.notes == ()


@pytest.mark.parametrize("base", ["", "v1", "old"])
def test_a_url_is_cloned(original: Path, tmp_path: Path, base: str) -> None:
    checkout = make_checkout(f"file://{original}", base, tmp_path / "out")
    assert checkout.commit == git(original, "rev-parse", base or "HEAD")


def test_a_directory_below_the_top_stands_for_its_repository(original: Path, tmp_path: Path) -> None:
    (original / "deep").mkdir()
    assert (make_checkout(str(original / "deep"), "", tmp_path / "out").directory / "more.py").exists()


def test_a_linked_worktree_is_a_repository_too(original: Path, tmp_path: Path) -> None:
    git(original, "worktree", "add", "-q", str(tmp_path / "linked"), "old")
    checkout = make_checkout(str(tmp_path / "linked"), "", tmp_path / "out")
    assert checkout.commit == git(original, "rev-parse", "old")


def test_a_directory_without_git_is_committed_once_and_always_the_same(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text("a\n")
    (plain / "run.sh").write_text("#!/bin/sh\n")
    (plain / "run.sh").chmod(0o755)
    (plain / "link").symlink_to("a.py")
    first, second = (make_checkout(str(plain), "", tmp_path / name) for name in ("one", "two"))
    assert first.commit == second.commit
    assert first.notes == ("no git repository: its files were copied and committed once",)
    assert git(first.directory, "ls-files").split() == ["a.py", "link", "run.sh"]
    assert not (plain / ".git").exists()
    assert not has_history(str(plain))


def test_caches_are_no_part_of_a_patch(original: Path, tmp_path: Path) -> None:
    directory = make_checkout(str(original), "", tmp_path / "out").directory
    (directory / "__pycache__").mkdir()
    (directory / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert git(directory, "status", "--porcelain") == ""


def test_submodules_are_told_about(original: Path, tmp_path: Path) -> None:
    (original / ".gitmodules").write_text("")
    git(original, "add", ".gitmodules")
    git(original, "commit", "-qm", "submodules")
    assert "submodules are left out" in make_checkout(str(original), "", tmp_path / "out").notes


def test_what_cannot_work_is_refused(original: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    for repo, base, complaint in [
        (str(tmp_path / "none"), "", "no such directory"),
        (str(original), "v9", "--base v9: no such commit"),
        (str(tmp_path / "plain"), "v1", "no git repository"),
        (str(tmp_path / "empty"), "", "no commit yet"),
        (f"file://{tmp_path}/none", "", "cannot clone it"),
        (f"file://{original}", "v9", "--base v9: not in"),
        (f"file://{tmp_path}/empty", "", "no commit yet"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            make_checkout(repo, base, tmp_path / "out")
        subprocess.run(["rm", "-rf", str(tmp_path / "out")], check=True)


@pytest.mark.parametrize(
    ("repo", "url", "shown"),
    [
        ("https://user:secret@example.invalid/a/b.git", True, "https://example.invalid/a/b.git"),
        ("ssh://git@example.invalid/a/b", True, "ssh://example.invalid/a/b"),
        ("git@example.invalid:a/b.git", True, "git@example.invalid:a/b.git"),
        ("/a/../b", False, "/b"),
    ],
)
def test_how_repositories_are_recorded(repo: str, url: bool, shown: str) -> None:
    assert is_url(repo) is url
    assert shown_repo(repo) == shown


def test_a_password_is_in_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        make_checkout("http://user:secret@127.0.0.1:9/a.git", "", tmp_path / "out")
    assert "secret" not in str(refused.value)
