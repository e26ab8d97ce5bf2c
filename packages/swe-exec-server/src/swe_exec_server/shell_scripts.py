"""The shell texts that run inside a container. They need any `sh` (dash, busybox, bash) and the usual small tools.

`shell.py` speaks the protocol of `BOOT`; the functions here give argument vectors and commands ready to run.
"""

import secrets
from collections.abc import Mapping, Sequence

LEASE_FILE = "/dev/shm/.swe-lease"
CANNOT_START = 126
FILE_TOO_LARGE = 44

LAUNCH = """
[ ! -x /sbin/docker-init ] || exec /sbin/docker-init -s -- /bin/sh -s reaped swe-exec
exec /bin/sh -s once swe-exec
"""
"""Starts a boot below a subreaper of its own, to which every orphan of its commands falls: there a timeout finds it,
and the boot sees whether a command left anything running. Where there is none, a boot serves one command only."""

BOOT = r"""
unset IFS
trap __swe_bye EXIT
__swe_bye() {
  # The caller has let go, so it has all output. A process left running that still writes to this pipe would block when
  # nobody reads it: read it to its end, which comes with the last such process.
  "$__swe_cat" </proc/self/fd/1 >/dev/null 2>&1 &
}
__swe_find() { __swe_name=bash; __swe_shell=$(command -v bash) || { __swe_name=sh; __swe_shell=/bin/sh; }; }
__swe_take() { # exactly $1 bytes; dd never reads past them, busybox's head does
  [ "$1" -lt 65536 ] || dd bs=65536 count=$(($1 / 65536)) iflag=fullblock 2>/dev/null
  [ $(($1 % 65536)) -eq 0 ] || dd bs=$(($1 % 65536)) count=1 iflag=fullblock 2>/dev/null
}
__swe_profile() { :; }
__swe_launch() { exec "$@"; }
# Not an argument: a command that looks for its own words among the processes (pkill -f) does not find itself.
__swe_script='eval "unset SWE_EXEC_COMMAND; $SWE_EXEC_COMMAND"'
__swe_go() { # cwd, set-up, plain, script; in a subshell of its own
  { [ "$3" = plain ] || __swe_profile; eval "$2"; } 2>/dev/null
  cd -- "$1" 2>/dev/null || { printf 'cannot enter %s: no such directory, or no permission\n' "$1"; exit 126; }
  if [ "$3" = plain ]; then __swe_launch /bin/sh -c "$4" sh; else __swe_launch "$__swe_shell" -c "$4" "$__swe_name"; fi
}
__swe_left() { # is anything alive below the subreaper but this shell? Sets __swe_state
  __swe_state=once __swe_kids=
  [ "$__swe_mode" = reaped ] && read -r __swe_kids <"/proc/$PPID/task/$PPID/children"
  [ -z "$__swe_kids" ] || __swe_state=left
  for __swe_kid in $__swe_kids; do
    [ "$__swe_kid" != $$ ] || { __swe_state=clean; continue; }
    while read -r __swe_key __swe_value __swe_rest; do
      case $__swe_key$__swe_value in State:[ZX]) break ;; State:*) __swe_state=left; return ;; esac
    done <"/proc/$__swe_kid/status"
  done
} 2>/dev/null
__swe_end() { # nonce, exit code
  printf '%s>' "$1"
  __swe_left
  printf '\n%s end %s %s\n' "$1" "$2" "$__swe_state" >&2
}
__swe_settle() { printf '%s<' "$1"; __swe_end "$1" 0; } # nonce: looks again
__swe_run() { # nonce, cwd, set-up, plain, size of the command and of stdin where they come later, command, stdin
  printf '%s<' "$1"
  [ ! -e @LEASE@ ] || { echo > @LEASE@; } 2>/dev/null
  [ -x "$__swe_shell" ] || __swe_find
  if [ "$5$6" != 00 ]; then
    __swe_run_large "$@"
  elif [ -n "$8" ]; then
    printf %s "$8" 2>/dev/null | ( export SWE_EXEC_COMMAND="$7"; __swe_go "$2" "$3" "$4" "$__swe_script" ) 2>&1
    __swe_end "$1" $?
  else
    ( export SWE_EXEC_COMMAND="$7"; __swe_go "$2" "$3" "$4" "$__swe_script" ) </dev/null 2>&1
    __swe_end "$1" $?
  fi
}
__swe_run_large() { # the same; what is large comes raw, when this shell has said that it is there to read it
  printf '\n%s go\n' "$1" >&2
  __swe_text=$7
  [ "$5" -eq 0 ] || { __swe_text=$(__swe_take "$5"; echo x); __swe_text=${__swe_text%x}; }
  if [ "$5" -ne 0 ] && [ ${#__swe_text} -ne "$5" ]; then
    printf '\n%s fail the command arrived incomplete\n' "$1" >&2; exit 1
  fi
  { printf %s "$__swe_text" 2>/dev/null 7<&- | {
    exec 8<&0 0<&7 7<&-
    set -- "$1" "$2" "$3" "$4" "$6" "eval \"\$('$__swe_cat' <&8)\" 8<&-" "$8"
    if [ "$5" -gt 0 ]; then
      __swe_take "$5" 8<&- | { ( __swe_go "$2" "$3" "$4" "$6" ) 2>&1; __swe_end "$1" $?; }
    elif [ -n "$7" ]; then
      printf %s "$7" 2>/dev/null 8<&- | { ( __swe_go "$2" "$3" "$4" "$6" ) 2>&1; __swe_end "$1" $?; }
    else
      ( __swe_go "$2" "$3" "$4" "$6" ) </dev/null 2>&1; __swe_end "$1" $?
    fi
    exit 0
  } } 7<&0 || __swe_end "$1" $?
  # What the command left of its stdin is still on the stream: such a stream serves no other.
  [ "$6" -eq 0 ] || { "$__swe_cat" >/dev/null; exit 0; }
}
__swe_mode=$1 __swe_cat=$(command -v cat) __swe_env=$(command -v env)
__swe_find
printf '\n%s boot %s %s %s\n' '@NONCE@' "$__swe_mode" $$ "$PPID" >&2
""".replace("@LEASE@", LEASE_FILE)
"""What a boot reads first; every request is one more line, a call of `__swe_run`. The names are odd so that they are no
variables of an image."""

DEAD_MANS_SWITCH = """
ttl=$1 step=$2 age=0 last=
echo > @LEASE@
while [ "$age" -lt "$ttl" ]; do
  sleep "$step"
  now=$(date -r @LEASE@ +%s 2>/dev/null)
  # Counted, not compared with the clock: a clock that jumps must not end containers.
  if [ "$now" = "$last" ]; then age=$((age + step)); else age=0 last=$now; fi
done
""".replace("@LEASE@", LEASE_FILE)

KILL = r"""
id=$1 seeds=$2 stopped=' ' round=0
scan() { # -> all: who carries the marker or descends from one who does or from a seed; no zombies
  pairs= state=
  while read -r key value rest; do
    case $key in
      *:State:) state=$value ;;
      *:PPid:) pid=${key#/proc/}; [ "$state" = Z ] || pairs="$pairs ${pid%%/*}:$value" ;;
    esac
  done <<TABLE
$(grep -HE '^(State|PPid):' /proc/[0-9]*/status 2>/dev/null)
TABLE
  all=' '
  for file in $(grep -lF "SWE_EXEC_ID=$id" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}; all="$all${pid%%/*} "
  done
  for pid in $seeds; do
    case "$pairs " in *" $pid:"*) all="$all$pid " ;; esac
  done
  grew=1
  while [ $grew = 1 ]; do
    grew=0
    for pair in $pairs; do
      case $all in *" ${pair%:*} "*) continue ;; esac
      case $all in *" ${pair#*:} "*) all="$all${pair%:*} " grew=1 ;; esac
    done
  done
}
while [ $round -lt 200 ]; do
  round=$((round + 1))
  scan
  [ "$all" != ' ' ] || exit 0
  # What is stopped cannot fork away, and a tree of stopped processes stays a tree: stop until none is new, then kill.
  new=0
  for pid in $all; do
    case $stopped in *" $pid "*) ;; *) kill -STOP "$pid" 2>/dev/null; stopped="$stopped$pid " new=1 ;; esac
  done
  [ $new = 1 ] || kill -KILL $all 2>/dev/null
  [ $round -lt 10 ] || sleep 0.05 2>/dev/null || sleep 1
done
exit 1
"""

CAPTURE_LOGIN = """
exec 9>&1
bash -lc 'exec cat /proc/self/environ >&9' >/dev/null 2>&1
"""
"""Prints the environment of a login shell; what its start-up files print is lost."""
CAPTURE_LOGIN_TIMEOUT = 10.0


def quote(text: str) -> str:
    """`text` as one word of any POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def boot_command() -> Sequence[str]:
    """The argument vector of a boot; it reads `BOOT` from its stdin."""
    return ["/bin/sh", "-c", LAUNCH]


def kill_command(marker: str, seeds: Sequence[int]) -> Sequence[str]:
    """Kills all with the marker in their environment, the seeds, and all below them; 0 when none is left."""
    return ["/bin/sh", "-c", KILL, "swe-kill", marker, " ".join(str(pid) for pid in seeds)]


def switch_command(ttl: float) -> Sequence[str]:
    """A container's first process: ends when nothing renewed the lease file for `ttl` seconds (rounded up).

    It looks every ttl/4 seconds, at least every 15.
    """
    seconds = max(1, int(-(-ttl // 1)))
    return ["/bin/sh", "-c", DEAD_MANS_SWITCH, "swe-lease", str(seconds), str(max(1, min(seconds // 4, 15)))]


def renew_command() -> Sequence[str]:
    """Tells the switch that the server lives."""
    return ["/bin/sh", "-c", f"echo > {LEASE_FILE}"]


def read_file_command(path: str, max_bytes: int) -> str:
    """Prints the file; see `FILE_ERRORS` for its exit codes."""
    return f"""path={quote(path)}
[ -e "$path" ] || exit 41
[ -f "$path" ] || exit 42
[ -r "$path" ] || exit 43
[ "$(wc -c <"$path")" -le {max_bytes} ] || exit 44
exec cat -- "$path" 2>/dev/null"""


def write_file_command(path: str, size: int) -> str:
    """Replaces the file by its stdin at once or not at all; keeps the mode of a file that exists, follows links."""
    return f"""path={quote(path)}
[ ! -h "$path" ] || path=$(readlink -f -- "$path") || exit 42
[ ! -e "$path" ] || [ -f "$path" ] || exit 42
mkdir -p -- "${{path%/*}}/" || exit 43
new=${{path%/*}}/.swe-{secrets.token_hex(8)}
trap 'rm -f -- "$new"' EXIT
if [ -e "$path" ]; then cp -p -- "$path" "$new" || exit 43; fi
cat >"$new" || exit 43
[ "$(wc -c <"$new")" -eq {size} ] || exit 45
mv -f -- "$new" "$path" || exit 43"""


FILE_ERRORS: Mapping[int, str] = {
    41: "no such file",
    42: "not a regular file",
    43: "cannot be read or written by the container's user",
    44: "too large",
    45: "arrived incomplete",
}
