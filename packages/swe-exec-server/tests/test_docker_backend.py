"""The Docker backend: the conformance suite, and what only containers have."""

import importlib.util
import io
import os
import shutil
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import docker
import docker.errors
import pytest
from swe_exec_server import shell_scripts as scripts
from swe_exec_server.backend import ExecSpec
from swe_exec_server.docker_container import DockerContainer
from swe_exec_server.docker_engine import translate
from swe_exec_server.docker_sandbox import CAPABILITIES, NAMESPACE_LABEL, DockerBackend
from swe_exec_server.sandbox import Limits, SandboxSpec
from swe_exec_server.wire import ErrorCode, SandboxError


def load_conformance() -> ModuleType:
    """The suite next to this file; tests are no package, so it is loaded by path."""
    path = Path(__file__).with_name("backend_conformance.py")
    spec = importlib.util.spec_from_file_location("backend_conformance", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def namespace() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


def container_name() -> str:
    return f"swe-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(**docker.utils.kwargs_from_env())
    yield client
    client.close()


@pytest.fixture(scope="module")
def docker_backend() -> Iterator[DockerBackend]:
    backend = DockerBackend(namespace())
    yield backend
    for container in backend.list():
        container.destroy()


@pytest.fixture
def fresh(docker_backend: DockerBackend, docker_base_image: str) -> DockerContainer:
    return docker_backend.create(SandboxSpec(docker_base_image), container_name(), {})


def busybox_tree() -> bytes:
    """A tar of a root file system whose only program is a static busybox."""
    links = (
        "sh",
        "cat",
        "dd",
        "env",
        "grep",
        "sleep",
        "date",
        "ps",
        "setsid",
        "wc",
        "mkdir",
        "mv",
        "cp",
        "rm",
        "readlink",
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(os.path.realpath(shutil.which("busybox") or ""), "bin/busybox")
        for path in (*(f"bin/{link}" for link in links), "tmp"):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = (tarfile.DIRTYPE, 0o1777) if path == "tmp" else (tarfile.SYMTYPE, 0o777)
            entry.linkname = "" if path == "tmp" else "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def gone(container: DockerContainer) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        container.exec(ExecSpec("echo hi", "/"))
    assert caught.value.code is ErrorCode.CONTAINER_GONE
    return caught.value


@pytest.mark.docker
class TestConformance(load_conformance().BackendConformance):  # type: ignore[misc]
    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls, docker_backend: DockerBackend) -> DockerBackend:
        return docker_backend

    @pytest.fixture(scope="class")
    @classmethod
    def image(cls, docker_base_image: str) -> str:
        return docker_base_image


@pytest.mark.docker
class TestContainers:
    def test_rights_and_limits_are_set(
        self, docker_backend: DockerBackend, docker_base_image: str, api: docker.APIClient
    ) -> None:
        limits = Limits(memory=256 * 1024**2, pids=77, cpus=1.0)
        spec = SandboxSpec(docker_base_image, limits=limits, env={"SECRET": "1"})
        container = docker_backend.create(spec, container_name(), {"owner": "me"})
        found: dict[str, Any] = api.inspect_container(container.id)
        host = found["HostConfig"]
        assert (host["NetworkMode"], host["Init"], host["AutoRemove"]) == ("none", True, False)
        assert (host["Memory"], host["MemorySwap"]) == (limits.memory, limits.memory)
        assert (host["PidsLimit"], host["NanoCpus"]) == (77, 1_000_000_000)
        assert host["CapDrop"] == ["ALL"]
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == set(CAPABILITIES)
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert not host["Privileged"] and not host["Binds"]
        assert found["Config"]["Labels"]["owner"] == "me"
        status = container.exec(ExecSpec("grep -E '^(CapBnd|CapEff|NoNewPrivs)' /proc/self/status", "/")).text
        mask = sum(1 << number for number in (0, 1, 3, 5, 6, 7))
        assert status.split() == ["CapEff:", f"{mask:016x}", "CapBnd:", f"{mask:016x}", "NoNewPrivs:", "1"]

    def test_more_cores_than_the_engine_has_are_capped(
        self, docker_backend: DockerBackend, docker_base_image: str, api: docker.APIClient
    ) -> None:
        spec = SandboxSpec(docker_base_image, limits=Limits(cpus=10_000.0))
        container = docker_backend.create(spec, container_name(), {})
        assert api.inspect_container(container.id)["HostConfig"]["NanoCpus"] == api.info()["NCPU"] * 10**9

    def test_a_closed_backend_leaves_its_containers(
        self, fresh: DockerContainer, docker_backend: DockerBackend
    ) -> None:
        docker_backend.close()
        assert fresh.exec(ExecSpec("echo here", "/")).output == b"here\n"

    def test_namespaces_do_not_see_each_other(self, fresh: DockerContainer, docker_backend: DockerBackend) -> None:
        assert fresh.id in {container.id for container in docker_backend.list()}
        assert DockerBackend(namespace()).list() == []
        assert fresh.labels[NAMESPACE_LABEL] != ""

    def test_a_lease_found_again_keeps_its_variables(
        self, docker_backend: DockerBackend, docker_base_image: str
    ) -> None:
        made = docker_backend.create(SandboxSpec(docker_base_image, env={"A": "b c"}), container_name(), {})
        found = {container.id: container for container in docker_backend.list()}[made.id]
        assert found.exec(ExecSpec("echo $A", "/")).output == b"b c\n"

    def test_a_failed_create_leaves_nothing_and_spares_a_namesake(
        self, docker_backend: DockerBackend, docker_base_image: str, fresh: DockerContainer
    ) -> None:
        before = {container.id for container in docker_backend.list()}
        for name, cwd in ((container_name(), "/etc/passwd"), (fresh.name, "/testbed")):
            with pytest.raises(SandboxError):
                docker_backend.create(SandboxSpec(docker_base_image, cwd=cwd), name, {})
            assert {container.id for container in docker_backend.list()} == before
        assert fresh.exec(ExecSpec("echo here", "/")).output == b"here\n"

    def test_a_network_can_be_allowed(self, docker_base_image: str, api: docker.APIClient) -> None:
        backend = DockerBackend(namespace(), allow_network=True)
        container = backend.create(SandboxSpec(docker_base_image, network=True), container_name(), {})
        try:
            assert api.inspect_container(container.id)["HostConfig"]["NetworkMode"] == "bridge"
        finally:
            container.destroy()

    def test_anonymous_volumes_go_with_the_container(
        self, docker_backend: DockerBackend, fresh: DockerContainer, api: docker.APIClient
    ) -> None:
        tag = f"swe-test-{uuid.uuid4().hex[:12]}"
        api.commit(fresh.id, tag, "1", conf={"Volumes": {"/data": {}}})
        try:
            container = docker_backend.create(SandboxSpec(f"{tag}:1"), container_name(), {})
            volume = api.inspect_container(container.id)["Mounts"][0]["Name"]
            container.destroy()
            with pytest.raises(docker.errors.NotFound):
                api.inspect_volume(volume)
        finally:
            api.remove_image(f"{tag}:1", force=True)

    def test_destroy_does_not_wait_for_anything(self, fresh: DockerContainer) -> None:
        fresh.exec(ExecSpec("trap '' TERM; sleep 60 >/dev/null 2>&1 &", "/"))
        started = time.monotonic()
        fresh.destroy()
        assert time.monotonic() - started < 5


@pytest.mark.docker
class TestLease:
    def test_the_dead_mans_switch_ends_only_what_nobody_renews(
        self, docker_backend: DockerBackend, docker_base_image: str, api: docker.APIClient
    ) -> None:
        spec = SandboxSpec(docker_base_image, ttl=4.0)
        idle, renewed, busy = (docker_backend.create(spec, container_name(), {}) for _ in range(3))
        result: list[bytes] = []
        worker = threading.Thread(target=lambda: result.append(busy.exec(ExecSpec("sleep 8; echo done", "/")).output))
        worker.start()
        until = time.monotonic() + 9
        while time.monotonic() < until:
            renewed.renew()
            time.sleep(1)
        worker.join()
        assert not api.inspect_container(idle.id)["State"]["Running"]
        assert api.inspect_container(renewed.id)["State"]["Running"]
        assert result == [b"done\n"]
        assert gone(idle).reason == ""
        assert idle.id in {container.id for container in docker_backend.list()}


@pytest.mark.docker
class TestDeath:
    def test_killed_from_outside(self, fresh: DockerContainer, api: docker.APIClient) -> None:
        api.kill(fresh.id)
        assert gone(fresh).reason == ""

    def test_killed_while_a_command_runs(self, fresh: DockerContainer, api: docker.APIClient) -> None:
        threading.Timer(0.7, api.kill, [fresh.id]).start()
        with pytest.raises(SandboxError) as caught:
            fresh.exec(ExecSpec("sleep 30", "/"))
        assert caught.value.code is ErrorCode.CONTAINER_GONE

    def test_killed_by_its_own_command(self, fresh: DockerContainer) -> None:
        with pytest.raises(SandboxError) as caught:
            fresh.exec(ExecSpec("kill -9 -1", "/"))
        assert caught.value.code is ErrorCode.CONTAINER_GONE

    def test_memory_limit_is_named_as_the_reason(self, docker_backend: DockerBackend, docker_base_image: str) -> None:
        spec = SandboxSpec(docker_base_image, limits=Limits(memory=64 * 1024**2))
        container = docker_backend.create(spec, container_name(), {})
        hog = container.exec(ExecSpec("python3 -c 'x = bytearray(200 << 20)'", "/"))
        assert hog.returncode == 137  # one process killed is a result: the container lives
        assert container.exec(ExecSpec("echo fine", "/")).output == b"fine\n"
        with pytest.raises(SandboxError) as caught:
            container.exec(ExecSpec("pkill -9 -f swe-lease; sleep 5", "/"))
        assert (caught.value.code, caught.value.reason) == (ErrorCode.CONTAINER_GONE, "limits")

    def test_no_processes_left_is_the_commands_own_result(
        self, docker_backend: DockerBackend, docker_base_image: str
    ) -> None:
        spec = SandboxSpec(docker_base_image, limits=Limits(pids=40))
        container = docker_backend.create(spec, container_name(), {})
        fill = """exec python3 -c 'import os, time
if os.fork():
    while not os.path.exists("/tmp/full"): time.sleep(0.02)
    os._exit(0)
os.closerange(0, 3)
while True:
    try:
        if os.fork() == 0: time.sleep(60); os._exit(0)
    except OSError:
        open("/tmp/full", "w")
        time.sleep(0.001)'"""
        assert container.exec(ExecSpec(fill, "/", timeout=30)).returncode == 0
        result = container.exec(ExecSpec("echo hi", "/", timeout=40))
        assert result.returncode != 0
        assert b"unavailable" in result.output or b"fork" in result.output

    def test_a_fork_bomb_ends_with_its_container_at_the_latest(
        self, docker_backend: DockerBackend, docker_base_image: str
    ) -> None:
        spec = SandboxSpec(docker_base_image, limits=Limits(pids=64))
        container = docker_backend.create(spec, container_name(), {})
        try:
            assert container.exec(ExecSpec("f() { f | f & }; f; sleep 60", "/", timeout=2)).timed_out
        except SandboxError as error:
            assert (error.code, error.reason) == (ErrorCode.CONTAINER_GONE, "limits")
            assert gone(container).reason == "limits"
        else:
            assert container.exec(ExecSpec("ps -e | wc -l", "/")).returncode == 0

    def test_an_image_without_a_shell_is_an_error_that_says_so(self, fresh: DockerContainer) -> None:
        assert fresh.exec(ExecSpec("rm -f /bin/sh /bin/dash; kill -9 $PPID", "/")).returncode == 137
        for _ in range(5):  # the engine's own message comes early: none of it may be lost
            with pytest.raises(SandboxError) as caught:
                fresh.exec(ExecSpec("echo hi", "/"))
            assert caught.value.code is ErrorCode.INTERNAL
            assert "no shell could be started" in caught.value.message
            assert "/bin/sh" in caught.value.message

    def test_a_killed_shell_of_ours_is_a_result(self, fresh: DockerContainer) -> None:
        assert fresh.exec(ExecSpec("kill -9 $PPID; sleep 5", "/")).returncode == 137
        killer = "for p in $(ps -eo pid,args | awk '/ swe-exec$/ {print $1}'); do kill -9 $p; done; sleep 5"
        assert fresh.exec(ExecSpec(killer, "/", timeout=30)).returncode == 137
        assert fresh.exec(ExecSpec("echo alive", "/")).output == b"alive\n"


@pytest.mark.docker
class TestProcesses:
    def test_timeout_reaches_daemons_that_cleaned_their_environment_or_changed_their_user(
        self, fresh: DockerContainer
    ) -> None:
        command = """
            (setsid env -i /bin/sleep 351 &)
            useradd joe; su joe -c '(setsid sleep 352 &) ; sleep 353'"""
        assert fresh.exec(ExecSpec(command, "/", timeout=2)).timed_out
        assert fresh.exec(ExecSpec("ps -eo args | grep -c '[s]leep 35'", "/")).output == b"0\n"

    def test_no_zombies_and_no_lost_descriptors_after_many_commands(self, fresh: DockerContainer) -> None:
        fresh.exec(ExecSpec("true", "/"))
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(25):
            fresh.exec(ExecSpec("(true &) ; setsid true & true", "/"))
        assert fresh.exec(ExecSpec("ps -eo stat | grep -c Z", "/")).output == b"0\n"
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208

    def test_thousands_of_commands_leave_nothing_and_need_few_shells(self, fresh: DockerContainer) -> None:
        def run(number: int) -> bytes:
            return fresh.exec(ExecSpec(f"(true &) ; setsid true & echo {number}", "/")).output

        with ThreadPoolExecutor(4) as threads:
            outputs = list(threads.map(run, range(2000)))
        assert outputs == [b"%d\n" % number for number in range(2000)]
        # What ended last takes a moment to go, and more idle shells than a few half a minute.
        count = "ps -eo stat | grep -c Z; ps -eo args | grep -c '^/bin/sh -s .*[s]we-exec'"
        until = time.monotonic() + 60
        while True:
            zombies, shells = map(int, fresh.exec(ExecSpec(count, "/")).output.split())
            if (zombies == 0 and 1 <= shells <= 6) or time.monotonic() > until:
                break
            time.sleep(0.2)
        assert (zombies, 1 <= shells <= 6) == (0, True), shells

    def test_a_shell_of_ours_serves_command_after_command(self, fresh: DockerContainer) -> None:
        shells = {fresh.exec(ExecSpec("echo $PPID", "/", internal=number % 2 == 0)).output for number in range(20)}
        assert len(shells) == 1
        # Not with one that a command spoiled: a process left running, input that may lie unread, a timeout.
        for spec in (
            ExecSpec("sleep 391 >/dev/null 2>&1 & echo $PPID", "/"),
            ExecSpec("echo $PPID", "/", stdin=bytes(100_000)),
            ExecSpec("echo $PPID; sleep 392", "/", timeout=0.5),
        ):
            spoiled = fresh.exec(spec).output
            assert fresh.exec(ExecSpec("echo $PPID", "/")).output not in {spoiled, b""}

    def test_late_output_of_a_process_left_running_reaches_no_other_command(self, fresh: DockerContainer) -> None:
        for number in range(10):
            fresh.exec(ExecSpec("(for i in $(seq 50); do echo LATE; sleep 0.01; done) & echo now", "/"))
            output = fresh.exec(ExecSpec(f"echo {number}; sleep 0.03; echo end", "/")).output
            assert output == b"%d\nend\n" % number

    def test_a_daemon_that_a_later_command_talks_to_survives_that_ones_timeout(self, fresh: DockerContainer) -> None:
        fresh.exec(ExecSpec("setsid sleep 393 >/dev/null 2>&1 &", "/"))
        assert fresh.exec(ExecSpec("sleep 394", "/", timeout=0.3)).timed_out
        assert fresh.exec(ExecSpec("ps -eo args | grep '[s]leep 39'", "/")).output == b"sleep 393\n"

    def test_idle_shells_that_were_killed_are_replaced_and_nothing_runs_twice(self, fresh: DockerContainer) -> None:
        for number in range(5):
            fresh.exec(ExecSpec("pkill -9 -f 'swe-exec$'; true", "/"))
            assert fresh.exec(ExecSpec(f"echo {number} >> /tmp/ran; cat /tmp/ran | wc -l", "/")).output == (
                b"%d\n" % (number + 1)
            )

    def test_an_image_whose_variables_have_the_names_of_ours(
        self, docker_backend: DockerBackend, fresh: DockerContainer, api: docker.APIClient
    ) -> None:
        tag = f"swe-test-{uuid.uuid4().hex[:12]}"
        variables = ["name=N", "shell=S", "env=E", "cat=C", "IFS=e", "nonce=O", "BASH_ENV=/tmp/env.sh", "CDPATH=/etc"]
        api.commit(fresh.id, tag, "1", changes=[f"ENV {variable}" for variable in variables])
        try:
            container = docker_backend.create(SandboxSpec(f"{tag}:1"), container_name(), {})
            container.write_file("/tmp/env.sh", b"FROM_BASH_ENV=yes\n")
            command = 'echo "$name $shell $env $cat $nonce $FROM_BASH_ENV"; pwd'
            assert container.exec(ExecSpec(command, "/tmp")).output == b"N S E C O yes\n/tmp\n"
            container.destroy()
        finally:
            api.remove_image(f"{tag}:1", force=True)

    @pytest.mark.skipif(shutil.which("busybox") is None, reason="no busybox here to make an image of")
    def test_image_of_nothing_but_busybox(self, docker_backend: DockerBackend, api: docker.APIClient) -> None:
        tag = f"swe-test-{uuid.uuid4().hex[:12]}"
        api.import_image_from_data(busybox_tree(), repository=tag, tag="1")
        try:
            container = docker_backend.create(SandboxSpec(f"{tag}:1", cwd="/"), container_name(), {})
            assert container.exec(ExecSpec('echo "$0"; exit 3', "/")).output == b"sh\n"
            assert container.exec(ExecSpec("cat", "/", stdin=bytes(range(256)) * 1000)).output == (
                bytes(range(256)) * 1000
            )
            container.write_file("/tmp/x", b"\0\xff")
            assert container.read_file("/tmp/x", 10) == b"\0\xff"
            result = container.exec(ExecSpec("(setsid sleep 395 &); echo before; sleep 396", "/", timeout=0.5))
            assert (result.timed_out, result.output) == (True, b"before\n")
            assert container.exec(ExecSpec("ps -o args | grep -c '[s]leep 39'", "/")).output == b"0\n"
            container.destroy()
        finally:
            api.remove_image(f"{tag}:1", force=True)

    @pytest.mark.parametrize("padding", ["", ": " + "x" * 100_000 + "\n"])
    def test_a_command_that_kills_by_its_own_words_does_not_end_itself(
        self, fresh: DockerContainer, padding: str
    ) -> None:
        command = "sleep 371 >/dev/null 2>&1 & pkill -f 'sleep 371'; echo $?; env | grep -c pkill"
        assert fresh.exec(ExecSpec(padding + command, "/")).output == b"0\n0\n"

    def test_image_of_another_user(
        self, docker_backend: DockerBackend, fresh: DockerContainer, api: docker.APIClient
    ) -> None:
        fresh.exec(ExecSpec("useradd -m joe", "/"))
        tag = f"swe-test-{uuid.uuid4().hex[:12]}"
        api.commit(fresh.id, tag, "1", conf={"User": "joe"})
        try:
            container = docker_backend.create(SandboxSpec(f"{tag}:1"), container_name(), {})
            assert (
                container.exec(ExecSpec("id -un; (setsid sleep 361 &) ; sleep 362", "/", timeout=1)).output == b"joe\n"
            )
            assert container.exec(ExecSpec("ps -eo args | grep -c '[s]leep 36'", "/")).output == b"0\n"
            container.write_file("/tmp/mine", b"x")
            assert container.exec(ExecSpec("stat -c %U /tmp/mine", "/")).output == b"joe\n"
            with pytest.raises(SandboxError) as caught:
                container.write_file("/etc/not-mine", b"x")
            assert caught.value.code is ErrorCode.BAD_REQUEST
            container.destroy()
        finally:
            api.remove_image(f"{tag}:1", force=True)

    def test_image_without_bash(
        self, docker_backend: DockerBackend, fresh: DockerContainer, api: docker.APIClient
    ) -> None:
        fresh.exec(ExecSpec("rm -f /bin/bash /usr/bin/bash", "/", internal=True))
        tag = f"swe-test-{uuid.uuid4().hex[:12]}"
        api.commit(fresh.id, tag, "1")
        try:
            container = docker_backend.create(SandboxSpec(f"{tag}:1"), container_name(), {})
            assert container.exec(ExecSpec('echo "$0"; exit 3', "/")).output == b"sh\n"
            assert container.exec(ExecSpec("if then fi", "/")).returncode == 2
            assert container.exec(ExecSpec("sleep 60", "/", timeout=0.5)).timed_out
            container.destroy()
        finally:
            api.remove_image(f"{tag}:1", force=True)

    def test_a_full_disk_is_named(self, fresh: DockerContainer) -> None:
        with pytest.raises(SandboxError) as caught:
            fresh.write_file("/dev/shm/too-much", bytes(80 * 1024**2))
        assert caught.value.code is ErrorCode.DISK_FULL
        assert fresh.exec(ExecSpec("ls /dev/shm", "/")).output == b""


@pytest.mark.docker
class TestLoginShell:
    PROFILE = "/etc/profile.d/test.sh"

    def test_its_variables_are_every_commands_and_its_output_is_nobodys(self, fresh: DockerContainer) -> None:
        fresh.write_file(
            self.PROFILE, b'echo NOISE; echo NOISE >&2; export PATH=/opt/env/bin:$PATH ODD="a\n\'b" LC_ALL=C\n'
        )
        result = fresh.exec(ExecSpec('echo "${PATH%%:*} $ODD $LC_ALL"', "/"))
        assert result.output == b"/opt/env/bin a\n'b C\n"

    def test_the_lease_overrides_it(self, docker_backend: DockerBackend, docker_base_image: str) -> None:
        spec = SandboxSpec(docker_base_image, env={"ODD": "lease"})
        container = docker_backend.create(spec, container_name(), {})
        container.write_file(self.PROFILE, b"export ODD=profile SEEN=$ODD\n")
        assert container.exec(ExecSpec("echo $ODD $SEEN", "/")).output == b"lease lease\n"

    @pytest.mark.parametrize("profile", [b"exit 3\n", b"sleep 60\n", b"kill -9 $$\n", b"exec cat\n"])
    def test_a_profile_that_fails_or_hangs_breaks_nothing(
        self, fresh: DockerContainer, profile: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scripts, "CAPTURE_LOGIN_TIMEOUT", 1.0)
        fresh.write_file(self.PROFILE, profile)
        assert fresh.exec(ExecSpec("echo $LC_ALL", "/")).output == b"C.UTF-8\n"

    def test_plain_does_without(self, docker_base_image: str) -> None:
        backend = DockerBackend(namespace(), user_shell="plain")
        container = backend.create(SandboxSpec(docker_base_image), container_name(), {})
        try:
            container.write_file(self.PROFILE, b"export ODD=profile\n")
            assert container.exec(ExecSpec("echo [$ODD]", "/")).output == b"[]\n"
        finally:
            container.destroy()


@pytest.mark.docker
class TestPull:
    def test_a_registry_that_does_not_answer(self, docker_backend: DockerBackend) -> None:
        with pytest.raises(SandboxError) as caught:
            list(docker_backend.pull("127.0.0.1:1/none:1"))
        assert caught.value.code is ErrorCode.INTERNAL
        assert "cannot pull 127.0.0.1:1/none:1" in caught.value.message

    def test_a_name_that_is_an_option(self, docker_backend: DockerBackend) -> None:
        with pytest.raises(SandboxError) as caught:
            list(docker_backend.pull("--all"))
        assert caught.value.code is ErrorCode.BAD_REQUEST


class TestEngine:
    def test_no_engine_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        backend = DockerBackend("test-none")
        for call in (backend.check, backend.list, backend.images):
            with pytest.raises(SandboxError) as caught:
                call()
            assert (caught.value.code, caught.value.retryable) == (ErrorCode.ENGINE_DOWN, True)
            assert "DOCKER_HOST" in caught.value.message
            assert "\n" not in caught.value.message

    @pytest.mark.parametrize(
        ("text", "code"),
        [("mkdir /x: no space left on device", ErrorCode.DISK_FULL), ("anything else", ErrorCode.INTERNAL)],
    )
    def test_refusals_have_a_type(self, text: str, code: ErrorCode) -> None:
        assert translate(docker.errors.APIError("500", explanation=text)).code is code
