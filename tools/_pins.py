"""The pins in the root pyproject.toml: what `uv lock` must resolve to, without a lock file and without any host.

`constraint-dependencies` holds every package of the workspace at the version that `uv lock` chooses; the lock itself
names registry hosts and stays out of git. `build-constraint-dependencies` does the same for what builds the wheels.
Only these two lists are written; every other byte of the file stays. The workspace is resolved in a scratch directory,
from nothing but the pyproject.toml files, as a fresh clone is: a uv.lock that has grown over time may know packages
that a new one does not. After a `uv lock` all of it is in uv's cache, and no network is used.

    uv run tools/constraints             write the pins of the present resolution
    uv run tools/constraints --upgrade   resolve anew without pins first (after moving exclude-newer, say)
    uv run tools/constraints --check     exit code 1 and one line if the file would change
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PINS = "constraint-dependencies"
BUILD_PINS = "build-constraint-dependencies"
# (name, marker) -> versions
Table = dict[tuple[str, str], set[str]]


class PinsError(Exception):
    """One line: what is wrong and what to do."""


def conflicting_extras(pyproject: dict[str, Any]) -> list[tuple[str, ...]]:
    """What to leave out of each export so that all extras are in one of them: all but one of those that conflict."""
    sets = pyproject["tool"]["uv"].get("conflicts", [])
    names = sorted({item["extra"] for group in sets for item in group})
    return [tuple(other for other in names if other != kept) for kept in names] or [()]


def parse_export(text: str) -> Table:
    """An export in requirements format as a table."""
    table: Table = {}
    for line in text.splitlines():
        requirement, _, marker = (part.strip() for part in line.partition(" ;"))
        if not requirement or requirement.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)", requirement)
        if match is None:
            raise PinsError(f"uv exported {requirement!r}, which is no pin; only released versions can be pinned")
        table.setdefault((match[1], marker), set()).add(match[2])
    return table


def merge(tables: Sequence[Table]) -> list[str]:
    """One list of constraints that allows what each table pins, sorted by name.

    A package that has one version has no marker either: it would say nothing more, and uv resolves each side of a
    marker on its own, so one on the Python implementation asks for wheels that nobody made. Where the tables disagree
    (the conflicting extras take different versions of a package), no single pin can hold; the constraint is then the
    range between them, and each extra's own requirements choose within it.
    """
    lines = []
    for name in sorted({name for table in tables for name, _ in table}):
        variants = [{marker: found for (other, marker), found in table.items() if other == name} for table in tables]
        variants = [variant for variant in variants if variant]
        versions = sorted({v for variant in variants for found in variant.values() for v in found}, key=Version)
        if len(versions) == 1:
            lines.append(f"{name}=={versions[0]}")
        elif all(variant == variants[0] for variant in variants):
            lines += sorted(f"{name}=={v} ; {marker}" for marker, found in variants[0].items() for v in found)
        else:
            lines.append(f"{name}>={versions[0]},<={versions[-1]}")
    return lines


def with_list(text: str, key: str, lines: Sequence[str]) -> str:
    """The text of pyproject.toml with the list `key` of [tool.uv] replaced (or added at the table's end)."""
    body = "".join(f'    "{line}",\n' for line in lines)
    block = f"{key} = [\n{body}]\n"
    table = re.search(r"^\[tool\.uv\]\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    if table is None:
        raise PinsError("pyproject.toml has no [tool.uv] table; run this in the workspace")
    inner = table[1]
    present = re.search(rf"^{key} = \[(?:[^\n\]]*\]|.*?^\])[^\n]*\n", inner, re.MULTILINE | re.DOTALL)
    if present is not None:
        inner = inner[: present.start()] + block + inner[present.end() :]
    else:
        inner = inner.rstrip("\n") + "\n" + block + "\n"
    result = text[: table.start(1)] + inner + text[table.end(1) :]
    if tomllib.loads(result)["tool"]["uv"][key] != list(lines):
        raise PinsError(f"{key} could not be written; give it a line of its own in [tool.uv]")
    return result


def uv(*args: str, cwd: Path, online: bool, text: str | None = None) -> str:
    """Run uv, unless `online` from its cache alone if that holds all it needs; what it prints."""
    for network in [[]] if online else [["--offline"], []]:
        done = subprocess.run(
            ["uv", *args, *network], cwd=cwd, input=text, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode == 0:
            return done.stdout
    reason = next((line for line in done.stderr.splitlines() if "error" in line.lower() or "×" in line), done.stderr)
    raise PinsError(f"uv {args[0]} failed: {reason.strip()}")


def pins_of(root: Path, *, online: bool) -> list[str]:
    """The constraints that the resolution of the workspace at `root` amounts to."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    command = ["export", "--all-packages", "--all-groups", "--all-extras", "--no-emit-workspace"]
    plain = ["--no-hashes", "--no-annotate", "--no-header", "--format", "requirements.txt"]
    tables = []
    for left_out in conflicting_extras(pyproject):
        options = itertools.chain.from_iterable(("--no-extra", extra) for extra in left_out)
        tables.append(parse_export(uv(*command, *plain, *options, cwd=root, online=online)))
    return merge(tables)


def build_pins_of(root: Path, present: Sequence[str], *, online: bool) -> list[str]:
    """The same for the build backends of all members; `present` pins are kept."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    # what hatchling asks for when it builds an editable wheel, which no metadata says
    requires = {"editables"}
    for pattern in pyproject["tool"]["uv"]["workspace"]["members"]:
        for member in root.glob(f"{pattern}/pyproject.toml"):
            requires |= set(tomllib.loads(member.read_text("utf-8"))["build-system"]["requires"])
    lowest = pyproject["project"]["requires-python"].partition(",")[0].removeprefix(">=")
    command = ["pip", "compile", "--quiet", "--universal", "--python-version", lowest]
    text = "\n".join([*sorted(requires), *present])
    exported = uv(*command, "--no-header", "--no-annotate", "-", cwd=root, online=online, text=text)
    return merge([parse_export(exported)])


def copy_workspace(root: Path, target: Path, *, pinned: bool) -> None:
    """Copy what uv reads to resolve the workspace; both lists empty unless `pinned`."""
    text = (root / "pyproject.toml").read_text("utf-8")
    for key in () if pinned else (PINS, BUILD_PINS):
        text = with_list(text, key, [])
    (target / "pyproject.toml").write_text(text, "utf-8")
    for pattern in tomllib.loads(text)["tool"]["uv"]["workspace"]["members"]:
        for member in root.glob(f"{pattern}/pyproject.toml"):
            copy = target / member.relative_to(root)
            copy.parent.mkdir(parents=True)
            copy.write_bytes(member.read_bytes())


def renewed(root: Path, *, upgrade: bool) -> str:
    """The text of pyproject.toml with both lists up to date; `upgrade` disregards what they hold."""
    text = (root / "pyproject.toml").read_text("utf-8")
    present = [] if upgrade else tomllib.loads(text)["tool"]["uv"].get(BUILD_PINS, [])
    with tempfile.TemporaryDirectory(prefix="pins-") as name:
        scratch = Path(name)
        copy_workspace(root, scratch, pinned=not upgrade)
        pins = pins_of(scratch, online=upgrade)
        build_pins = build_pins_of(scratch, present, online=upgrade)
    return with_list(with_list(text, PINS, pins), BUILD_PINS, build_pins)


def difference(old: str, new: str) -> list[str]:
    """Pins that are in one text only."""
    pins = [set(tomllib.loads(text)["tool"]["uv"].get(key, [])) for text in (old, new) for key in (PINS, BUILD_PINS)]
    return sorted((pins[0] | pins[1]) ^ (pins[2] | pins[3]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; exit code 1 if the pins are stale")
    mode.add_argument("--upgrade", action="store_true", help="resolve anew, as if there were no pins")
    args = parser.parse_args(argv)
    path = ROOT / "pyproject.toml"
    old = path.read_text("utf-8")
    try:
        new = renewed(ROOT, upgrade=args.upgrade)
    except PinsError as error:
        print(f"constraints: {error}", file=sys.stderr)
        return 2
    if args.check and new != old:
        changed = difference(old, new)
        example = f" ({json.dumps(changed[0])})" if changed else ""
        print(f"constraints: {len(changed)} pins are stale{example}; run: uv run tools/constraints", file=sys.stderr)
        return 1
    if new != old:
        path.write_text(new, "utf-8")
    lists = tomllib.loads(new)["tool"]["uv"]
    state = "as they were" if new == old else "written"
    print(f"constraints: {len(lists[PINS])} pins and {len(lists[BUILD_PINS])} build pins, {state}")
    return 0
