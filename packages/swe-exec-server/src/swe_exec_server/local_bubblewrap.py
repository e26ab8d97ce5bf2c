"""What a bubblewrap sandbox sees: the tree, a private /tmp and home, and read-only what programs need to run. Pure, but
for looking at what this machine has.

Nothing else of the machine is in it: no home directories, no /root, no secrets of /etc, no sockets, no network but a
loopback of its own. The root is read-only. The user stays who it is (mapped into a user namespace, no capabilities).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = "/home/sandbox"
CONTROL = "/run/swe"
SUPERVISOR = "/run/swe-supervisor.py"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ROOT_ENTRIES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC_ENTRIES = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "protocols",
    "python3",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_NETWORK_ENTRIES = ("hosts", "resolv.conf")
_RESERVED = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "usr")
)


@dataclass(frozen=True)
class View:
    """The directories of one sandbox, on this machine, and where its tree appears."""

    tree: Path
    tmp: Path
    home: Path
    control: Path
    etc: Path
    cwd: str
    network: bool


def reserved(cwd: str) -> bool:
    """Whether a tree at `cwd` would hide the system, or `cwd` is no plain absolute path."""
    plain = cwd.startswith("/") and cwd not in ("/", HOME) and os.path.normpath(cwd) == cwd
    return not plain or cwd.split("/")[1] in _RESERVED


def python_of_base() -> Path:
    """The interpreter itself, not the link of a virtual environment to it."""
    plain = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return plain if plain.exists() else Path(sys.executable).resolve()


def arguments(view: View, supervisor: Path, command: Sequence[str], info_fd: int) -> list[str]:
    """The whole command line; `command` runs as process 1 inside."""
    argv = ["bwrap", "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--as-pid-1", "--new-session"]
    argv += ["--share-net"] if view.network else []
    argv += ["--hostname", "sandbox", "--info-fd", str(info_fd), "--ro-bind", "/usr", "/usr"]
    for entry in _ROOT_ENTRIES:
        if Path(entry).is_symlink():
            argv += ["--symlink", str(Path(entry).readlink()), entry]
        elif Path(entry).is_dir():
            argv += ["--ro-bind", entry, entry]
    for name in (*_ETC_ENTRIES, *(_NETWORK_ENTRIES if view.network else ())):
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in ("passwd", "group"):
        argv += ["--ro-bind", str(view.etc / name), f"/etc/{name}"]
    prefix = Path(sys.base_prefix).resolve()
    if not prefix.is_relative_to("/usr"):
        argv += ["--ro-bind", str(prefix), str(Path(sys.base_prefix))]
    argv += ["--proc", "/proc", "--dev", "/dev", "--symlink", "/tmp", "/var/tmp"]
    argv += ["--bind", str(view.tmp), "/tmp", "--bind", str(view.home), HOME]
    argv += ["--ro-bind", str(view.control), CONTROL, "--ro-bind", str(supervisor), SUPERVISOR]
    argv += ["--bind", str(view.tree), view.cwd, "--remount-ro", "/", "--chdir", "/", "--", *command]
    return argv


def write_accounts(etc: Path) -> None:
    """Names for the one user that exists inside."""
    user, group = os.getuid(), os.getgid()
    name = "root" if user == 0 else "sandbox"
    (etc / "passwd").write_text(
        f"{name}:x:{user}:{group}::{HOME}:/bin/bash\nnobody:x:65534:65534::/nonexistent:/bin/false\n"
    )
    (etc / "group").write_text(f"{name}:x:{group}:\nnogroup:x:65534:\n")


def why_unusable() -> str:
    """Empty when bubblewrap makes sandboxes here, else why not, in one line."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    probe = ["bwrap", "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    probe += ["--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", ":"]
    try:
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run here: {error}"
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return "" if done.returncode == 0 else f"bubblewrap can not make a sandbox here: {said[-300:]}"
