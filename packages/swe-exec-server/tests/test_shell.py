"""The framing is right however the bytes are cut, and a real `sh` speaks the protocol."""

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_exec_server import shell_scripts as scripts
from swe_exec_server.shell import (
    BOOT_ENVIRONMENT,
    MARKER_VARIABLE,
    Profile,
    Request,
    boot_text,
    exports,
    parse_environment,
    to_bytes,
    valid_name,
)
from swe_exec_server.shell_reply import EndFinder, FrameDecoder, Hello, Listener, Reply
from swe_exec_server.shell_scripts import quote, switch_command


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


def feed(listener: Listener, *frames: tuple[int, bytes]) -> None:
    for stream, data in frames:
        listener.feed(stream, memoryview(data))


def test_reply_needs_the_exit_code_and_the_end_of_the_output() -> None:
    reply = Reply("n0nce", 100)
    feed(reply, (1, b"of an earlier command n0"), (1, b"nce<"))
    assert reply.begun
    feed(reply, (2, b"some noise\nn0nce e"), (2, b"nd 7 clean\n"))
    assert (reply.returncode, reply.state, reply.done) == (7, "clean", False)
    feed(reply, (1, b"out n0n"), (1, b"ce> and a background process"))
    assert reply.done
    assert reply.output.result() == b"out "
    assert reply.noise == "some noise\n"


def test_noise_without_a_line_end_hides_no_exit_code() -> None:
    reply = Reply("n0nce", 100)
    feed(reply, (1, b"n0nce<n0nce>"), (2, b"cut of"), (2, b"\nn0nce end 3 left\n"), (2, b"\nn0nce end 0 clean\n"))
    assert (reply.done, reply.returncode, reply.state) == (True, 3, "left")


def test_a_stream_that_ends_early_keeps_what_looked_like_a_marker() -> None:
    reply = Reply("n0nce", 100)
    feed(reply, (1, b"n0nce<partial n0n"))
    reply.close()
    assert not reply.done
    assert reply.output.result() == b"partial n0n"


def test_what_is_large_is_given_out_once_when_it_was_asked_for() -> None:
    reply = Reply("n0nce", 100, [b"command", b"stdin"])
    assert reply.claim() == ()
    feed(reply, (2, b"n0nce go\n"))
    assert reply.claim() == [b"command", b"stdin"]
    assert reply.claim() == ()


@pytest.mark.parametrize(("mode", "pids"), [("reaped", (12, 7)), ("once", (12,))])
def test_only_a_subreaper_of_our_own_is_above_all_that_a_boot_starts(mode: str, pids: tuple[int, ...]) -> None:
    hello = Hello("n0nce")
    feed(hello, (1, b"a message of the engine"), (2, f"n0nce boot {mode} 12 7\n".encode()))
    assert (hello.done, hello.pids, hello.said) == (True, pids, "a message of the engine")


def test_names_that_a_shell_acts_upon_are_not_exported() -> None:
    text, odd = exports({"A": "it's", "IFS": "x", "BASH_FUNC_f%%": "() { :; }", "UID": "5"})
    assert text == r"export A='it'\''s'; "
    assert set(odd) == {"IFS", "BASH_FUNC_f%%", "UID"}
    assert exports({}) == (":; ", {})


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


SHELLS = [
    pytest.param(["/bin/sh"], id="sh"),
    pytest.param(["bash", "--posix"], id="bash", marks=pytest.mark.skipif(not shutil.which("bash"), reason="no bash")),
    pytest.param(
        ["busybox", "sh"], id="busybox", marks=pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox")
    ),
]
ANY_BYTES = bytes(range(1, 256))


class Boot:
    """A boot on this machine in any shell, without a subreaper; so only its protocol is tested here."""

    def __init__(self, shell: list[str]) -> None:
        environment = {"PATH": os.environ["PATH"], MARKER_VARIABLE: "test", **BOOT_ENVIRONMENT}
        pipe = subprocess.PIPE
        self.shell = shell
        command = [*shell, "-s", "once", "swe-exec"]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._stdin = self.process.stdin
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ, 1)
        self._selector.register(self.process.stderr, selectors.EVENT_READ, 2)
        self.hello = Hello("hello")
        self.say(boot_text("hello"))
        self._listen(self.hello)

    def request(self, request: Request) -> tuple[int | None, bytes]:
        line, late = request.encode()
        reply = Reply(request.nonce, 16 * 1024 * 1024, late)
        self.say(line if request.profile is None else request.profile.encode() + line)
        self._listen(reply)
        assert reply.begun
        return reply.returncode, reply.output.result()

    def ask(self, command: str, cwd: str = "/", plain: bool = False, **environment: str) -> tuple[int | None, bytes]:
        return self.request(Request(command, cwd, environment, profile=None if plain else Profile({})))

    def say(self, *pieces: bytes) -> None:
        """Write beside the caller, who has to read meanwhile."""

        def write() -> None:
            with contextlib.suppress(BrokenPipeError):
                for piece in pieces:
                    self._stdin.write(piece)
                self._stdin.flush()

        threading.Thread(target=write, daemon=True).start()

    def _listen(self, listener: Listener) -> None:
        until = time.monotonic() + 20
        while not listener.done and time.monotonic() < until:
            for key, _ in self._selector.select(1):
                listener.feed(key.data, memoryview(os.read(key.fd, 65536)))
                if pieces := listener.claim():
                    self.say(*pieces)

    def close(self) -> None:
        self._selector.close()
        with self.process:
            self._stdin.close()
            self.process.wait(10)


@pytest.fixture(params=SHELLS)
def boot(request: pytest.FixtureRequest) -> Iterator[Boot]:
    with closing(Boot(request.param)) as running:
        yield running


@linux
def test_one_boot_serves_many_commands_and_nothing_stays_between_them(boot: Boot) -> None:
    assert boot.hello.pids == (boot.process.pid,)
    assert boot.ask("cd /tmp; X=1; echo one; exit 3") == (3, b"one\n")
    assert boot.ask("echo [$X]; pwd") == (0, b"[]\n/\n")
    assert boot.ask('echo "$X"', X="a 'b'\n$c") == (0, b"a 'b'\n$c\n")
    assert boot.ask("kill -9 $$") == (137, b"")
    assert boot.ask("read line; echo got:$line") == (0, b"got:\n")
    assert boot.ask("if then fi")[0] == 2
    assert boot.ask("cat <<'E'\nopen")[0] == 0
    assert boot.ask("echo alive") == (0, b"alive\n")


@linux
def test_large_commands_arrive_whole(boot: Boot) -> None:
    for size in (1, 65536 - 12, 65536 - 11, 65536 - 10, 65536, 65537, 500_000):
        command = ": " + "x" * size + "\necho end"
        assert boot.ask(command) == (0, b"end\n"), size
    # Nothing of a large command was left on the stream.
    assert boot.ask("echo next") == (0, b"next\n")


@linux
@pytest.mark.parametrize("times", [1, 1000])
def test_any_bytes_can_be_a_command(boot: Boot, times: int) -> None:
    text = (ANY_BYTES * times).decode("utf-8", "surrogateescape")
    assert boot.ask(f"printf %s {quote(text)}", plain=True) == (0, ANY_BYTES * times)


@linux
def test_any_bytes_can_be_a_variable_a_directory_and_an_input(boot: Boot, tmp_path: Path) -> None:
    text = ANY_BYTES.decode("utf-8", "surrogateescape")
    assert boot.ask('printf %s "$X"', X=text) == (0, ANY_BYTES)
    name = os.fsdecode(ANY_BYTES.replace(b"/", b""))
    directory = tmp_path / name[:100] / name[100:]
    directory.mkdir(parents=True)
    assert boot.ask("touch here; echo *", cwd=os.fspath(directory)) == (0, b"here\n")
    assert boot.request(Request("cat", "/", {}, ANY_BYTES + b"\n\n")) == (0, ANY_BYTES + b"\n\n")


@linux
@pytest.mark.parametrize("size", [1, 32 * 1024, 32 * 1024 + 1, 1_000_000])
@pytest.mark.parametrize("padding", ["", ": " + "x" * 100_000 + "\n"])
def test_input_of_any_size_for_commands_of_any_size(boot: Boot, size: int, padding: str) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert boot.request(Request(padding + "cat", "/", {}, data)) == (0, data)


@linux
def test_large_commands_with_little_input(boot: Boot) -> None:
    assert boot.request(Request(": " + "x" * 100_000 + "\ncat", "/", {}, b"little")) == (0, b"little")
    assert boot.ask("echo next") == (0, b"next\n")


@linux
def test_a_request_that_was_cut_short_runs_nothing(boot: Boot, tmp_path: Path) -> None:
    line, _ = Request("touch ran", os.fspath(tmp_path), {}).encode()
    for length in range(1, len(line) - 1):
        if line[length - 1 : length] in (b"'", b" ", b";"):
            other = Boot(boot.shell)
            other.say(line[:length])
            time.sleep(0.01)
            other.close()
    assert list(tmp_path.iterdir()) == []


@linux
@pytest.mark.parametrize("plain", [False, True])
def test_a_broken_path_of_the_command_does_not_break_the_boot(boot: Boot, plain: bool) -> None:
    assert boot.ask("echo built-in", plain=plain, PATH="/nowhere", IFS="x", LD_LIBRARY_PATH="/nowhere") == (
        0,
        b"built-in\n",
    )


@linux
def test_the_profile_is_every_commands_but_the_plain_ones(boot: Boot) -> None:
    profile = Profile({"A": "pro'file", "B": "profile", "UID": "77"})
    command = 'echo "$A $B"; env | grep -c ^UID=77'
    assert boot.request(Request(command, "/", {"B": "call"}, profile=profile)) == (0, b"pro'file call\n1\n")
    assert boot.request(Request('echo "[$A]"; env | grep ^UID', "/", {})) == (1, b"[]\n")


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
