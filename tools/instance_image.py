#!/usr/bin/env python3
"""Builds the image that an instance runs in from a source tree alone, for any SWE-bench-like row.

    uv run tools/instance_image.py --rows rows.jsonl --out ready.jsonl
    uv run tools/instance_image.py --source ../my-project --tag my-project:dev --requires pytest

In the image, /testbed is the tree as one git commit, installed in a virtual environment that shells activate by
themselves and that `source /opt/miniconda3/bin/activate; conda activate testbed` activates too. The rows written to
--out name that commit and that image wherever they named their own, and are ready for `swe-eval --data`. A row whose
gold patch or test patch does not apply to the tree is reported and left out; the others go on. Images built before
from the same inputs are used again. Exit codes: 0 all built, 1 some rows failed, 2 refused before work.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import docker
from _image_build import build, connect, patch_faults
from _images import (
    BASE_OF_PYTHON,
    DEFAULT_INSTALL,
    DEFAULT_PYTHON,
    InputError,
    Recipe,
    Row,
    image_name,
    instance_of,
    pack,
    pip_config_files,
    pip_settings,
    read_rows,
    walk,
    with_commit,
)
from docker.errors import DockerException


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--rows", type=Path, metavar="FILE", help="rows as JSONL; a row's `sdist` and `python` say what to build from")
    add("--ids", default="", help="only these instance ids, separated by commas")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--source", type=Path, metavar="DIR", help="source tree to use (a git checkout: what git lists)"
    )
    source.add_argument("--sdist", metavar="NAME==VERSION", default="", help="source distribution to use")
    add("--python", choices=sorted(BASE_OF_PYTHON), help=f"default: the row's, else {DEFAULT_PYTHON}")
    add("--base", metavar="IMAGE", help="image to start from; default: what tools/base_image makes for the Python")
    add("--tag", default="", help="name of the image; {instance_id} is filled in; default: the row's image")
    add("--install", default=DEFAULT_INSTALL, help="how to install the tree (default: %(default)s)")
    add("--requires", default="", metavar="PACKAGES", help="further packages for pip, in one argument")
    add("--apt", default="", metavar="PACKAGES", help="Debian packages to install first, in one argument")
    add("--network", default="bridge", help="Docker network of the build (never of the image; default: %(default)s)")
    add("--force", action="store_true", help="build even if the same inputs were built before")
    add("--out", type=Path, metavar="FILE", help="write the rows that were built, fitted to their images, as JSONL")
    args = parser.parse_args(argv)
    if args.rows is None and not (args.tag and (args.source or args.sdist)):
        parser.error("give --rows FILE, or a tree (--source or --sdist) and its --tag")
    if args.rows is None and (args.ids or args.out):
        parser.error("--ids and --out go with --rows")
    return args


def tree_of(directory: Path) -> bytes:
    """The directory as a tar archive: what git lists there if it is a checkout, else every file."""
    if not directory.is_dir():
        raise InputError(f"--source {directory} is no directory")
    names = list(walk(directory))
    if (directory / ".git").exists():
        command = ["git", "-C", str(directory), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "surrogateescape")
        names = [name for name in set(listed.split("\0")) if name and os.path.lexists(directory / name)]
    if not names:
        raise InputError(f"--source {directory} holds no files")
    return pack((name, directory / name) for name in names)


def recipe_for(args: argparse.Namespace, row: Row, tree: bytes) -> Recipe:
    sdist = args.sdist or ("" if tree else str(row.get("sdist") or instance_of(row).get("sdist") or ""))
    if not tree and not sdist:
        raise InputError("the row names no sdist; give --source DIR or --sdist NAME==VERSION")
    python = args.python or str(row.get("python") or instance_of(row).get("python") or DEFAULT_PYTHON)
    if not args.base and python not in BASE_OF_PYTHON:
        raise InputError(f"no base image has Python {python}; give --base IMAGE")
    base = args.base or f"swe-base:{BASE_OF_PYTHON[python]}"
    return Recipe(base, sdist, tree, args.install, args.requires, args.apt)


def build_one(client: docker.DockerClient, args: argparse.Namespace, row: Row, tree: bytes, tag: str) -> str:
    """Build, check the patches, tag; the tree's commit."""
    started = time.monotonic()
    recipe = recipe_for(args, row, tree)
    pip_env, ca_bundle = pip_settings(pip_config_files(os.environ, Path.home()), os.environ)
    print(f"  from {recipe.sdist or args.source} on {recipe.base}", flush=True)
    built = build(
        client,
        recipe,
        pip_env=pip_env,
        ca_bundle=ca_bundle,
        network=args.network,
        say=lambda line: print(f"  {time.monotonic() - started:5.1f} s  {line}", flush=True),
        force=args.force,
    )
    instance = instance_of(row)
    titles = {"gold patch": instance.get("patch"), "test patch": instance.get("test_patch")}
    patches = {title: str(text) for title, text in titles.items() if text}
    faults = patch_faults(client, built.image, patches) if patches else []
    if faults:
        raise InputError("; ".join(faults))
    repository, _, version = tag.rpartition(":") if ":" in tag.rpartition("/")[2] else (tag, "", "latest")
    built.image.tag(repository, version)
    how = "built before from the same inputs" if built.cached else f"{time.monotonic() - started:.0f} s"
    print(f"  {tag} at commit {built.commit[:12]} ({how})", flush=True)
    return built.commit


def main(argv: list[str] | None = None) -> int:
    args = parse_args(argv)
    try:
        rows = read_rows(args.rows, filter(None, args.ids.split(","))) if args.rows else [{"instance_id": args.tag}]
        if not rows:
            raise InputError(f"{args.rows} holds no rows")
        if len(rows) > 1 and args.tag and "{instance_id}" not in args.tag:
            raise InputError("--tag is one name for several rows; put {instance_id} into it")
        tree = tree_of(args.source) if args.source else b""
        client = connect()
    except InputError as error:
        print(f"instance_image: {error}", file=sys.stderr)
        return 2

    done: list[Row] = []
    for number, row in enumerate(rows, 1):
        tag = image_name(row, args.tag)
        print(f"[{number}/{len(rows)}] {instance_of(row)['instance_id']}", flush=True)
        try:
            done.append(with_commit(row, build_one(client, args, row, tree, tag), tag))
            # the first build of a forced run serves the other rows too
            args.force = False
        except (InputError, DockerException, OSError) as error:
            print(f"  failed: {error}", flush=True)
    if args.out:
        partial = args.out.with_name(args.out.name + ".partial")
        partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in done), "utf-8")
        partial.replace(args.out)
        print(f"{len(done)} of {len(rows)} rows written to {args.out}")
    return 0 if len(done) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
