"""The script that runs an instance's official tests in its container.

A row's own `eval_script` is run as it is. Four lines are put in, none is taken out: our begin marker after its own
start marker (else after its last here-document, else after its first lines), the test command's exit code and our end
marker before its own end marker (else before a closing `git checkout`, else at the end), and an exit with that code.
Without them the exit code would be that of the script's clean-up.

A row with a `test_cmd` gets our own script. It writes the official test files first, each byte for byte from
`base_commit` plus the test patch, over whatever is there: the patch may have changed or created them, or put a
directory or a link in their place. It uses git's plumbing with an index of its own, so nothing else in the tree and no
branch moves, and needs no network.
"""

import base64
import re
import secrets
import shlex
import textwrap

from swe_exec_server.patch import normalise, touched_paths

from swe_eval.instances import Instance
from swe_eval.markers import END, START, begin_line, end_line, setup_failed_line
from swe_eval.parsers import UnknownParserError, parser_for

SETUP_FAILED_EXIT = 97

_EXIT_VARIABLE = "SWE_EVAL_EXIT_CODE"
_HERE_DOCUMENT_END = re.compile(r"EOF_\d+")
_PREAMBLE = re.compile(r"#!|set -|\s*$")


class NoTestCommand(ValueError):
    """A row whose tests cannot be run; its message is one line that says what the row lacks."""


def new_nonce() -> str:
    """A fresh secret for the markers of one evaluation."""
    return secrets.token_hex(16)


def check_test_command(instance: Instance) -> None:
    """Raise `NoTestCommand` for an instance whose tests cannot be run or whose log cannot be read."""
    if not instance.eval_script and not instance.test_cmd:
        raise NoTestCommand(
            f"{instance.instance_id}: the row has neither eval_script nor test_cmd, so there is no way to run its tests"
        )
    try:
        parser_for(instance)
    except UnknownParserError as error:
        raise NoTestCommand(str(error)) from error


def evaluation_script(instance: Instance, nonce: str) -> str:
    """The bash script that runs the tests; its exit code is the test command's. Raises `NoTestCommand`."""
    check_test_command(instance)
    if instance.eval_script:
        return _marked(instance.eval_script, nonce)
    return _own_script(instance, instance.test_cmd or "", nonce)


def setup_failure(log: bytes, nonce: str) -> str:
    """Why our script could not write the official test files, or empty when it could."""
    beginning = setup_failed_line(nonce).encode()
    for line in log.split(b"\n"):
        if line.startswith(beginning):
            return line.removeprefix(beginning).decode("utf-8", "replace").strip()
    return ""


def _echo(line: str) -> str:
    # A test may end its output in the middle of a line; the marker stands alone on its own.
    return f"printf '\\n%s\\n' {shlex.quote(line)}"


def _marked(script: str, nonce: str) -> str:
    lines = script.split("\n")
    begin, end = _test_section(lines)
    before_end = [f"{_EXIT_VARIABLE}=$?", "set +e", _echo(end_line(nonce))]
    parts = [*lines[:begin], _echo(begin_line(nonce)), *lines[begin:end], *before_end, *lines[end:]]
    return "\n".join([*parts, f"exit ${_EXIT_VARIABLE}", ""])


def _test_section(lines: list[str]) -> tuple[int, int]:
    """Where the tests begin and end in a script, as line numbers to insert at."""
    starts = [number for number, line in enumerate(lines) if _says(line, START)]
    ends = [number for number, line in enumerate(lines) if _says(line, END)]
    if starts and ends and starts[-1] < ends[-1]:
        return starts[-1] + 1, ends[-1]
    documents = [number for number, line in enumerate(lines) if _HERE_DOCUMENT_END.fullmatch(line)]
    preamble = next((number for number, line in enumerate(lines) if not _PREAMBLE.match(line)), len(lines))
    begin = documents[-1] + 1 if documents else preamble
    last = max((number for number, line in enumerate(lines) if line.strip()), default=0)
    return begin, last if last >= begin and lines[last].startswith("git checkout ") else len(lines)


def _says(line: str, marker: str) -> bool:
    """Whether a line of a script prints or traces a marker; a line of a here-document that mentions one does not."""
    return marker in line and line.lstrip().startswith((":", "echo", "printf"))


_OWN_SCRIPT = r"""#!/bin/bash
fail() {{ printf '\n%s %s\n' {setup_failed} "$1"; exit {setup_exit}; }}
plain_git() {{
  git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.autocrlf=false \
    --literal-pathspecs "$@"
}}
official_tests() {{
  cd "$(plain_git rev-parse --show-toplevel)" || return
  base=$(plain_git rev-parse -q --verify {base}'^{{commit}}' || plain_git rev-parse -q --verify HEAD) || return
  export GIT_INDEX_FILE=$work/index
  base64 -d >"$work/tests.patch" <<'END_OF_TEST_PATCH' || return
{test_patch}
END_OF_TEST_PATCH
  plain_git read-tree "$base" || return
  plain_git apply --cached --whitespace=nowarn "$work/tests.patch" || return
  tree=$(plain_git write-tree) || return
{places}
}}
place() {{
  local prefix= rest=$1 mode kind blob
  while [[ $rest == */* ]]; do
    prefix+=${{rest%%/*}} rest=${{rest#*/}}
    if [[ -L $prefix || ( -e $prefix && ! -d $prefix ) ]]; then rm -f -- "$prefix" || return; fi
    prefix+=/
  done
  rm -rf -- "$1" || return
  read -r mode kind blob _ < <(plain_git ls-tree "$tree" -- "$1")
  if [[ -z $mode ]]; then return 0; fi
  if [[ -n $prefix ]]; then mkdir -p -- "$prefix" || return; fi
  if [[ $mode == 120000 ]]; then
    ln -s -- "$(plain_git cat-file blob "$blob")" "$1"
  else
    plain_git cat-file blob "$blob" >"$1" && chmod "${{mode#100}}" -- "$1"
  fi
}}
work=$(mktemp -d) || fail 'no temporary directory'
( {prepare} ) >"$work/log" 2>&1 || fail "$(tr '\n' ' ' <"$work/log")"
rm -rf -- "$work"
unset FORCE_COLOR CLICOLOR_FORCE
export NO_COLOR=1 PY_COLORS=0 PYTHON_COLORS=0 CLICOLOR=0 TERM=dumb
{begin}
bash -c {command} </dev/null 2>&1
status=$?
{end}
exit $status
"""


def _own_script(instance: Instance, command: str, nonce: str) -> str:
    test_patch = normalise(instance.test_patch)
    paths = sorted(touched_paths(test_patch))
    encoded = base64.b64encode(test_patch).decode("ascii")
    return _OWN_SCRIPT.format(
        setup_failed=shlex.quote(setup_failed_line(nonce)),
        setup_exit=SETUP_FAILED_EXIT,
        base=shlex.quote(instance.base_commit or "HEAD"),
        test_patch="\n".join(textwrap.wrap(encoded, 76)),
        places="\n".join(f"  place {shlex.quote(path)} || return" for path in paths),
        prepare="official_tests" if paths else ":",
        begin=_echo(begin_line(nonce)),
        command=shlex.quote(command),
        end=_echo(end_line(nonce)),
    )
