"""The framing is right however the bytes are cut, and a real `sh` speaks the protocol."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_exec_server import shell_scripts as scripts
from swe_exec_server.shell import (
    BOOT_ENVIRONMENT,
    MARKER_VARIABLE,
    EndFinder,
    FrameDecoder,
    Reply,
    Request,
    parse_environment,
    to_bytes,
    valid_name,
)
from swe_exec_server.shell_scripts import boot_command, quote, switch_command


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in pieces of the given sizes, then the rest."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


SIZES = st.lists(st.integers(1, 20), max_size=40)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=10), SIZES)
def test_frames_survive_any_cut(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    wire = b"".join(frame(stream, data) for stream, data in frames)
    decoder = FrameDecoder()
    got = {1: b"", 2: b""}
    for piece in cut(wire, sizes):
        for stream, data in decoder.feed(piece):
            got[stream] += bytes(data)
    assert got == {number: b"".join(data for stream, data in frames if stream == number) for number in (1, 2)}


@given(st.text("ab", max_size=60).map(str.encode), SIZES)
def test_the_end_marker_is_found_across_any_cut(text: bytes, sizes: list[int]) -> None:
    finder = EndFinder(b"abba")
    before = b"".join(bytes(finder.feed(piece)) for piece in cut(text, sizes)) + finder.rest()
    at = text.find(b"abba")
    assert finder.found == (at >= 0)
    assert before == (text[:at] if at >= 0 else text)


def test_reply_needs_the_exit_code_and_the_end_of_the_output() -> None:
    reply = Reply("n0nce", 100)
    reply.feed(frame(2, b"n0nce boot 12\nsome noise\nn0nce e"))
    assert reply.boot_pid == 12
    reply.feed(frame(2, b"nd 7\n"))
    assert (reply.returncode, reply.done) == (7, False)
    reply.feed(frame(1, b"out n0n"))
    reply.feed(frame(1, b"ce and a background process"))
    assert reply.done
    assert reply.output.result() == b"out "
    assert reply.noise == "some noise\n"


def test_a_stream_that_ends_early_keeps_what_looked_like_a_marker() -> None:
    reply = Reply("n0nce", 100)
    reply.feed(frame(1, b"partial n0n"))
    reply.close()
    assert not reply.done
    assert reply.output.result() == b"partial n0n"


def test_environment_block_is_read_whole() -> None:
    block = b"A=1\0B=x=y\nz\0PWD=/\0SHLVL=1\0BASH_FUNC_f%%=() { :; }\0junk\0E=\0\xff=\xff\0"
    assert parse_environment(block) == {
        "A": "1",
        "B": "x=y\nz",
        "BASH_FUNC_f%%": "() { :; }",
        "E": "",
        "\udcff": "\udcff",
    }
    assert to_bytes("\udcff") == b"\xff"


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A\n", "-x"])
def test_names_that_no_shell_takes(name: str) -> None:
    assert not valid_name(name)


def test_the_switch_looks_four_times_per_ttl_but_at_least_every_15_seconds() -> None:
    assert [switch_command(ttl)[-2:] for ttl in (0.5, 4, 4.2, 600)] == [
        ["1", "1"],
        ["4", "1"],
        ["5", "1"],
        ["600", "15"],
    ]


linux = pytest.mark.skipif(sys.platform != "linux", reason="the scripts run in Linux containers")


@linux
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30))
def test_quoting_is_undone_by_sh(text: str) -> None:
    done = subprocess.run(["/bin/sh", "-c", f"printf %s {quote(text)}"], capture_output=True, check=True)
    assert done.stdout == text.encode()


class Boot:
    """A boot on this machine, its two output streams framed as the engine frames them."""

    def __init__(self) -> None:
        environment = {"PATH": os.environ["PATH"], MARKER_VARIABLE: "test", **BOOT_ENVIRONMENT}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(list(boot_command()), stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._stdin = self.process.stdin
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ, 1)
        self._selector.register(self.process.stderr, selectors.EVENT_READ, 2)

    def ask(self, command: str, cwd: str = "/", plain: bool = False, **environment: str) -> tuple[int | None, bytes]:
        request = Request(command, cwd, environment, plain=plain)
        reply = Reply(request.nonce, 1024 * 1024)
        self._stdin.write(b"".join(request.encode()))
        self._stdin.flush()
        until = time.monotonic() + 20
        while not reply.done and time.monotonic() < until:
            for key, _ in self._selector.select(1):
                reply.feed(frame(key.data, os.read(key.fd, 65536)))
        return reply.returncode, reply.output.result()

    def close(self) -> None:
        self._selector.close()
        with self.process:
            self._stdin.close()
            self.process.wait(10)


@pytest.fixture
def boot() -> Iterator[Boot]:
    with closing(Boot()) as running:
        yield running


@linux
def test_one_boot_serves_many_commands_and_nothing_stays_between_them(boot: Boot) -> None:
    assert boot.ask("cd /tmp; X=1; echo one; exit 3") == (3, b"one\n")
    assert boot.ask("echo [$X]; pwd") == (0, b"[]\n/\n")
    assert boot.ask('echo "$X"', X="a 'b'\n$c") == (0, b"a 'b'\n$c\n")
    assert boot.ask("kill -9 $$") == (137, b"")
    assert boot.ask("read line; echo got:$line") == (0, b"got:\n")
    assert boot.ask("echo alive") == (0, b"alive\n")


@linux
def test_large_commands_arrive_whole(boot: Boot) -> None:
    for size in (1, 65535, 65536, 65537, 500_000):
        command = ": " + "x" * size + "\necho end"
        assert boot.ask(command) == (0, b"end\n"), size
    # Nothing of a large command was left on the stream.
    assert boot.ask("echo next") == (0, b"next\n")


@linux
@pytest.mark.parametrize("plain", [False, True])
def test_a_broken_path_of_the_command_does_not_break_the_boot(boot: Boot, plain: bool) -> None:
    assert boot.ask("echo built-in", plain=plain, PATH="/nowhere", IFS="x", LD_LIBRARY_PATH="/nowhere") == (
        0,
        b"built-in\n",
    )


@linux
def test_missing_directory_is_a_result(boot: Boot) -> None:
    returncode, output = boot.ask("echo no", cwd="/no where")
    assert (returncode, b"/no where" in output) == (126, True)


def _read_command(path: str) -> str:
    return scripts.read_file_command(path, 10)


def _write_command(path: str) -> str:
    return scripts.write_file_command(path, 0)


@linux
@pytest.mark.parametrize("make", [_read_command, _write_command])
def test_file_commands_take_any_path_as_data(make: Callable[[str], str], tmp_path: os.PathLike[str]) -> None:
    path = f"{os.fspath(tmp_path)}/-n 'it$(touch PWNED)`touch PWNED`"
    open(path, "wb").close()  # noqa: PTH123 - a path that no library has looked at
    done = subprocess.run(["/bin/sh", "-c", make(path)], stdin=subprocess.DEVNULL, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert os.listdir(tmp_path) == [os.path.basename(path)]  # noqa: PTH119, PTH208
