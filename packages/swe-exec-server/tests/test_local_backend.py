"""The embedded backend: the conformance suite both ways, and what keeps a sandbox in and a stranger alive."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from swe_exec_server import local_bubblewrap
from swe_exec_server.backend import Container, ExecSpec
from swe_exec_server.local_container import Process
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.sandbox import ExecResult, Limits, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError

WHY_NO_BUBBLEWRAP = local_bubblewrap.why_unusable()
needs_bubblewrap = pytest.mark.skipif(WHY_NO_BUBBLEWRAP != "", reason=WHY_NO_BUBBLEWRAP or "-")
OWN_PATHS = "plain processes see this machine's own paths"
Mode = Literal["bubblewrap", "process"]


def load_conformance() -> ModuleType:
    """The suite next to this file; tests are no package, so it is loaded by path."""
    path = Path(__file__).with_name("backend_conformance.py")
    spec = importlib.util.spec_from_file_location("backend_conformance", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def image_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    (directory / "hello.py").write_text("print('hello')\n")
    (directory / "link").symlink_to("hello.py")
    (directory / "run.sh").write_text("#!/bin/sh\necho run\n")
    (directory / "run.sh").chmod(0o755)
    return directory


class _Local(load_conformance().BackendConformance):  # type: ignore[misc]
    mode: Mode

    @pytest.fixture(scope="class")
    def backend(self, tmp_path_factory: pytest.TempPathFactory, image_tree: Path) -> Iterator[LocalBackend]:
        images = {"local-image": image_tree}.get
        made = LocalBackend(tmp_path_factory.mktemp("local"), images, mode=self.mode, unsafe_local=True)
        yield made
        for container in made.list():
            container.destroy()

    @pytest.fixture(scope="class")
    def image(self) -> str:
        return "local-image"


@needs_bubblewrap
class TestBubblewrapConformance(_Local):
    mode: Mode = "bubblewrap"


class TestProcessConformance(_Local):
    mode: Mode = "process"

    @pytest.fixture
    def run(self, shared: Container) -> Callable[..., ExecResult]:
        def run(command: str, **fields: Any) -> ExecResult:
            spec = ExecSpec(command, **{"cwd": "/testbed", **fields})
            if "/tmp" in command or "pwd" in command or spec.cwd == "/tmp" or "192.0.2.1" in command:
                pytest.skip(OWN_PATHS)
            return shared.exec(spec)

        return run

    @pytest.mark.skip(reason=OWN_PATHS)
    def test_files_go_in_and_out_byte_for_byte(self) -> None: ...

    @pytest.mark.skip(reason=OWN_PATHS)
    def test_containers_are_apart(self) -> None: ...

    @pytest.mark.skip(reason=OWN_PATHS)
    def test_the_directory_of_the_lease_is_made(self) -> None: ...

    def test_files_of_the_tree_go_in_and_out(self, shared: Container, tmp_path: Path) -> None:
        data = bytes(range(256)) * 10_000
        shared.write_file("/testbed/new dir/ü", data)
        assert shared.read_file("/testbed/new dir/ü", len(data)) == data
        assert shared.exec(ExecSpec("pwd; ls 'new dir'", "/testbed")).text.endswith("/tree\nü\n")
        assert shared.exec(ExecSpec("pwd", "/testbed/new dir")).text.endswith("/tree/new dir\n")

    def test_temporary_files_and_home_are_private(self, make: Callable[..., Container]) -> None:
        one, other = make(), make()
        assert one.exec(ExecSpec('touch "$TMPDIR/x" ~/y', "/testbed")).returncode == 0
        assert other.exec(ExecSpec('ls "$TMPDIR" ~ | grep -c "[xy]$"', "/testbed")).output == b"0\n"


@pytest.fixture(params=[pytest.param("bubblewrap", marks=needs_bubblewrap), "process"])
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


Create = Callable[..., Container]


@pytest.fixture
def backend(mode: Mode, tmp_path: Path, image_tree: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(tmp_path / "run" / "sandboxes", {"tree": image_tree}.get, mode=mode, unsafe_local=True)
    yield made
    for container in made.list():
        container.destroy()


def create(backend: LocalBackend, **fields: Any) -> Container:
    return backend.create(SandboxSpec("tree", **fields), f"swe-test-{uuid.uuid4().hex[:12]}", {})


def run(container: Container, command: str, **fields: Any) -> ExecResult:
    return container.exec(ExecSpec(command, **{"cwd": "/testbed", **fields}))


def test_a_sandbox_is_a_private_copy(backend: LocalBackend, image_tree: Path) -> None:
    container = create(backend)
    assert run(container, "./run.sh; readlink link; python3 hello.py").text == "run\nhello.py\nhello\n"
    run(container, "echo changed > hello.py; rm run.sh")
    assert (image_tree / "hello.py").read_text() == "print('hello')\n"
    assert (image_tree / "run.sh").exists()


def test_nothing_of_the_callers_environment_comes_in(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    container = create(backend, env={"MINE": "1"})
    names = {line.partition("=")[0] for line in run(container, "env").text.splitlines()}
    assert "MINE" in names
    assert not names & {"SECRET_TOKEN", "GIT_DIR", "PYTHONPATH", "USER", "VIRTUAL_ENV"}


def test_git_of_the_caller_has_no_say(backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = caller\n")
    monkeypatch.setenv("HOME", str(home))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    container = create(backend)
    assert run(container, "git config user.name").returncode != 0
    outside = run(container, "git rev-parse --show-toplevel")
    assert outside.returncode != 0, "a repository around the directory must not be found"
    assert run(container, "git init -q . && git status --porcelain | wc -l").text == "3\n"


def test_a_destroyed_sandbox_leaves_nothing(backend: LocalBackend, tmp_path: Path, sleep: str) -> None:
    container = create(backend)
    result = run(container, f"(setsid {sleep} &); nohup setsid {sleep} >/dev/null 2>&1 & mkdir -p a/b; chmod 000 a")
    assert result.returncode == 0
    assert processes_with(sleep) != []
    container.destroy()
    assert processes_with(sleep) == []
    assert list((tmp_path / "run" / "sandboxes").iterdir()) == []


@pytest.fixture
def sleep() -> str:
    """A command that only this test runs, so that tests side by side do not find each other's processes."""
    return f"sleep {1000 + uuid.uuid4().int % 1_000_000}"


def processes_with(args: str) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listing.splitlines()]
    return [int(row[0]) for row in rows if len(row) == 2 and row[1] == args]


def test_a_command_that_kills_all_it_can_ends_alone(backend: LocalBackend, mode: Mode) -> None:
    if mode == "process":
        pytest.skip("plain processes can reach everything of their user")
    container = create(backend)
    assert run(container, "sleep 372 & kill -9 -1; sleep 373", timeout=20.0).returncode == 137
    assert run(container, "echo alive; ps -eo args | grep -c '[s]leep 37'").text == "alive\n0\n"


def test_a_killed_guardian_is_a_result_and_its_command_ends(backend: LocalBackend, sleep: str) -> None:
    container = create(backend)
    assert run(container, f"kill -9 $PPID; {sleep}", timeout=20.0).returncode == 137
    until = time.monotonic() + 5
    while processes_with(sleep) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_with(sleep) == []
    assert run(container, "echo alive").output == b"alive\n"


def test_timeouts_reach_what_cleaned_its_environment(backend: LocalBackend, sleep: str) -> None:
    container = create(backend)
    command = f"(env -i setsid sh -c '{sleep} & {sleep}' &); trap '' TERM; env -i {sleep}"
    assert run(container, command, timeout=1.0).timed_out
    assert processes_with(sleep) == []


def test_no_zombies_and_no_lost_descriptors(backend: LocalBackend) -> None:
    container = create(backend)
    run(container, "true")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(50):
        run(container, "(true &); setsid true & true")
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208
    (supervisor,) = {int(pid) for pid in run(container, "ps -o ppid= -p $PPID").text.split()}
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        children = run(container, f"ps -o stat= --ppid {supervisor}").text.split()
        if len(children) == 1:
            break
    assert len(children) == 1


def test_a_memory_limit_holds(backend: LocalBackend) -> None:
    container = create(backend, limits=Limits(memory=256 * 1024**2))
    result = run(container, "python3 -c 'x = bytearray(512 << 20)'")
    assert result.returncode != 0
    assert "MemoryError" in result.text
    assert run(container, "echo fine").output == b"fine\n"


def test_a_killed_sandbox_is_gone(backend: LocalBackend, tmp_path: Path) -> None:
    container = create(backend)
    record = next((tmp_path / "run" / "sandboxes").glob("*/sandbox.json")).read_text()
    pid = int(record.partition('"supervisor"')[2].partition('"pid": ')[2].partition(",")[0])
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 5
    with pytest.raises(SandboxError) as caught:
        while time.monotonic() < until:
            run(container, "true")
    assert caught.value.code is ErrorCode.CONTAINER_GONE
    assert not caught.value.retryable
    container.destroy()
    assert backend.list() == []


KILLED_SERVER = """
import os, signal, sys
from pathlib import Path
from swe_exec_server.backend import ExecSpec
from swe_exec_server.local_sandbox import LocalBackend
from swe_exec_server.sandbox import SandboxSpec
backend = LocalBackend(Path(sys.argv[1]), lambda _: Path(sys.argv[2]), mode=sys.argv[3], unsafe_local=True)
container = backend.create(SandboxSpec("tree"), "swe-left", {"lease": "L"})
container.exec(ExecSpec(f"setsid {sys.argv[4]} >/dev/null 2>&1 &", "/testbed"))
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_server_left_is_found_and_removed(
    mode: Mode, tmp_path: Path, image_tree: Path, sleep: str
) -> None:
    directory = tmp_path / "sandboxes"
    command = [sys.executable, "-c", KILLED_SERVER, str(directory), str(image_tree), mode, sleep]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "ready\n", done.stderr
    until = time.monotonic() + 5
    while processes_with(sleep) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_with(sleep) == [], "a sandbox ends with its server"
    backend = LocalBackend(directory, {"tree": image_tree}.get, mode=mode, unsafe_local=True)
    (left,) = backend.list()
    assert (left.name, left.labels) == ("swe-left", {"lease": "L"})
    with pytest.raises(SandboxError) as caught:
        left.renew()
    assert caught.value.code is ErrorCode.CONTAINER_GONE
    left.destroy()
    assert backend.list() == []
    assert list(directory.iterdir()) == []


def test_strangers_are_left_alone(tmp_path: Path, image_tree: Path) -> None:
    directory = tmp_path / "sandboxes"
    (directory / "not-ours").mkdir(parents=True)
    (directory / "not-ours" / "keep.txt").write_text("mine")
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        reused = directory / ("a" * 32)
        for name in ("tree", "control"):
            (reused / name).mkdir(parents=True)
        (reused / "sandbox.json").write_text(
            f'{{"schema": 1, "name": "n", "labels": {{}}, "server": {{"pid": {stranger.pid}, "started": "1"}},'
            f' "supervisor": {{"pid": {stranger.pid}, "started": "1"}}}}'
        )
        backend = LocalBackend(directory, {"tree": image_tree}.get, mode="process")
        for container in backend.list():
            container.destroy()
        assert [entry.name for entry in directory.iterdir()] == ["not-ours"]
        assert stranger.poll() is None
        assert Process.of(stranger.pid).alive()
    finally:
        stranger.kill()
        stranger.wait()


def test_plain_processes_take_only_trusted_commands(tmp_path: Path, image_tree: Path) -> None:
    backend = LocalBackend(tmp_path / "s", {"tree": image_tree}.get, mode="process")
    with pytest.raises(SandboxError) as caught:
        create(backend)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert "install bubblewrap, or pass --unsafe-local" in caught.value.message
    assert "\n" not in caught.value.message
    assert not (tmp_path / "s").exists() or list((tmp_path / "s").iterdir()) == []
    container = create(backend, trusted=True)
    assert run(container, "echo ok").output == b"ok\n"
    container.destroy()


def test_without_bubblewrap_auto_means_plain_processes(
    tmp_path: Path, image_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert LocalBackend(tmp_path / "s", {"tree": image_tree}.get).kind == "process"
    forced = LocalBackend(tmp_path / "s", {"tree": image_tree}.get, mode="bubblewrap")
    assert forced.kind == "bubblewrap"
    with pytest.raises(SandboxError) as caught:
        forced.check()
    assert caught.value.code is ErrorCode.ENGINE_DOWN
    assert "install bubblewrap" in caught.value.message


@pytest.mark.parametrize("cwd", ["/", "/usr", "/etc/x", "/proc", "relative", "/a/../b", "/dev/shm"])
def test_a_tree_must_not_hide_the_system(backend: LocalBackend, cwd: str) -> None:
    with pytest.raises(SandboxError) as caught:
        create(backend, cwd=cwd)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert backend.list() == []


@needs_bubblewrap
class TestWalls:
    @pytest.fixture
    def container(self, tmp_path: Path, image_tree: Path) -> Iterator[Container]:
        made = create(LocalBackend(tmp_path / "s", {"tree": image_tree}.get, mode="bubblewrap"))
        yield made
        made.destroy()

    def test_files_of_the_machine_are_not_there(self, container: Container, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        hidden = [
            str(secret),
            "/etc/shadow",
            "/etc/hostname",
            "/var/run/docker.sock",
            "/run/docker.sock",
            "/sys",
            "/home/*",
        ]
        assert run(container, f"ls -d {' '.join(hidden)} 2>/dev/null | grep -v /home/sandbox").text == ""

    def test_links_do_not_lead_out(self, container: Container, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        run(container, f"ln -s {secret} out; ln -s {tmp_path} dir")
        with pytest.raises(SandboxError):
            container.read_file("/testbed/out", 100)
        with pytest.raises(SandboxError):
            container.write_file("/testbed/dir/made", b"x")
        assert secret.read_text() == "secret"
        assert not (tmp_path / "made").exists()

    def test_the_system_can_not_be_changed(self, container: Container) -> None:
        for path in ("/usr/bin/x", "/etc/x", "/x", "/run/swe/x"):
            assert run(container, f"echo x > {path}").returncode != 0

    def test_no_rights_and_no_view_of_other_processes(self, container: Container) -> None:
        status = run(container, "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status").text.split()
        assert status == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
        assert int(run(container, "ps -e | wc -l").text) < 10
        assert run(container, "kill -9 1; echo still here").output == b"still here\n"

    def test_the_loopback_is_its_own(self, container: Container) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            connect = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 3)\""
            assert "refused" in run(container, connect).text

    def test_the_interpreter_is_the_servers(self, container: Container) -> None:
        version = "{}.{}.{}".format(*sys.version_info)
        assert run(container, "python3 -c 'import platform, ssl, ctypes; print(platform.python_version())'").text == (
            f"{version}\n"
        )
