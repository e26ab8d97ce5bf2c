"""Make the future unreachable: no commit that is no ancestor of HEAD can be found in the repository any more.

Benchmark images are often clones that hold the fix under a later branch, tag, reflog entry or loose object. HEAD, its
branch and its tree stay as they are.
"""

from swe_exec_server.backend import Container, ExecSpec
from swe_exec_server.wire import ErrorCode, SandboxError

SCRIPT = r"""
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=1
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
git rev-parse -q --verify HEAD >/dev/null || exit 0
dir=$(git rev-parse --absolute-git-dir)
head=$(git rev-parse HEAD)
branch=$(git symbolic-ref -q HEAD || true)
rm -rf "$dir/worktrees"
git for-each-ref --format='%(refname)' | while read -r ref; do
  [ "$ref" = "$branch" ] || printf 'delete %s\n' "$ref"
done | git update-ref --no-deref --stdin
for remote in $(git remote); do git remote remove "$remote"; done
rm -rf "$dir/logs" "$dir/refs/remotes" "$dir/refs/stash" "$dir/refs/original"
cd "$dir" && rm -f ORIG_HEAD FETCH_HEAD MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD AUTO_MERGE && cd - >/dev/null
git repack -a -d -q
rm -f "$dir/objects/info/alternates" "$dir/objects/info/commit-graph"
rm -rf "$dir/objects/info/commit-graphs"
git prune --expire=now
git read-tree --reset HEAD >/dev/null 2>&1 || true
[ "$(git rev-parse HEAD)" = "$head" ]
git fsck --connectivity-only --no-dangling >/dev/null
"""


def scrub_git(container: Container, cwd: str) -> None:
    """Scrub the repository at `cwd`; no repository there is no error. Raises `internal` when git fails."""
    result = container.exec(ExecSpec(SCRIPT, cwd, timeout=600, internal=True))
    if result.returncode != 0:
        raise SandboxError(ErrorCode.INTERNAL, f"scrub_git failed in {cwd}: {' '.join(result.text.split())[-300:]}")
