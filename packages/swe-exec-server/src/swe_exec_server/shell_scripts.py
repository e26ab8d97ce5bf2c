"""The shell texts that run inside a container. They need any `sh` (dash, busybox, bash) and the usual small tools.

`shell.py` speaks the protocol of `BOOT`; the functions here give argument vectors and commands ready to run.
"""

import secrets
from collections.abc import Mapping, Sequence

LEASE_FILE = "/dev/shm/.swe-lease"
CANNOT_START = 126
FILE_TOO_LARGE = 44

BOOT = r"""
take() { # exactly $1 bytes; dd never reads past them, busybox's head does
  [ "$1" -lt 65536 ] || dd bs=65536 count=$(($1 / 65536)) iflag=fullblock 2>/dev/null
  [ $(($1 % 65536)) -eq 0 ] || dd bs=$(($1 % 65536)) count=1 iflag=fullblock 2>/dev/null
}
tell() { printf '%s %s\n' "$nonce" "$*" >&2; }
end() { printf %s "$nonce"; tell end "$1"; }
run() (
  eval "${setup%x}"
  cd -- "$cwd" 2>/dev/null || { printf 'cannot enter %s: no such directory, or no permission\n' "$cwd"; exit 126; }
  exec "$env" "$@" $reaper "$shell" -c "eval \"\$($cat <&8)\" 8<&-" $name
) 2>&1 7<&-
exec 7<&0 </dev/null
name=bash; shell=$(command -v bash) || { name=sh; shell=/bin/sh; }
env=$(command -v env); cat=$(command -v cat); reaper=
# As a subreaper it keeps double-forked orphans below the command, where a timeout finds them.
[ -x /sbin/docker-init ] && reaper='/sbin/docker-init -s --'
while IFS=' ' read -r nonce setup_size command_size stdin_size <&7 && [ -n "$nonce" ]; do
  tell boot $$
  [ ! -e @LEASE@ ] || { echo > @LEASE@; } 2>/dev/null
  setup=$(take "$setup_size" <&7; echo x)
  command=$(take "$command_size" <&7; echo x)
  if [ ${#setup} -ne $((setup_size + 1)) ] || [ ${#command} -ne $((command_size + 1)) ]; then
    tell fail the command arrived incomplete; exit 1
  fi
  printf %s "${command%x}" 2>/dev/null | {
    exec 8<&0 </dev/null
    if [ "$stdin_size" -gt 0 ]; then
      take "$stdin_size" <&7 8<&- | { run; end $?; }
    else
      run; end $?
    fi
    exit 0
  } || end $?
  # What the command left of its stdin is still on the stream: such a stream serves no other.
  [ "$stdin_size" -eq 0 ] || { "$cat" <&7 >/dev/null; break; }
done
# The caller has let go, so it has all output. A process left running that still writes to this pipe would block when
# nobody reads it: read it to its end, which comes with the last such process.
"$cat" </proc/self/fd/1 >/dev/null 2>&1 7<&- &
""".replace("@LEASE@", LEASE_FILE)

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
    """The argument vector of a boot."""
    return ["/bin/sh", "-c", BOOT, "swe-exec"]


def kill_command(marker: str, boot_pid: int | None) -> Sequence[str]:
    """Kills all with the marker in their environment, all below them and below the boot; 0 when none is left."""
    return ["/bin/sh", "-c", KILL, "swe-kill", marker, "" if boot_pid is None else str(boot_pid)]


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
