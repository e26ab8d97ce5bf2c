"""A Docker engine of the proof's own that can be killed: own root, own socket, own network namespace, small disk."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import docker

START_S = 60
DISK_MB = 3072


class PrivateEngine:
    """A dockerd in a network namespace of its own (it must not touch the machine's bridge), on a disk of `DISK_MB`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.socket = f"unix://{root}/docker.sock"
        self._disk = root / "disk"
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self, image: str) -> None:
        """Mount the disk, start, and copy `image` over from the machine's engine."""
        self._disk.mkdir(parents=True)
        file = self.root / "disk.img"
        with file.open("wb") as handle:
            handle.truncate(DISK_MB * 1024**2)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(file)], check=True)
        subprocess.run(["mount", "-o", "loop", str(file), str(self._disk)], check=True)
        self.start()
        machine, own = docker.from_env(), docker.DockerClient(self.socket, timeout=300)
        own.images.load(b"".join(machine.images.get(image).save(named=True)))
        machine.close()
        own.close()

    def start(self) -> None:
        """Start and wait until it answers."""
        (self.root / "docker.pid").unlink(missing_ok=True)
        command = [
            "unshare", "-n", "dockerd", "--data-root", str(self._disk), "--exec-root", str(self.root / "exec"),
            "--pidfile", str(self.root / "docker.pid"), "-H", self.socket, "--bridge", "none", "--iptables=false",
        ]  # fmt: skip
        log = (self.root / "dockerd.log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_S
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the private engine did not start; see {self.root}/dockerd.log")
            time.sleep(0.2)

    def kill(self) -> None:
        """kill -9, as a machine's out-of-memory killer would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def fill_disk(self) -> None:
        """Leave no byte free."""
        with (self._disk / "ballast").open("wb") as file:
            free = shutil.disk_usage(self._disk).free
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, max(1, free - 512 * 1024))

    def free_disk(self) -> None:
        (self._disk / "ballast").unlink(missing_ok=True)

    def containers(self) -> list[str]:
        """Names of all containers, running or not."""
        client = docker.DockerClient(self.socket, timeout=60)
        try:
            return sorted(str(entry["Names"][0]) for entry in client.api.containers(all=True))
        finally:
            client.close()

    def end(self) -> None:
        """Stop everything of this engine and unmount its disk."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        for pid in _processes_with(str(self.root / "exec")):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        subprocess.run(["umount", "-l", str(self._disk)], check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            client = docker.DockerClient(self.socket, timeout=2)
        except docker.errors.DockerException:
            return False
        client.close()
        return True


def _processes_with(text: str) -> list[int]:
    """Processes whose command line names this engine's exec root: its containerd and shims."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found
