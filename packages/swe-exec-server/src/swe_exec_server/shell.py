"""How commands run inside a container: the protocol, and its requests. Pure, no I/O.

A *boot* (`shell_scripts.BOOT`) is a small `sh` with an attached, non-tty stream that serves many commands, one after
the other. It reads its requests as a shell reads a script: each is one call with quoted words, so that a command is
data, never parsed by us, and costs one fork. What is large (or holds NUL) follows raw when the boot has said `go`.

A command's stdout and stderr share one pipe, the boot's own stdout, which keeps their order; the boot's stderr is the
control channel, which carries the exit code. On the output pipe a nonce with `<` begins the command's output and the
nonce with `>` ends it, whoever else may still hold the pipe open. The end says also whether the command left anything
running: then the pipe is not ours alone any more, and such a boot serves no other. `shell_reply.py` reads all that.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from swe_exec_server.shell_scripts import BOOT, quote

MARKER_VARIABLE = "SWE_EXEC_ID"

DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
}
LOCALE_ENVIRONMENT: Mapping[str, str] = {key: DEFAULT_ENVIRONMENT[key] for key in ("LANG", "LC_ALL", "TZ")}
BOOT_ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C"}
"""The boot counts bytes, not characters."""

_NOT_CAPTURED = frozenset({"_", "SHLVL", "PWD", "OLDPWD", MARKER_VARIABLE})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Read-only in some shell, or acted upon by one when it is assigned.
_SPECIAL = re.compile(r"(_|IFS|OPT.*|PPID|E?UID|GROUPS|LINENO|RANDOM|SECONDS|BASH.*|SHELLOPTS|FUNCNAME|__swe_.*)\Z")
_INLINE_COMMAND = 64 * 1024  # a word of a command line holds 128 KiB
_INLINE_STDIN = 32 * 1024  # less than a pipe holds: whoever writes it never waits for the command


def valid_name(name: str) -> bool:
    """Whether `name` can be a variable's."""
    return _NAME.match(name) is not None


def to_bytes(text: str) -> bytes:
    """UTF-8; undecodable bytes that an operating system gave (lone surrogates) become themselves again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def parse_environment(block: bytes) -> dict[str, str]:
    """A `/proc/PID/environ` block as a mapping, without what belongs to one process only."""
    variables: dict[str, str] = {}
    for entry in block.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals and name and not name.startswith("-") and name not in _NOT_CAPTURED:
            variables[name] = value
    return variables


def boot_text(nonce: str) -> bytes:
    """What a fresh boot has to read first; it answers on the control channel, under `nonce` (see `Hello`)."""
    return BOOT.replace("@NONCE@", nonce).encode()


def exports(environment: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Shell text that exports the variables, and those that it cannot: names that a shell refuses or acts upon."""
    plain = {name: value for name, value in environment.items() if valid_name(name) and not _SPECIAL.match(name)}
    words = " ".join(f"{name}={quote(value)}" for name, value in plain.items())
    odd = {name: value for name, value in environment.items() if name not in plain}
    return f"export {words}; " if words else ":; ", odd


def settle_line(nonce: str) -> bytes:
    """Lets a boot look again whether anything is left running; answered like a command."""
    return f"{{ __swe_settle {nonce}; }}\n".encode()


@dataclass(frozen=True)
class Profile:
    """The variables of all of a container's commands: sent once per boot."""

    environment: Mapping[str, str]

    def encode(self) -> bytes:
        """The line that teaches them to a boot."""
        return to_bytes(f"__swe_profile() {{ {exports(self.environment)[0]}}}\n")

    @cached_property
    def odd(self) -> Mapping[str, str]:
        """Those that every request has to carry."""
        return exports(self.environment)[1]


def _quote_bytes(data: bytes) -> bytes:
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def new_nonce() -> str:
    """128 random bits."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Request:
    """One command for a boot.

    Attributes:
        environment: variables to set on top of what the container and `profile` have; values of any content but NUL.
        profile: None runs `sh` even where the image has bash.
        nonce: frames the output; known to the boot and its caller only, so that no command can print it by accident.
        marker: the value of `MARKER_VARIABLE` in the command's environment, by which a timeout finds its processes.
    """

    command: str
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    profile: Profile | None = None
    nonce: str = field(default_factory=new_nonce)
    marker: str = field(default_factory=new_nonce)

    def encode(self) -> tuple[bytes, Sequence[bytes]]:
        """The line to write to a boot, and what to write when it has said `go`."""
        setup, odd = exports({**self.environment, MARKER_VARIABLE: self.marker})
        if self.profile is not None:
            odd = {**self.profile.odd, **odd}
        if odd:
            words = " ".join(quote(f"{name}={value}") for name, value in odd.items())
            setup += f'__swe_launch() {{ exec "$__swe_env" {words} "$@"; }}'
        shell = "plain" if self.profile is None else "user"
        # The braces make a line that was cut short a syntax error, whatever is missing.
        head = f"{{ __swe_run {self.nonce} {quote(self.cwd)} {quote(setup)} {shell}"
        late_command, late_stdin = (self._late(data, limit) for data, limit in self._data)
        inline = [_quote_bytes(b"" if self._late(data, limit) else data) for data, limit in self._data]
        sizes = f" {len(late_command)} {len(late_stdin)} ".encode()
        return b"%b%b%b; }\n" % (to_bytes(head), sizes, b" ".join(inline)), (late_command, late_stdin)

    @cached_property
    def _data(self) -> Sequence[tuple[bytes, int]]:
        return (to_bytes(self.command), _INLINE_COMMAND), (self.stdin, _INLINE_STDIN)

    @staticmethod
    def _late(data: bytes, limit: int) -> bytes:
        return data if len(data) > limit or b"\0" in data else b""

    @property
    def spoils(self) -> bool:
        """Whether some of its stdin may be left on the stream, which then serves no other."""
        return bool(self._late(*self._data[1]))
