#!/bin/bash
# Turns a base image into an instance image; instance_image.py runs it inside the container that it then commits.
#
# In: /testbed (the tree; empty when $SDIST names what to download), $BUILD_DIR (scratch, removed at the end), $SDIST,
#     $APT, $REQUIRES, $INSTALL, and the pip variables of the client's own configuration (none of them stays behind).
# Out: /testbed as one commit with all of its packages installed, a shim where scripts look for conda; the last line
#     is "commit: <sha>".
set -euo pipefail

conda=/opt/miniconda3
venv=$conda/envs/testbed

step() { printf 'step: %s\n' "$*"; }

if [ -n "$APT" ]; then
    step "Debian packages: $APT"
    apt-get -qq update
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $APT >/dev/null
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
fi

step "environment with pip, setuptools and wheel"
mkdir -p $conda/bin $conda/envs
python3 -m venv $venv
. $venv/bin/activate
# setuptools 81 dropped pkg_resources, which trees of some years ago import
pip install -q --upgrade pip wheel 'setuptools<81'

if [ -n "$SDIST" ]; then
    step "source distribution $SDIST"
    # only the package itself as source: its build requirements may come as wheels
    pip download -q --no-deps --no-binary "${SDIST%%[=<>! ]*}" -d "$BUILD_DIR/sdist" "$SDIST"
    mkdir "$BUILD_DIR/unpacked"
    case $(echo "$BUILD_DIR"/sdist/*) in
        *.zip) python -m zipfile -e "$BUILD_DIR"/sdist/*.zip "$BUILD_DIR/unpacked" ;;
        *) tar -xf "$BUILD_DIR"/sdist/* --no-same-owner -C "$BUILD_DIR/unpacked" ;;
    esac
    mkdir -p /testbed
    cp -a "$BUILD_DIR"/unpacked/*/. /testbed
    # written by the packager's build, and again by ours; no part of the sources
    find /testbed -maxdepth 2 -type d -name '*.egg-info' -prune -exec rm -rf {} +
fi

step "one commit"
cd /testbed
chmod -R u+rwX,go+rX .
git init -q -b main .
git config user.name testbed
git config user.email testbed@localhost
# evaluation scripts print `git show`, which for a first commit would be the whole tree
git config log.showRoot false
printf '%s\n' '__pycache__/' '*.py[co]' '*.egg-info/' '.pytest_cache/' >>.git/info/exclude
commit() {
    GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z \
        git commit -q --no-verify --no-gpg-sign --allow-empty "$@"
}
git add -A -f .
commit -m 'The tree as published'

step "install: $INSTALL"
bash -c "$INSTALL" >"$BUILD_DIR/install.log" 2>&1 || {
    tail -n 40 "$BUILD_DIR/install.log"
    echo "the install command failed: $INSTALL"
    exit 1
}
if [ -n "$REQUIRES" ]; then
    step "packages: $REQUIRES"
    # shellcheck disable=SC2086
    pip install -q $REQUIRES
fi

step "what a repeated install needs with the network off"
python - >"$BUILD_DIR/backend.txt" <<'PY'
import pathlib

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

path = pathlib.Path("pyproject.toml")
system = tomllib.loads(path.read_text("utf-8")).get("build-system", {}) if path.exists() else {}
requires = system.get("requires", [])
if any(line.startswith("hatchling") for line in requires):
    requires.append("editables")  # asked for only by its editable build
print(*requires, sep="\n")
PY
pip freeze -q --exclude-editable >"$BUILD_DIR/installed.txt"
pip install -q -c "$BUILD_DIR/installed.txt" -r "$BUILD_DIR/backend.txt" ||
    echo "note: the build backend does not go with what is installed; an install run again offline will fail"

if ! git diff --quiet; then
    step "installing changed tracked files, which become part of the commit: $(git diff --name-only | tr '\n' ' ')"
    commit -a --amend --no-edit
fi
# what installing left in the tree is nobody's patch
git ls-files --others --exclude-standard --directory | sed 's#^#/#' >>.git/info/exclude

step "activation"
cat >$conda/bin/activate <<'SH'
# No conda is here: one virtual environment answers to its commands, for scripts that begin with
# `source /opt/miniconda3/bin/activate; conda activate testbed`.
conda() {
    case ${1:-} in
        activate)
            VIRTUAL_ENV_DISABLE_PROMPT=1
            . /opt/miniconda3/envs/testbed/bin/activate
            ;;
        deactivate)
            if command -v deactivate >/dev/null; then deactivate; fi
            ;;
        *)
            echo "conda: only 'activate' and 'deactivate' work here; use pip" >&2
            return 1
            ;;
    esac
}
SH
printf '%s\n' ". $conda/bin/activate" 'conda activate testbed' | tee /etc/profile.d/testbed.sh >>/root/.bashrc

rm -rf "$BUILD_DIR" /root/.cache
echo "commit: $(git rev-parse HEAD)"
