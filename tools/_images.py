"""The pure half of `instance_image.py`: from a benchmark row to what must be built, and back to a row that fits it.

Nothing here talks to Docker or to the network.
"""

import configparser
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BASE_OF_PYTHON = {"3.9": "bullseye", "3.11": "bookworm"}
DEFAULT_PYTHON = "3.11"
DEFAULT_INSTALL = "pip install -e ."

# Where packages come from, as pip's own settings name it; what else a client configures is its own affair.
PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
PIP_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")

Row = dict[str, Any]


class InputError(Exception):
    """One line: what is wrong and what to do."""


@dataclass(frozen=True)
class Recipe:
    """All that decides what is inside an image.

    Attributes:
        base: name of the image to start from.
        sdist: `name==version` of a source distribution, or empty when `tree` holds the sources.
        tree: a tar archive of the sources, or empty.
        install: shell command that installs the tree, run in /testbed.
        requires: further packages for pip, separated by blanks.
        apt: Debian packages, separated by blanks.
    """

    base: str
    sdist: str = ""
    tree: bytes = b""
    install: str = DEFAULT_INSTALL
    requires: str = ""
    apt: str = ""

    def digest(self, base_id: str, setup: bytes) -> str:
        """Hash of every input; `base_id` is the base image's id, `setup` the script that runs in the container."""
        parts = (base_id, self.sdist, self.install, self.requires, self.apt)
        sums = (hashlib.sha256(data).hexdigest() for data in (self.tree, setup))
        return hashlib.sha256(json.dumps([*parts, *sums]).encode()).hexdigest()


def instance_of(row: Row) -> Row:
    """The part of a row that holds `instance_id`, `patch` and so on, whichever shape the row has."""
    metadata = row.get("metadata")
    for holder in (metadata if isinstance(metadata, dict) else {}, row):
        if isinstance(holder.get("instance"), dict):
            return dict(holder["instance"])
    return row


def read_rows(path: Path, ids: Iterable[str] = ()) -> list[Row]:
    """Rows of a JSONL file, all of them or those named in `ids`, in the file's order."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path} line {number} is no JSON: {error.msg}; write one row a line") from None
        if not isinstance(row, dict) or not instance_of(row).get("instance_id"):
            raise InputError(f"{path} line {number} has no instance_id; is it a SWE-bench row?")
        rows.append(row)
    wanted = set(ids)
    unknown = wanted - {str(instance_of(row)["instance_id"]) for row in rows}
    if unknown:
        raise InputError(f"{path} has no row {', '.join(sorted(unknown))}; check --ids")
    return [row for row in rows if not wanted or instance_of(row)["instance_id"] in wanted]


def image_name(row: Row, template: str = "") -> str:
    """`template` with {instance_id} filled in, else the row's own image, else a local name made from its id."""
    instance_id = str(instance_of(row)["instance_id"])
    if template:
        return template.replace("{instance_id}", instance_id.lower())
    name = row.get("image") or instance_of(row).get("image")
    return str(name) if name else f"swe-local/{instance_id.lower()}:latest"


def with_commit(row: Row, commit: str, image: str) -> Row:
    """The row for a tree of our own: `commit` wherever the row names its base commit, scripts included."""
    old = str(instance_of(row).get("base_commit") or "")

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(old, commit) if old else value
        if isinstance(value, list):
            return [replace(item) for item in value]
        if isinstance(value, dict):
            return {key: replace(item) for key, item in value.items()}
        return value

    new: Row = replace(row)
    for holder in (new, new.get("instance"), (new.get("metadata") or {}).get("instance")):
        if isinstance(holder, dict) and "instance_id" in holder:
            holder["base_commit"] = commit
            holder["image"] = image
    return new


def pack(files: Iterable[tuple[str, Path]]) -> bytes:
    """A tar archive that depends on names, contents, links and the executable bit alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, path in sorted(files):
            member = archive.gettarinfo(path, name)
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.mode & 0o111 else 0o644
            if member.isreg():
                # a second name of the same inode is a file of its own here
                with path.open("rb") as data:
                    archive.addfile(member, data)
            elif member.issym():
                archive.addfile(member)
    return buffer.getvalue()


def pack_data(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of plain files from memory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def walk(directory: Path) -> Iterator[str]:
    """Relative names of all files and links below a directory, version control and byte code left out."""
    for path in directory.rglob("*"):
        parts = path.relative_to(directory).parts
        if not {".git", "__pycache__"}.intersection(parts) and (path.is_symlink() or path.is_file()):
            yield "/".join(parts)


def pip_settings(files: Iterable[Path], environ: Mapping[str, str]) -> tuple[dict[str, str], Path | None]:
    """The client's pip configuration as variables for another machine's pip, and the CA bundle it trusts.

    Args:
        files: pip's configuration files, the later ones winning, as pip reads them.
        environ: the caller's environment, which wins over all files.

    Values that only mean something on this machine (file: URLs, paths) are left out; the caller passes the bundle on.
    """
    found: dict[str, str] = {}
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, "utf-8")
        except configparser.Error as error:
            raise InputError(f"pip's configuration {file} cannot be read: {error}".replace("\n", " ")) from None
        for section in ("global", "install", "download"):
            if parser.has_section(section):
                found.update(parser.items(section))
    for key in (*PIP_KEYS, "cert"):
        value = environ.get(f"PIP_{key.upper().replace('-', '_')}")
        if value:
            found[key] = value
    settings = {}
    for key in PIP_KEYS:
        words = [word for word in found.get(key, "").split() if not word.startswith(("file:", "/", "."))]
        if words:
            settings[f"PIP_{key.upper().replace('-', '_')}"] = " ".join(words)
    settings |= {name: environ[name] for name in PROXY_VARIABLES if environ.get(name)}
    bundles = [found.get("cert"), *(environ.get(name) for name in PIP_CA_VARIABLES)]
    bundle = next((Path(name) for name in bundles if name and Path(name).is_file()), None)
    return settings, bundle


def pip_config_files(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Where pip looks for its configuration on Unix, the weakest first."""
    system = [Path(directory) / "pip/pip.conf" for directory in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")]
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    files = [*system, Path("/etc/pip.conf"), home / ".pip/pip.conf", user]
    return [*files, *([Path(environ["PIP_CONFIG_FILE"])] if environ.get("PIP_CONFIG_FILE") else [])]
