"""A patch becomes a verdict: made ready, applied in a fresh sandbox, the tests run, their log graded.

What is the patch's own fault is a verdict; what is not (a lost node, a full disk) is a `SandboxError` for the caller.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from swe_exec_server.patch import MalformedPatch, drop_paths, is_blank, normalise, touched_paths, validate
from swe_exec_server.sandbox import EvaluateResult, Sandbox
from swe_exec_server.wire import ErrorCode, SandboxError

from swe_eval.evaluation_script import evaluation_script, new_nonce, setup_failure
from swe_eval.grading import ListedTests, grade_log
from swe_eval.instances import Instance
from swe_eval.surroundings import touched_surroundings
from swe_eval.verdicts import Flag, Verdict, VerdictClass

LIMITS = "limits"


@dataclass(frozen=True)
class PreparedPatch:
    """A patch that can be applied. `patch` is empty when nothing but official test files was touched."""

    patch: bytes
    dropped: tuple[str, ...] = ()


def prepare_patch(patch: bytes, instance: Instance) -> PreparedPatch | Verdict:
    """`patch` without its changes to official test files, or the verdict where there is nothing to test."""
    if is_blank(patch):
        return Verdict.without_tests(VerdictClass.EMPTY_PATCH)
    try:
        whole = normalise(patch)
        validate(whole)
    except MalformedPatch as error:
        return Verdict.without_tests(VerdictClass.MALFORMED_PATCH, error=str(error))
    kept, dropped = drop_paths(whole, touched_paths(instance.test_patch))
    return PreparedPatch(kept, tuple(dropped))


async def evaluate_patch(
    fresh_sandbox: Callable[[], Awaitable[Sandbox]], instance: Instance, patch: bytes, *, timeout: float
) -> tuple[Verdict, bytes]:
    """Verdict and log of `patch`; the sandbox is taken only when there is something to test, and given back.

    The sandbox's working directory is the repository's root (`instance.cwd` where it was leased).
    Raises `SandboxError` for every failure that is not the patch's.
    """
    prepared = prepare_patch(patch, instance)
    if isinstance(prepared, Verdict):
        return prepared, b""
    tests = ListedTests.of(instance)
    nonce = new_nonce()
    script = evaluation_script(instance, nonce)
    try:
        async with await fresh_sandbox() as sandbox:
            result = await sandbox.evaluate(
                prepared.patch, script, timeout=timeout, allow_empty_patch=bool(prepared.dropped)
            )
    except SandboxError as error:
        if error.code is not ErrorCode.CONTAINER_GONE or error.reason != LIMITS:
            raise
        verdict = Verdict.without_tests(VerdictClass.UNRESOLVED, error=error.message, flags=(Flag.KILLED_BY_LIMITS,))
        return _with_patch(verdict, prepared, ""), b""
    return _with_patch(_judge(result, tests, nonce), prepared, result.applied_by), result.output


def _judge(result: EvaluateResult, tests: ListedTests, nonce: str) -> Verdict:
    if not result.applied:
        lines = result.output.decode("utf-8", "replace").strip().splitlines()
        return Verdict.without_tests(VerdictClass.APPLY_FAILED, error=lines[-1] if lines else "no patch applied")
    if reason := setup_failure(result.output, nonce):
        return Verdict.without_tests(VerdictClass.INFRA_ERROR, error=f"the official test files: {reason}")
    verdict = grade_log(result.output, tests, exit_code=result.returncode, timed_out=result.timed_out, nonce=nonce)
    return _flagged(verdict, Flag.LOG_TRUNCATED) if result.truncated else verdict


def _with_patch(verdict: Verdict, prepared: PreparedPatch, apply_by: str) -> Verdict:
    verdict = replace(verdict, dropped=prepared.dropped, apply_by=apply_by)
    if apply_by == "fuzz":
        verdict = _flagged(verdict, Flag.FUZZ_USED)
    if prepared.dropped:
        verdict = _flagged(verdict, Flag.TEST_FILES_DROPPED)
    if touched_surroundings(prepared.patch):
        verdict = replace(_flagged(verdict, Flag.TEST_SETUP_CHANGED), resolved_strict=False)
    return verdict


def _flagged(verdict: Verdict, flag: Flag) -> Verdict:
    return replace(verdict, flags=(*verdict.flags, flag.value))
