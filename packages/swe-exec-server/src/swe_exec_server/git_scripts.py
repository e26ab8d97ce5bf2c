"""The shell scripts of `git_ops.py`: plain `sh`, git 2.20 or newer, and coreutils, find, sed, grep and cmp. Pure.

All of them work through a git directory of their own, in a temporary directory: its configuration is ours, its index
is ours, new objects go there, and the repository only lends its objects. So nothing that the agent put into the
repository's configuration, hooks or attributes has a say, no lock stands in the way, and nothing of it is written to.

Exit codes from 80 on are ours; `git_ops.py` gives them their meaning.
"""

import shlex

FAILED = 80
NO_REPOSITORY = 81
NO_GIT = 82
NO_BASE = 83
APPLIED = {0: "git", 10: "3way", 11: "fuzz"}
NOT_APPLIED = 12

_START = r"""
umask 022
for name in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do
  [ "$name" = GIT_CEILING_DIRECTORIES ] || unset "$name"
done
dir=${TMPDIR:-/tmp}/.swe-@TOKEN@
mkdir -m 700 "$dir" || exit 80
exec 2>"$dir/errors"
fail() { tail -c 2000 "$dir/errors"; rm -rf "$dir"; exit "$1"; }
printf '[safe]\n\tdirectory = *\n' >"$dir/.gitconfig" || fail 80
export LC_ALL=C HOME="$dir" XDG_CONFIG_HOME="$dir" GIT_CONFIG_GLOBAL="$dir/.gitconfig" GIT_CONFIG_NOSYSTEM=1
export GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1
find_repository() { # sets top, git_dir, common, objects
  command -v git >/dev/null || return 82
  if ! git_dir=$(git rev-parse --absolute-git-dir); then
    grep -q 'not a git repository' "$dir/errors" && return 81
    return 80
  fi
  case $git_dir in */.git) top=${git_dir%/.git} ;; *) top=$(git rev-parse --show-toplevel) || return 81 ;; esac
  common=$(cd "$(git rev-parse --git-common-dir)" && pwd -P) || return 80
  objects=$(cd "$(git rev-parse --git-path objects)" && pwd -P) || return 80
}
own_git() { # a git directory that borrows the repository's objects; $1: an object id, which tells the hash in use
  format=; [ ${#1} -ne 64 ] || format=--object-format=sha256
  git init -q --bare --template= $format "$dir/git" && mkdir -p "$dir/git/info" "$dir/git/objects/info" || return 80
  [ -z "$objects" ] || printf '%s\n' "$objects" >"$dir/git/objects/info/alternates"
  cat >>"$dir/git/config" <<'CONFIG'
[core]
	bare = false
	autocrlf = false
	safecrlf = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	protectNTFS = false
	protectHFS = false
	quotePath = false
	hooksPath = /dev/null
	excludesFile = /dev/null
	attributesFile = /dev/null
CONFIG
  bytes_only
  export GIT_DIR="$dir/git"
}
bytes_only() { # above every .gitattributes: what is in a file is what is in the patch
  printf '* -text -ident -filter -working-tree-encoding !eol !crlf !diff !merge !whitespace\n' \
    >"$dir/git/info/attributes"
}
"""

# The two usual cases without starting any process, since every create asks: no repository at all, or one right here
# whose HEAD is a plain file. Whatever looks otherwise is git's to answer.
_HEAD_QUICK = r"""
quick() {
  [ -z "$GIT_CEILING_DIRECTORIES" ] || return
  cd -P . && up=$PWD || return
  while [ ! -e "$up/.git" ] && [ ! -e "$up/HEAD" ]; do
    [ -n "${up%/}" ] || exit 81
    up=${up%/*}
  done
  [ "$up" = "$PWD" ] && [ -d .git/objects ] && [ -d .git/refs ] && command -v git >/dev/null || return
  read -r id <.git/HEAD && case $id in ref:*) read -r id <".git/${id#ref: }" || return ;; esac
  case $id in *[!0-9a-f]*) return ;; esac
  [ ${#id} -ne 40 ] && [ ${#id} -ne 64 ] || { printf '%s\n' "$id"; exit 0; }
} 2>/dev/null
quick
"""

_HEAD = r"""
find_repository || fail $?
git rev-parse -q --verify 'HEAD^{commit}' || { rm -rf "$dir"; exit 83; }
rm -rf "$dir"
"""

_DIFF = r"""
find_repository || fail $?
base=$(git rev-parse -q --verify "$want^{commit}") || fail 83
cd "$top" || fail 80
# What the agent added or committed although an ignore rule covers it is its work too.
git diff-index --cached -z --name-only --no-renames --ignore-submodules=all --diff-filter=A "$base" -- \
  >"$dir/added" || fail 80
own_git "$base" || fail 80
export GIT_WORK_TREE="$top"
cat "$common/info/exclude" >"$dir/git/info/exclude" 2>/dev/null
git read-tree "$base" || fail 80
exclude() { printf '/%s/\n' "$(printf %s "$1" | sed 's/[][\\*?!# ]/\\&/g')" >>"$dir/git/info/exclude"; }
case $dir in "$top"/*) exclude "${dir#"$top"/}" ;; esac
find . -path ./.git -prune -o -name .git -print -prune 2>/dev/null >"$dir/found"
while IFS= read -r found; do
  inner=${found#./}; inner=${inner%/.git}
  (unset GIT_WORK_TREE; GIT_DIR="$found" git rev-parse --git-dir) >/dev/null 2>&1 || continue
  git check-ignore -q -- "$inner" && continue
  exclude "$inner"
  printf 'nested=%s\n' "$inner"
done <"$dir/found"
if [ "$untracked" = yes ]; then git add -A -- . || fail 80; else git add -u -- . || fail 80; fi
git update-index -z --add --remove --replace --stdin <"$dir/added" || fail 80
changed() { git diff-index --cached --name-only --no-renames --ignore-submodules=all --diff-filter=M "$@" "$base" --; }
tree=$base
# A file that attributes check out with other bytes than its blob is compared with what was checked out.
rm "$dir/git/info/attributes"
changed -z >"$dir/changed" || fail 80
changed >"$dir/changed-lines" || fail 80
if git check-attr --stdin -z eol ident working-tree-encoding <"$dir/changed" | tr '\0' '\n' |
  grep -Eqix 'crlf|set|utf.*'; then
  cr=$(printf '\r')
  while IFS= read -r path; do
    entry=$(git ls-tree "$base" -- "$path"); mode=${entry%% *}
    case $mode in 1006*|1007*) ;; *) continue ;; esac
    git cat-file --filters --path="$path" "$base:$path" >"$dir/out" || continue
    if grep -q "$cr" "$dir/out" && ! grep -q "$cr" "$path"; then continue; fi
    printf '%s %s\t%s\n' "$mode" "$(git hash-object -w --no-filters "$dir/out")" "$path"
  done <"$dir/changed-lines" >"$dir/checked-out"
  if [ -s "$dir/checked-out" ]; then
    export GIT_INDEX_FILE="$dir/git/base"
    git read-tree "$base" && git update-index --index-info <"$dir/checked-out" && tree=$(git write-tree) || fail 80
    unset GIT_INDEX_FILE
  fi
fi
bytes_only
git diff-index --cached -p --binary --full-index -M --no-color --no-ext-diff --no-textconv --ignore-submodules=all \
  --src-prefix=a/ --dst-prefix=b/ "$tree" -- >"$dir/patch" || fail 80
printf 'base=%s\nfile=%s\n' "$base" "$dir/patch"
"""

_APPLY = r"""
cat >"$dir/patch" || fail 80
objects=; here=$(pwd -P); top=$here
find_repository; found=$?
case $found in 0) ;; 81 | 82) top=$here ;; *) fail 80 ;; esac
w=$dir/tree
exec 2>>"$dir/errors"
copy() { # into the scratch tree: this path as it is, with its parents; a link among them is not followed
  rest=$1; at=
  while :; do
    part=${rest%%/*}; at=$at$part
    if [ -L "$top/$at" ] || [ -f "$top/$at" ]; then
      [ -L "$w/$at" ] || [ -e "$w/$at" ] || cp -a "$top/$at" "$w/$at" || fail 80
      return 0
    fi
    [ -e "$top/$at" ] || return 0
    mkdir -p "$w/$at" || fail 80
    [ "$part" != "$rest" ] || break
    [ ! -f "$top/$at/.gitattributes" ] || cp -a "$top/$at/.gitattributes" "$w/$at/.gitattributes" || fail 80
    at=$at/; rest=${rest#*/}
  done
}
entries() { find "$1" | wc -l; }
mark() { # a directory where the patch may want a file, with more in it than the patch names: it must not look empty
  if [ -d "$top/$1" ] && [ ! -L "$top/$1" ] && [ -d "$w/$1" ] && [ ! -L "$w/$1" ]; then
    [ "$(entries "$top/$1")" -eq "$(entries "$w/$1")" ] || : >"$w/$1/.swe-not-empty"
  fi
}
kept() { # whether the scratch tree has a file under this very name, not one behind a link among its parents
  [ -L "$w/$1" ] || [ -f "$w/$1" ] || return 1
  up=$1
  while case $up in */*) ;; *) false ;; esac; do
    up=${up%/*}
    [ ! -L "$w/$up" ] || return 1
  done
}
remove() { # what the patch took away, and directories left empty by it, as git does
  ! kept "$1" || return 0
  [ -L "$top/$1" ] || [ -f "$top/$1" ] || return 0
  rm -f "$top/$1" || fail 80
  parent=$1
  while case $parent in */*) ;; *) false ;; esac; do
    parent=${parent%/*}
    rmdir "$top/$parent" 2>/dev/null || break
  done
}
mode_of() { if [ -x "$1" ]; then echo x; else echo -; fi; }
place() {
  kept "$1" || return 0
  if [ ! -L "$w/$1" ] && [ ! -L "$top/$1" ] && cmp -s "$w/$1" "$top/$1" 2>/dev/null &&
    [ "$(mode_of "$w/$1")" = "$(mode_of "$top/$1")" ]; then return 0; fi
  case $1 in */*) mkdir -p "$top/${1%/*}" || fail 80 ;; esac
  if [ -d "$top/$1" ] && [ ! -L "$top/$1" ]; then rmdir "$top/$1" || fail 80; else rm -f "$top/$1" || fail 80; fi
  cp -a "$w/$1" "$top/$1" || fail 80
}
each() {
@EACH@
}
fresh() {
  rm -rf "$w" && mkdir "$w" || fail 80
  [ ! -f "$top/.gitattributes" ] || cp -a "$top/.gitattributes" "$w/.gitattributes" || fail 80
  each copy
  each mark
  cd "$w" || fail 80
}
won() {
  each remove
  each place
  cd "$here" || fail 80
  tail -c 2000 "$dir/log"; rm -rf "$dir"; exit "$1"
}
three_way() {
  git add -A -f -- . && git apply --3way --whitespace=nowarn "$dir/patch" && [ -z "$(git ls-files -u)" ]
}
exec 3>"$dir/log"
if [ $found -eq 82 ]; then
  echo 'git apply: git is not installed' >&3
else
  own_git "$(git rev-parse -q --verify HEAD 2>/dev/null)" || fail 80
  export GIT_WORK_TREE="$w"
  echo '--- git apply' >&3
  fresh; git apply --whitespace=nowarn "$dir/patch" >&3 2>&3 && won 0
  # Once more as git itself would: a patch made of blobs fits a file that attributes checked out with other line ends.
  if grep -q -s eol= "$w"/.gitattributes $(find "$w" -name .gitattributes | head -n 50); then
    rm "$dir/git/info/attributes"
    fresh; git apply --whitespace=nowarn "$dir/patch" >/dev/null 2>&1 && won 0
    bytes_only
  fi
  echo '--- git apply --3way' >&3
  fresh; three_way >&3 2>&3 && won 10
fi
echo '--- patch --fuzz=5' >&3
unset GIT_DIR GIT_WORK_TREE
fresh
TMPDIR=$dir patch -p1 --fuzz=5 --force --binary --no-backup-if-mismatch -r "$dir/rejects" -i "$dir/patch" \
  >&3 2>&3 && won 11
cd "$here"
cat "$dir/log"; rm -rf "$dir"; exit 12
"""


def _script(token: str, body: str) -> str:
    return _START.replace("@TOKEN@", token) + body


def head(token: str) -> str:
    """Print the id of HEAD; NO_REPOSITORY or NO_BASE when there is none."""
    return _HEAD_QUICK + _script(token, _HEAD)


def diff(token: str, base: str, untracked: bool) -> str:
    """Leave the patch in a file; prints `nested=`, `base=` and `file=` lines."""
    variables = f"want={shlex.quote(base)}\nuntracked={'yes' if untracked else 'no'}\n"
    return _script(token, variables + _DIFF)


def apply(token: str, paths: list[bytes]) -> str:
    """Apply the patch on stdin, which touches `paths`; prints why each step refused."""
    each = "\n".join(f'  "$1" {_quote(path)} || fail 80' for path in paths) or "  :"
    return _script(token, _APPLY.replace("@EACH@", each))


def keep_stdin(token: str, name: str) -> str:
    """Write stdin to a file of that name in the temporary directory; prints its path."""
    return _script(token, f'cat >"$dir/{name}" || fail 80\nprintf "%s" "$dir/{name}"\n')


def clean(token: str) -> str:
    return f'rm -rf "${{TMPDIR:-/tmp}}/.swe-{token}"'


def _quote(path: bytes) -> str:
    """A shell word for any bytes; what is no UTF-8 goes through printf, since commands are text."""
    try:
        return shlex.quote(path.decode())
    except UnicodeDecodeError:
        return "\"$(printf '" + "".join(f"\\{byte:03o}" for byte in path) + "')\""
