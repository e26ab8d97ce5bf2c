"""Someone's own repository, made ready for a container: a clean checkout with its history, and nothing of the original
touched.

A path or URL is cloned on this machine into a directory of ours; work starts from a commit. Uncommitted changes of a
path are left out, and their number is told: the patch applies to a commit, and what was in flux stays where it was. A
directory without git is copied and committed once. The clone keeps neither remotes nor logs, so that no address or
credential goes into the container.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from swe_exec_server.common.errors import UsageError, one_line
from swe_exec_server.sandbox import Sandbox

PART_BYTES = 32 * 1024**2
"""Bytes of a tree that travel in one request."""
CACHES = ("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")
"""What running things leaves behind: no part of anybody's patch."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
_AUTHOR = ("-c", "user.name=swe-agent", "-c", "user.email=swe-agent@localhost", "-c", "commit.gpgsign=false")


@dataclass(frozen=True)
class Checkout:
    """A clean checkout.

    Attributes:
        commit: id of the commit that is checked out; the patch's base.
        notes: what was left out, a line each.
    """

    directory: Path
    commit: str
    notes: tuple[str, ...] = ()


def is_url(repo: str) -> bool:
    """Whether `--repo` names something to fetch, `user@host:path` included, and not a path."""
    return bool(_URL.match(repo)) and not Path(repo).exists()


def shown_repo(repo: str) -> str:
    """`--repo` as it is recorded: a URL without user and password, a path made absolute."""
    if not is_url(repo):
        return str(Path(repo).resolve())
    if "://" not in repo:
        return repo
    parts = urlsplit(repo)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def has_history(repo: str) -> bool:
    """Whether commits of `--repo` have lasting names: a directory without git is committed anew each time."""
    return is_url(repo) or _top(Path(repo)) is not None


def resolve_commit(repo: str, base: str) -> str:
    """The commit that a path's work starts from; empty for a URL or a directory without git. Raises `UsageError`."""
    if is_url(repo):
        return ""
    path = Path(repo)
    if not path.is_dir():
        raise UsageError(f"--repo {repo}: no such directory")
    if _top(path) is None:
        if base:
            raise UsageError(f"--base {base}: {repo} is no git repository, so it has no commits to start from")
        return ""
    found = _git(path, "rev-parse", "--verify", "--quiet", f"{base or 'HEAD'}^{{commit}}", check=False)
    if found.returncode != 0:
        what = (
            f"--base {base}: no such commit in {repo}" if base else f"--repo {repo}: it has no commit yet; commit first"
        )
        raise UsageError(what)
    return found.stdout.decode().strip()


def make_checkout(repo: str, base: str, target: Path) -> Checkout:
    """A clean checkout of `repo` in `target`, which does not exist yet. Raises `UsageError` with git's words."""
    if shutil.which("git") is None:
        raise UsageError("--repo needs git on this machine; install it")
    commit = resolve_commit(repo, base)
    top = None if is_url(repo) else _top(Path(repo))
    notes: list[str] = []
    if top is None and not is_url(repo):
        _adopt(Path(repo), target)
        notes.append("no git repository: its files were copied and committed once")
    else:
        _clone(repo if top is None else str(top), commit or base, target, shown_repo(repo))
        changes = _uncommitted(top) if top is not None and not base else 0
        if changes:
            notes.append(
                f"{changes} uncommitted {'change is' if changes == 1 else 'changes are'} left out; work starts at HEAD"
            )
    if (target / ".gitmodules").is_file():
        notes.append("submodules are left out")
    _exclude_caches(target)
    return Checkout(target, _git(target, "rev-parse", "HEAD").stdout.decode().strip(), tuple(notes))


async def send_checkout(sandbox: Sandbox, checkout: Checkout, cwd: str) -> None:
    """Put a checkout into the sandbox's empty directory `cwd`. Raises `UsageError` when the image cannot take it."""
    place = shlex.quote(cwd)
    probe = (
        f"for tool in git tar; do command -v $tool >/dev/null || {{ echo it has no $tool; exit 3; }}; done\n"
        f'[ -z "$(ls -A {place})" ] || {{ echo its {place} already holds files, choose another --cwd; exit 3; }}\n'
        f"[ -w {place} ] || {{ echo its user may not write to {place}; exit 3; }}"
    )
    answer = await sandbox.exec(probe, cwd="/")
    if answer.returncode != 0:
        raise UsageError(f"image {sandbox.image!r} cannot take the repository: {one_line(answer.text)}")
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(_pack, checkout.directory, file)
        file.seek(0)
        archive = "/tmp/.swe-agent-checkout.tar"
        while part := await asyncio.to_thread(file.read, PART_BYTES):
            await sandbox.write_file(f"{archive}.part", part)
            await _do(sandbox, f"cat {archive}.part >> {archive} && rm {archive}.part")
    await _do(sandbox, f"tar -xof {archive} -C {place} && rm {archive}")


async def _do(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.exec(command, cwd="/", timeout=600)
    if result.returncode != 0:
        raise UsageError(f"the repository cannot be put into the container: {one_line(result.text)}")


def _pack(directory: Path, file: object) -> None:
    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
        archive.add(directory, ".", filter=plain)


def _clone(source: str, start: str, target: Path, shown: str) -> None:
    # Over git's own transport even from a path: no hard links, nothing but what its commits reach.
    options = ["--quiet", "--no-local", "--template=", "--config", "core.autocrlf=false"]
    done = _git(None, "clone", *options, "--", source, str(target), check=False)
    if done.returncode != 0:
        raise UsageError(f"--repo {shown}: git cannot clone it: {_said(done).replace(source, shown)}")
    if start:
        done = _git(target, "checkout", "--quiet", "--detach", start, "--", check=False)
        if done.returncode != 0:  # the name of a branch that the clone knows only as its remote's
            done = _git(target, "checkout", "--quiet", "--detach", f"origin/{start}", "--", check=False)
        if done.returncode != 0:
            raise UsageError(f"--base {start}: not in {shown}: {_said(done)}")
    if _git(target, "rev-parse", "--verify", "--quiet", "HEAD", check=False).returncode != 0:
        raise UsageError(f"--repo {shown}: it has no commit yet")
    _git(target, "remote", "remove", "origin")
    shutil.rmtree(target / ".git" / "logs", ignore_errors=True)


def _adopt(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    _git(target, "init", "--quiet", "--template=", "-b", "main")
    _exclude_caches(target)
    _git(target, "-c", "core.autocrlf=false", "add", "--all", ".")
    _git(target, *_AUTHOR, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", "The files as they were")


def _dates() -> dict[str, str]:
    """Fixed dates: a directory without git gets the same commit id as long as its files are the same."""
    moment = "2000-01-01T00:00:00+00:00"
    return {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}


def _exclude_caches(target: Path) -> None:
    file = target / ".git" / "info" / "exclude"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{pattern}\n" for pattern in CACHES))


def _top(path: Path) -> Path | None:
    found = _git(path, "rev-parse", "--show-toplevel", check=False)
    if found.returncode != 0:
        if b"not a git repository" in found.stderr:
            return None
        raise UsageError(f"--repo {path}: {_said(found)}")
    return Path(os.fsdecode(found.stdout.rstrip(b"\n")))


def _uncommitted(path: Path) -> int:
    return len(_git(path, "status", "--porcelain").stdout.splitlines())


def _git(directory: Path | None, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    """Run git without prompts and without the locks that refresh an index in passing. Raises `UsageError`."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == "GIT_SSH_COMMAND"
    }
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C.UTF-8"}
    env |= _dates()
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if check and done.returncode != 0:
        raise UsageError(f"git {_command(arguments)} failed: {_said(done)}")
    return done


def _command(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-") and "=" not in word), "")


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return one_line(done.stderr.decode("utf-8", "replace").removeprefix("fatal: ")) or f"exit code {done.returncode}"
