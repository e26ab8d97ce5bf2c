"""Git in a container: what changed since a base, and a patch put in. For any backend; bytes in, bytes out.

Promises: a diff is byte-exact and leaves the repository as it was; a failure is an error, never an empty patch. A patch
that can not be applied leaves the tree exactly as it was, and one that can be leaves nothing but itself.
"""

import secrets
import time
from dataclasses import dataclass

from swe_exec_server import git_scripts
from swe_exec_server.backend import Container, ExecSpec
from swe_exec_server.patch import MalformedPatch, is_blank, normalise, split_files, touched_paths, validate
from swe_exec_server.patch_paths import encode
from swe_exec_server.sandbox import AppliedBy, DiffResult, EvaluateResult, ExecResult
from swe_exec_server.wire import ErrorCode, SandboxError

MAX_PATCH = 1024**3
"""Bytes of the largest patch that is read out of a container."""
GIT_TIMEOUT = 600.0
"""Seconds for git on a large repository and a slow disk; reached only when something hangs."""
MISSING_CWD = 126
_GITLINK = b"mode 160000\n"
_APPLIED_BY: dict[int, AppliedBy] = {0: "git", 10: "3way", 11: "fuzz"}


@dataclass(frozen=True)
class ApplyOutcome:
    """Whether a patch went in, which step of the chain did it, and what the steps that refused said."""

    applied: bool
    applied_by: AppliedBy
    log: str


def image_base(container: Container, cwd: str) -> str | None:
    """HEAD of `cwd` as a commit id; None when it is no repository, or one without a commit."""
    result = _run(container, cwd, git_scripts.head(_token()))
    if result.returncode in (git_scripts.NO_REPOSITORY, git_scripts.NO_GIT, git_scripts.NO_BASE):
        return None
    _check(result, cwd)
    return result.text.strip()


def extract_diff(
    container: Container,
    cwd: str,
    base: str | None = None,
    image_base: str | None = None,
    untracked: bool = True,
) -> DiffResult:
    """Everything that changed in `cwd`'s repository since `base`, else `image_base`, else HEAD now.

    Ignored files are left out, unless the agent added or committed them; nested repositories and submodules are left
    out and named in `warnings`. `untracked=False` leaves out files that git does not track. Attributes and
    configuration do not touch the bytes; a file that attributes checked out with other line ends than its blob is
    compared with what was checked out. Raises `bad_request` without a repository or base, `internal` when git fails.
    """
    wanted = base or image_base or "HEAD"
    if wanted.startswith("-"):
        raise SandboxError(ErrorCode.BAD_REQUEST, f"base {wanted!r} is no commit: it begins with a dash")
    token = _token()
    try:
        result = _run(container, cwd, git_scripts.diff(token, wanted, untracked))
        if result.returncode == git_scripts.NO_BASE:
            raise SandboxError(ErrorCode.BAD_REQUEST, f"base {wanted!r} names no commit of the repository in {cwd}")
        _check(result, cwd)
        answer = _answer(result)
        patch = container.read_file(answer["file"][0], MAX_PATCH)
    finally:
        _clean(container, token)
    left_out = list(answer.get("nested", []))
    if _GITLINK in patch:
        patch, links = _without_gitlinks(patch)
        left_out += [path for path in links if path not in left_out]
    warnings = tuple(f"left out: {path} (a repository of its own or a submodule)" for path in left_out)
    return DiffResult(patch=patch, base=answer["base"][0], warnings=warnings)


def apply_patch(container: Container, cwd: str, patch: bytes) -> ApplyOutcome:
    """Apply by `git apply`, else `git apply --3way`, else `patch --fuzz=5 -p1`; without a repository too.

    Each step works on a scratch copy of the files that the patch names, and only a full success is copied back; so a
    failed one leaves no trace. White space is never changed. The index is not touched. Raises `internal` or `disk_full`
    when the machinery itself fails.
    """
    paths = sorted(touched_paths(patch))
    unsafe = next((path for path in paths if not _is_safe(path)), None)
    if unsafe is not None:
        return ApplyOutcome(
            False, "none", f"refused: the patch names {unsafe!r}, which is outside the tree or inside .git"
        )
    token = _token()
    try:
        result = _run(container, cwd, git_scripts.apply(token, [encode(path) for path in paths]), patch)
    except SandboxError:
        _clean(container, token)
        raise
    if result.returncode == git_scripts.NOT_APPLIED:
        return ApplyOutcome(False, "none", result.text)
    if result.returncode not in _APPLIED_BY:
        _clean(container, token)
        _check(result, cwd)
    return ApplyOutcome(True, _APPLIED_BY[result.returncode], result.text)


def evaluate(
    container: Container,
    cwd: str,
    patch: bytes,
    eval_script: str,
    timeout: float,
    allow_empty_patch: bool,
    max_output: int,
) -> EvaluateResult:
    """Apply `patch`, then run `eval_script` as a file, in bash where there is one, with nothing to read on stdin.

    A patch that is malformed or does not apply is a result with `applied` false and the reasons as output; the script
    does not run then. Raises `bad_request` for a blank script, and for a blank patch unless it is allowed.
    """
    if not eval_script.strip():
        raise SandboxError(ErrorCode.BAD_REQUEST, "eval_script is empty: give the commands that run the tests")
    started = time.monotonic()
    outcome = ApplyOutcome(True, "none", "")
    if not is_blank(patch):
        outcome = _validated_apply(container, cwd, patch)
    elif not allow_empty_patch:
        raise SandboxError(
            ErrorCode.BAD_REQUEST, "the patch is empty: set allow_empty_patch to run the script on the tree as it is"
        )
    if not outcome.applied:
        log = outcome.log.encode()
        elapsed = time.monotonic() - started
        return EvaluateResult(False, "none", None, False, log, len(log), False, elapsed)
    result = _run_as_file(container, cwd, eval_script, timeout, max_output)
    return EvaluateResult(
        applied=True,
        applied_by=outcome.applied_by,
        returncode=result.returncode,
        timed_out=result.timed_out,
        output=result.output,
        output_bytes=result.output_bytes,
        truncated=result.truncated,
        duration=result.duration,
    )


def _validated_apply(container: Container, cwd: str, patch: bytes) -> ApplyOutcome:
    complete = normalise(patch)
    try:
        validate(complete)
    except MalformedPatch as error:
        return ApplyOutcome(False, "none", f"malformed patch: {error}")
    return apply_patch(container, cwd, complete)


def _run_as_file(container: Container, cwd: str, script: str, timeout: float, max_output: int) -> ExecResult:
    token = _token()
    try:
        written = _run(
            container, "/", git_scripts.keep_stdin(token, "eval.sh"), script.encode("utf-8", "surrogateescape")
        )
        _check(written, cwd)
        path = written.text
        command = (
            f'if command -v bash >/dev/null; then exec bash "{path}" </dev/null; else exec sh "{path}" </dev/null; fi'
        )
        return container.exec(ExecSpec(command, cwd, timeout, max_output=max_output))
    finally:
        _clean(container, token)


def _run(container: Container, cwd: str, script: str, stdin: bytes = b"") -> ExecResult:
    return container.exec(ExecSpec(script, cwd, GIT_TIMEOUT, stdin=stdin, internal=True))


def _check(result: ExecResult, cwd: str) -> None:
    """Raise what the exit code of one of our scripts means; 0 is success."""
    said = " ".join(result.text.split())[-500:] or "no message"
    if result.timed_out:
        raise SandboxError(ErrorCode.INTERNAL, f"git in {cwd} did not end within {GIT_TIMEOUT:.0f} s")
    if result.returncode == MISSING_CWD:
        raise SandboxError(ErrorCode.BAD_REQUEST, f"no such directory: {cwd}")
    if result.returncode == git_scripts.NO_REPOSITORY:
        raise SandboxError(ErrorCode.BAD_REQUEST, f"{cwd} is no git repository with a work tree; give another cwd")
    if result.returncode == git_scripts.NO_GIT:
        raise SandboxError(
            ErrorCode.BAD_REQUEST, f"git is not installed in the container of {cwd}; use an image with git"
        )
    if result.returncode != 0:
        code = ErrorCode.DISK_FULL if "No space left on device" in said else ErrorCode.INTERNAL
        raise SandboxError(code, f"git failed in {cwd} (exit code {result.returncode}): {said}")


def _answer(result: ExecResult) -> dict[str, list[str]]:
    """The `key=value` lines of a script's output."""
    answer: dict[str, list[str]] = {}
    for line in result.output.decode("utf-8", "surrogateescape").splitlines():
        key, _, value = line.partition("=")
        answer.setdefault(key, []).append(value)
    return answer


def _clean(container: Container, token: str) -> None:
    try:
        container.exec(ExecSpec(git_scripts.clean(token), "/", GIT_TIMEOUT, internal=True))
    except SandboxError:
        return  # The container went: so did the directory, and what we came for tells the caller.


def _without_gitlinks(patch: bytes) -> tuple[bytes, list[str]]:
    """Without the sections of a file that became a repository, or the other way round."""
    kept, left_out = [], []
    for section in split_files(patch):
        header = section.raw.partition(b"\n@@ ")[0] + b"\n"
        if _GITLINK in header:
            left_out += sorted(section.paths)
        else:
            kept.append(section.raw)
    return b"".join(kept), left_out


def _is_safe(path: str) -> bool:
    """Plain and inside the tree: exactly one spelling per file, so that a filter by path can not be got round."""
    return not {"", ".", "..", ".git"} & {part.lower() for part in path.split("/")}


def _token() -> str:
    return secrets.token_hex(8)
