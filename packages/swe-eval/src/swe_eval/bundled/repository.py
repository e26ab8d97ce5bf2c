"""Makes a bundled task's git repository: the same commit ids on every machine, in a Docker build and on the host.

The ids depend only on the files, the messages and the fixed dates of `history.json`; no configuration of the user or
the machine takes part.
"""

import fnmatch
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from swe_eval.bundled.tasks import read_json, repo_files

_PREAMBLE = """\
#!/bin/sh
# Run in a directory that holds the files of the tree: makes its git history and prints the last commit's id.
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_DEFAULT_HASH
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 HOME=/nonexistent LC_ALL=C TZ=UTC
unset XDG_CONFIG_HOME

in_repo() {
    git -c init.defaultBranch=main -c core.autocrlf=false -c core.fileMode=false -c core.quotePath=false \\
        -c commit.gpgsign=false -c gc.auto=0 "$@"
}

commit() {
    in_repo commit -q --no-verify -m "$1"
}

in_repo init -q --template=
mkdir -p .git/info
# What running the tests leaves behind is no part of anybody's patch.
printf '__pycache__/\\n*.pyc\\n' > .git/info/exclude
git config core.autocrlf false
"""

_EPILOGUE = """\
test -z "$(in_repo status --porcelain)" || { echo "files of the tree are in no commit" >&2; exit 1; }
in_repo rev-parse HEAD
"""


class GitUnavailableError(RuntimeError):
    """There is no git to make a bundled repository with."""


def commit_files(history: list[dict[str, Any]], paths: list[str]) -> list[list[str]]:
    """Which files each commit adds: every file goes to the first commit that names it, by path or by glob.

    Raises ValueError when a commit would be empty or a file is in none.
    """
    left = sorted(paths)
    result = []
    for entry in history:
        patterns = entry["files"]
        chosen = [path for path in left if any(p == "**" or fnmatch.fnmatchcase(path, p) for p in patterns)]
        if not chosen:
            raise ValueError(f"commit {entry['message']!r} adds no file")
        left = [path for path in left if path not in chosen]
        result.append(chosen)
    if left:
        raise ValueError(f"in no commit: {', '.join(left)}")
    return result


def make_repo_script(instance_id: str) -> str:
    """A POSIX sh script that turns a directory with the task's files into its git repository and prints HEAD's id."""
    history: list[dict[str, Any]] = read_json(instance_id, "history.json")
    lines = [_PREAMBLE]
    for entry, added in zip(history, commit_files(history, list(repo_files(instance_id))), strict=True):
        date, author, email = (shlex.quote(entry[key]) for key in ("date", "author", "email"))
        lines += [
            f"export GIT_AUTHOR_NAME={author} GIT_AUTHOR_EMAIL={email} GIT_AUTHOR_DATE={date}",
            f"export GIT_COMMITTER_NAME={author} GIT_COMMITTER_EMAIL={email} GIT_COMMITTER_DATE={date}",
            f"in_repo add -- {' '.join(shlex.quote(path) for path in added)}",
            f"commit {shlex.quote(entry['message'])}",
        ]
    return "\n".join(lines) + "\n" + _EPILOGUE


def materialise(instance_id: str, directory: Path) -> str:
    """Write the task's repository into `directory` (made if missing, else empty) and return its commit id.

    Raises GitUnavailableError without git, and RuntimeError with git's words when it fails or makes another commit than
    the row's `base_commit`.
    """
    if shutil.which("git") is None:
        raise GitUnavailableError("git is not installed; install it to run the bundled tasks without Docker")
    directory.mkdir(parents=True, exist_ok=True)
    for path, data in repo_files(instance_id).items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o644)
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=make_repo_script(instance_id).encode(),
        cwd=directory,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"git could not make the repository of {instance_id}: {done.stderr.decode(errors='replace')}"
        )
    commit = done.stdout.decode().strip()
    expected = read_json(instance_id, "instance.json")["base_commit"]
    if commit != expected:
        raise RuntimeError(f"the repository of {instance_id} came out as {commit} and not as {expected}")
    return commit
