"""The double keeps the contract of a sandbox, and the same calls give the same results."""

import pytest
from swe_exec_server.sandbox import Sandbox, SandboxProvider, SandboxSpec
from swe_exec_server.scripted_sandbox import ScriptedProvider, ScriptedSandbox
from swe_exec_server.wire import ErrorCode, SandboxError


async def test_it_is_a_sandbox_from_a_provider() -> None:
    provider: SandboxProvider = ScriptedProvider(latency=0.0, patch=b"p")
    first, second = [await provider.create(SandboxSpec(image="x:1")) for _ in range(2)]
    assert (first.id, second.id, first.image) == ("scripted-0", "scripted-1", "x:1")
    assert await provider.has_image("any")
    assert (await first.exec("ls")) == (await second.exec("ls"))
    assert (await first.diff(base="abc")).patch == b"p"
    await provider.close()


async def test_a_script_says_what_commands_print() -> None:
    sandbox: Sandbox = ScriptedSandbox(lambda command: (3, command.encode() * 10), latency=0.0)
    result = await sandbox.exec("abc", max_output=7)
    assert (result.returncode, result.output, result.output_bytes, result.truncated) == (3, b"abcaabc", 30, True)
    assert (await ScriptedSandbox(latency=0.0).exec("echo a b")).output == b"a b\n"


async def test_its_time_is_given_and_a_shorter_limit_is_a_time_out() -> None:
    sandbox = ScriptedSandbox(latency=0.02)
    assert (await sandbox.exec("ls")).duration == 0.02
    result = await sandbox.exec("ls", timeout=0.01)
    assert (result.returncode, result.timed_out) == (-1, True)


async def test_files_and_grading() -> None:
    async with ScriptedSandbox(latency=0.0) as sandbox:
        await sandbox.write_file("/a", b"x")
        assert await sandbox.read_file("/a") == b"x"
        with pytest.raises(SandboxError, match="no file /b"):
            await sandbox.read_file("/b")
        graded = await sandbox.evaluate(b"patch", "echo ok")
        assert (graded.applied, graded.applied_by, graded.returncode, graded.output) == (True, "git", 0, b"ok\n")


async def test_a_closed_one_is_gone() -> None:
    sandbox = ScriptedSandbox(latency=0.0)
    await sandbox.close()
    with pytest.raises(SandboxError) as gone:
        await sandbox.exec("ls")
    assert gone.value.code == ErrorCode.CONTAINER_GONE
