"""What every backend must do with commands, whatever runs them. Not a test file: test files load it by path.

    class TestMyBackend(load_conformance().BackendConformance):
        @pytest.fixture(scope="class")
        @classmethod
        def backend(cls) -> Iterator[Backend]: ...
        @pytest.fixture(scope="class")
        @classmethod
        def image(cls) -> str: ...

The image needs bash, Python 3, git and procps. Tests share one container per class unless they change more than files
below /tmp; `make` gives fresh ones.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pytest
from swe_exec_server.backend import Backend, Container, ExecSpec
from swe_exec_server.sandbox import ExecResult, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

Run = Callable[..., ExecResult]
Make = Callable[..., Container]

LEASE_ENV: Mapping[str, str] = {"LEASE_ONLY": "from lease", "BOTH": "lease"}


class PeakMemory:
    """Highest resident size of this process above where it began, in bytes, sampled every few milliseconds."""

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._start = self.growth = 0
        self._start = self._resident()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    @staticmethod
    def _resident() -> int:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def _sample(self) -> None:
        while not self._stop.wait(0.005):
            self.growth = max(self.growth, self._resident() - self._start)


class BackendConformance:
    """Inherit, give `backend` and `image`, and override `spec` where containers need more than an image."""

    @staticmethod
    def spec(image: str, **more: Any) -> SandboxSpec:
        return SandboxSpec(image=image, **more)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> Iterator[Backend]:
        raise AssertionError("the inheriting class gives the backend")

    @pytest.fixture(scope="class")
    @classmethod
    def image(cls) -> str:
        raise AssertionError("the inheriting class gives the image")

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, backend: Backend, image: str) -> Iterator[Container]:
        container = backend.create(cls.spec(image, env=LEASE_ENV), f"swe-test-{uuid.uuid4().hex[:12]}", {})
        yield container
        container.destroy()

    @pytest.fixture
    def run(self, shared: Container) -> Run:
        """`run(command, **fields of ExecSpec)` in the shared container."""

        def run(command: str, **fields: Any) -> ExecResult:
            return shared.exec(ExecSpec(command, **{"cwd": "/testbed", **fields}))

        return run

    @pytest.fixture
    def make(self, backend: Backend, image: str) -> Iterator[Make]:
        """`make(labels, **fields of SandboxSpec)`: a fresh container, destroyed at the end."""
        made: list[Container] = []

        def make(labels: Mapping[str, str] | None = None, **fields: Any) -> Container:
            name = f"swe-test-{uuid.uuid4().hex[:12]}"
            made.append(backend.create(self.spec(image, **fields), name, labels or {}))
            return made[-1]

        yield make
        for container in made:
            container.destroy()

    # -- results and output --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("command", "returncode"), [("exit 7", 7), ("kill -9 $$", 137), ("false", 1), ("nosuchcommand", 127)]
    )
    def test_exit_codes_are_a_shells(self, run: Run, command: str, returncode: int) -> None:
        assert run(command).returncode == returncode

    def test_stdout_and_stderr_keep_their_order(self, run: Run) -> None:
        assert run("for i in 1 2 3; do echo o$i; echo e$i >&2; done").output == b"o1\ne1\no2\ne2\no3\ne3\n"

    def test_any_bytes_come_back(self, run: Run) -> None:
        result = run("printf '\\377\\376 ok\\n'; printf 'a\\000b\\n'")
        assert result.output == b"\xff\xfe ok\na\0b\n"
        assert (result.output_bytes, result.truncated) == (10, False)
        assert result.text == "\ufffd\ufffd ok\na\0b\n"

    def test_a_flood_is_cut_to_its_ends_in_bounded_memory(self, run: Run) -> None:
        with PeakMemory() as memory:
            result = run("yes 0123456789 | head -c 300000000; echo THE-END", timeout=120.0)
        assert (result.returncode, result.truncated, result.output_bytes) == (0, True, 300000008)
        assert result.output.startswith(b"0123456789\n0123456789\n")
        assert result.output.endswith(b"THE-END\n")
        assert b"\n[... 298951432 bytes left out ...]\n" in result.output
        assert memory.growth < 50 * 1024 * 1024

    @pytest.mark.parametrize("keep", [0, 1, 7])
    def test_kept_bytes_are_half_head_and_half_tail(self, run: Run, keep: int) -> None:
        result = run("printf 0123456789", max_output=keep)
        head, tail = "0123456789"[: keep // 2], "0123456789"[10 - (keep - keep // 2) :]
        assert result.output.decode() == f"{head}\n[... {10 - keep} bytes left out ...]\n{tail}"
        assert (result.truncated, result.output_bytes) == (True, 10)

    # -- commands are data ---------------------------------------------------------------------------------------------

    def test_megabyte_command(self, run: Run) -> None:
        line = "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefgh\n"
        result = run("cat > /tmp/big <<'XX'\n" + line * 100_000 + "XX\nwc -c < /tmp/big")
        assert (result.returncode, result.output.strip()) == (0, b"5500000")

    def test_heredoc_with_a_common_delimiter(self, run: Run) -> None:
        assert run("cd /tmp; cat > f.txt <<'EOF'\none\nEOF\ncat f.txt").output == b"one\n"

    def test_unterminated_heredoc_wedges_nothing(self, run: Run) -> None:
        result = run("cat <<'XX'\nhello", timeout=10.0)
        assert not result.timed_out
        assert b"hello" in result.output
        assert run("echo alive").output == b"alive\n"

    def test_syntax_errors_are_bashs_own(self, run: Run) -> None:
        result = run("if then fi")
        assert result.returncode == 2
        assert b"syntax error" in result.output

    def test_bash_features(self, run: Run) -> None:
        command = 'a=(1 2); echo "${a[@]@Q}"; [[ x =~ ^(x)$ ]] && echo ok; case 1 in 1) echo y;; esac'
        assert run(command).output == b"'1' '2'\nok\ny\n"

    def test_commands_with_nul_are_refused(self, run: Run) -> None:
        with pytest.raises(SandboxError) as caught:
            run("echo a\0b")
        assert caught.value.code is ErrorCode.BAD_REQUEST

    # -- input ---------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("command", ["read x; echo got:$x", "python3", "git log", "cat", "bash -i -c 'echo hi'"])
    def test_nothing_waits_for_a_key(self, run: Run, command: str) -> None:
        result = run(command, timeout=20.0)
        assert not result.timed_out
        assert result.duration < 3

    def test_stdin_is_any_bytes(self, run: Run) -> None:
        data = bytes(range(256)) * 20_000
        assert run("cat", stdin=data, max_output=len(data)).output == data
        assert run("cat", stdin=b"\n\0\n").output == b"\n\0\n"

    def test_stdin_that_nobody_reads_holds_nothing_up(self, run: Run) -> None:
        data = b"echo not-a-command\n" * 300_000
        assert run("head -c 4; exit 3", stdin=data, timeout=20.0).returncode == 3
        assert run("true", stdin=data, timeout=20.0).returncode == 0
        assert run("echo next").output == b"next\n"

    # -- directory, variables, locale ----------------------------------------------------------------------------------

    def test_nothing_but_files_outlives_a_command(self, run: Run) -> None:
        assert run("cd /tmp && export A=1 && touch /tmp/stay").returncode == 0
        assert run("pwd; echo [$A]; ls /tmp/stay").output == b"/testbed\n[]\n/tmp/stay\n"

    def test_variables_and_directory_per_call(self, run: Run) -> None:
        value = "a b\"c'$d\n`e`\\"
        result = run('printf %s "$FOO"; echo; pwd', env={"FOO": value}, cwd="/tmp")
        assert result.output.decode() == f"{value}\n/tmp\n"

    def test_the_call_overrides_the_lease(self, run: Run) -> None:
        assert run("echo $LEASE_ONLY $BOTH", env={"BOTH": "call"}).output == b"from lease call\n"
        assert run("echo $LEASE_ONLY $BOTH").output == b"from lease lease\n"

    def test_internal_commands_see_nothing_of_the_lease(self, run: Run) -> None:
        assert run('echo [$LEASE_ONLY] $LC_ALL "$0"', internal=True).output == b"[] C.UTF-8 sh\n"

    def test_bad_variable_name_is_refused(self, run: Run) -> None:
        with pytest.raises(SandboxError) as caught:
            run("true", env={"A-B": "1"})
        assert caught.value.code is ErrorCode.BAD_REQUEST

    def test_missing_directory_is_a_result(self, run: Run) -> None:
        result = run("true", cwd="/nowhere")
        assert result.returncode == 126
        assert b"/nowhere" in result.output

    def test_locale_and_time_zone_are_fixed(self, run: Run) -> None:
        assert run("python3 -c 'print(\"é\")'; date +%Z").output.decode() == "é\nUTC\n"

    # -- time and processes --------------------------------------------------------------------------------------------

    def test_timeout_keeps_output_kills_all_and_leaves_the_container_usable(self, run: Run) -> None:
        started = time.monotonic()
        result = run("echo before; sleep 321; echo after", timeout=2.0)
        assert time.monotonic() - started < 4
        assert (result.returncode, result.timed_out, result.output) == (-1, True, b"before\n")
        assert run("ps -eo args | grep -c '[s]leep 321' || true").output == b"0\n"
        assert run("echo usable").output == b"usable\n"

    def test_timeout_reaches_new_sessions_and_double_forks(self, run: Run) -> None:
        command = """
            setsid sleep 331 &
            (setsid sh -c 'sleep 332 & sleep 333' &)
            python3 -c 'import os, time
for _ in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
open("/tmp/daemon", "w").write("up")
time.sleep(334)'
            trap '' TERM INT HUP
            sleep 335"""
        assert run(command, timeout=1.5).timed_out
        assert run("cat /tmp/daemon; ps -eo args | grep -c '[s]leep[ (]33' || true").output == b"up0\n"

    def test_a_timeout_shorter_than_any_start_leaves_nothing(self, run: Run) -> None:
        assert run("sleep 351", timeout=0.001).timed_out
        time.sleep(0.3)
        assert run("ps -eo args | grep -c '[s]leep 351' || true").output == b"0\n"

    def test_timeout_with_input_and_output_under_way(self, run: Run) -> None:
        result = run("yes & sleep 60", stdin=b"x" * 8_000_000, timeout=1.0, max_output=1000)
        assert result.timed_out
        assert result.output.startswith(b"y\ny\n")
        assert result.output_bytes > 1000

    def test_timeout_spares_what_an_earlier_command_left_running(self, run: Run) -> None:
        run("sleep 341 >/dev/null 2>&1 & echo $! > /tmp/kept")
        assert run("sleep 342", timeout=0.5).timed_out
        assert run("kill $(cat /tmp/kept)").returncode == 0

    def test_a_server_left_running_holds_nobody_up_and_stays(self, run: Run) -> None:
        start = (
            "nohup python3 -m http.server 8123 --bind 127.0.0.1 >/tmp/log 2>&1 & echo $! > /tmp/pid; sleep 0.5; echo up"
        )
        result = run(start)
        assert (result.output, result.returncode) == (b"up\n", 0)
        assert result.duration < 3
        fetch = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/').status)\""
        assert run(fetch).output == b"200\n"
        run("kill $(cat /tmp/pid)")

    def test_a_background_process_that_keeps_the_output_open_holds_nobody_up_and_goes_on(self, run: Run) -> None:
        # It writes far more than pipes hold: it must not block (or die) when its call is over.
        flood = "(for i in $(seq 40); do head -c 100000 /dev/zero; echo $i > /tmp/flooded; sleep 0.02; done) &"
        result = run(f"{flood} echo started", timeout=20.0)
        assert not result.timed_out
        assert result.duration < 3
        until = time.monotonic() + 20
        while run("cat /tmp/flooded").output != b"40\n" and time.monotonic() < until:
            time.sleep(0.2)
        assert run("cat /tmp/flooded").output == b"40\n"

    def test_commands_in_one_container_do_not_wait_for_each_other(self, run: Run) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda number: run(f"sleep 2; echo {number}"), range(4)))
        assert time.monotonic() - started < 3.5
        assert [result.output for result in results] == [b"0\n", b"1\n", b"2\n", b"3\n"]

    def test_no_network(self, run: Run) -> None:
        connect = "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 53), 3)\""
        result = run(connect, timeout=10.0)
        assert result.returncode not in (0, -1)
        assert b"unreachable" in result.output

    # -- files ---------------------------------------------------------------------------------------------------------

    def test_files_go_in_and_out_byte_for_byte(self, shared: Container, run: Run) -> None:
        data = bytes(range(256)) * 10_000
        path = '/tmp/new dir/it\'s "ü"\n$x'
        shared.write_file(path, data)
        assert shared.read_file(path, len(data)) == data
        shared.write_file(path, b"")
        assert shared.read_file(path, 10) == b""
        assert run("ls -A '/tmp/new dir' | wc -l").output == b"2\n"  # a name with a line break, and nothing else

    def test_writing_keeps_the_mode_and_follows_links(self, shared: Container, run: Run) -> None:
        run("echo old > /tmp/tool; chmod 750 /tmp/tool; ln -sf /tmp/tool /tmp/link")
        shared.write_file("/tmp/link", b"new\n")
        assert run("cat /tmp/tool; stat -c %a /tmp/tool; readlink /tmp/link").output == b"new\n750\n/tmp/tool\n"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/nowhere/file", ErrorCode.BAD_REQUEST),
            ("/tmp", ErrorCode.BAD_REQUEST),
            ("relative", ErrorCode.BAD_REQUEST),
            ("/etc/passwd", ErrorCode.TOO_LARGE),
        ],
    )
    def test_reading_what_is_no_file_or_too_large(self, shared: Container, path: str, code: ErrorCode) -> None:
        with pytest.raises(SandboxError) as caught:
            shared.read_file(path, 10)
        assert caught.value.code is code
        assert path in caught.value.message

    @pytest.mark.parametrize("path", ["/tmp", "/etc/passwd/x"])
    def test_writing_where_no_file_can_be(self, shared: Container, path: str) -> None:
        with pytest.raises(SandboxError) as caught:
            shared.write_file(path, b"x")
        assert caught.value.code is ErrorCode.BAD_REQUEST

    # -- containers ----------------------------------------------------------------------------------------------------

    def test_containers_are_apart(self, make: Make) -> None:
        one, other = make(), make()
        one.write_file("/tmp/mine", b"1")
        with pytest.raises(SandboxError):
            other.read_file("/tmp/mine", 10)

    def test_the_directory_of_the_lease_is_made(self, make: Make) -> None:
        assert make(cwd="/made/for me").exec(ExecSpec("pwd", "/made/for me")).output == b"/made/for me\n"

    def test_a_destroyed_container_is_gone_for_every_call(self, make: Make) -> None:
        container = make()
        container.destroy()
        container.destroy()
        calls: list[Callable[[], object]] = [
            lambda: container.exec(ExecSpec("echo hi", "/")),
            lambda: container.read_file("/etc/passwd", 10**6),
            lambda: container.write_file("/tmp/x", b""),
            container.renew,
        ]
        for call in calls:
            with pytest.raises(SandboxError) as caught:
                call()
            assert caught.value.code is ErrorCode.CONTAINER_GONE
            assert not caught.value.retryable

    def test_list_finds_containers_with_their_labels(self, backend: Backend, make: Make) -> None:
        container = make({"color": "red"})
        found = {entry.id: entry for entry in backend.list()}[container.id]
        assert (found.name, found.labels["color"]) == (container.name, "red")
        assert found.exec(ExecSpec("echo hi", "/")).output == b"hi\n"
        container.destroy()
        assert container.id not in {entry.id for entry in backend.list()}

    def test_images_are_known_by_name(self, backend: Backend, image: str) -> None:
        assert backend.has_image(image)
        assert not backend.has_image("no-such-image:1")
        assert any(image in entry.names and entry.size > 0 for entry in backend.images())

    @pytest.mark.parametrize(
        ("image_name", "code"), [("no-such-image:1", ErrorCode.IMAGE_UNKNOWN), ("--privileged", ErrorCode.BAD_REQUEST)]
    )
    def test_an_image_that_is_not_there_is_refused(self, backend: Backend, image_name: str, code: ErrorCode) -> None:
        before = len(backend.list())
        with pytest.raises(SandboxError) as caught:
            backend.create(self.spec(image_name), f"swe-test-{uuid.uuid4().hex[:12]}", {})
        assert caught.value.code is code
        assert image_name in caught.value.message
        assert len(backend.list()) == before

    def test_a_network_is_given_only_where_allowed(self, backend: Backend, image: str) -> None:
        with pytest.raises(SandboxError) as caught:
            backend.create(self.spec(image, network=True), f"swe-test-{uuid.uuid4().hex[:12]}", {})
        assert caught.value.code is ErrorCode.BAD_REQUEST
