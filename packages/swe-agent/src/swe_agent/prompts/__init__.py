"""What the model is told: templates in TOML, filled by Jinja, checked when they are loaded.

A prompt file holds exactly the keys of `VARIABLES`. A template that does not parse, uses an unknown variable or leaves
out one that it cannot do without is refused at load, so that no run fails in its middle over wording.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError, meta
from swe_exec_server.common.errors import UsageError

from swe_agent.styles import StyleName

MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""First line of output of the command that submits."""

DEFAULT = "default"
PACKAGED: Mapping[StyleName, str] = {"fenced": DEFAULT, "tools": "tools"}
"""The packaged prompts of each action style."""

_RUN = frozenset({"cwd", "step_limit", "exec_timeout", "marker"})
_TURNS = _RUN | {"turns_left"}
_RESULT = {"returncode", "output", "head", "tail", "omitted", "binary", "output_bytes", "timed_out", "timeout"}

VARIABLES: Mapping[str, frozenset[str]] = {
    "system": _RUN,
    "task": _RUN | {"issue"},
    "observation": frozenset(_RESULT),
    "format_error": _RUN | {"found", "fault"},
    "truncated": _RUN | {"found", "fault"},
    "turns_left": _TURNS,
}
"""The templates of a prompt file and what each may use."""

_NEEDED: Mapping[str, tuple[frozenset[str], ...]] = {
    # Of each set, one at least.
    "task": (frozenset({"issue"}),),
    "observation": (frozenset({"output", "head"}), frozenset({"returncode"})),
    "format_error": (frozenset({"found"}),),
    "turns_left": (frozenset({"turns_left"}),),
}

_ENVIRONMENT = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Prompts:
    """The checked templates of one file.

    Attributes:
        name: of the packaged prompts, or the path given.
        sha256: of the file, so that a record says which wording was used.
    """

    name: str
    sha256: str
    templates: Mapping[str, Template]

    def system(self, **variables: Any) -> str:
        return self._fill("system", variables)

    def task(self, **variables: Any) -> str:
        return self._fill("task", variables)

    def observation(self, **variables: Any) -> str:
        return self._fill("observation", variables)

    def format_error(self, **variables: Any) -> str:
        return self._fill("format_error", variables)

    def truncated(self, **variables: Any) -> str:
        return self._fill("truncated", variables)

    def turns_left(self, **variables: Any) -> str:
        return self._fill("turns_left", variables)

    def _fill(self, key: str, variables: Mapping[str, Any]) -> str:
        return self.templates[key].render(variables).strip()


def load_prompts(path: Path | None = None, style: StyleName = "fenced") -> Prompts:
    """The packaged prompts of an action style, or those of a file. Raises `UsageError` naming template and fault."""
    if path is None:
        name = PACKAGED[style]
        return parse_prompts(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"), name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prompt {path}: cannot be read ({error})") from error
    return parse_prompts(text, str(path))


def parse_prompts(text: str, name: str) -> Prompts:
    """Prompts from the text of a TOML file. Raises `UsageError`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"prompts {name}: not valid TOML: {error}") from error
    for key in sorted(values.keys() | VARIABLES.keys()):
        if key not in values:
            raise UsageError(f"prompts {name}: the template {key!r} is missing")
        if key not in VARIABLES:
            raise UsageError(f"prompts {name}: unknown key {key!r}; known are {', '.join(VARIABLES)}")
        if not isinstance(values[key], str):
            raise UsageError(f"prompts {name}: {key!r} must be a text")
    templates = {key: _compile(key, values[key], name) for key in VARIABLES}
    return Prompts(name, hashlib.sha256(text.encode()).hexdigest(), templates)


def _compile(key: str, source: str, name: str) -> Template:
    try:
        used = meta.find_undeclared_variables(_ENVIRONMENT.parse(source))
        template = _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise UsageError(f"prompts {name}: {key!r}, line {error.lineno}: {error.message}") from error
    if unknown := used - VARIABLES[key]:
        allowed = ", ".join(sorted(VARIABLES[key]))
        raise UsageError(f"prompts {name}: {key!r} uses unknown {', '.join(sorted(unknown))}; it may use {allowed}")
    for needed in _NEEDED.get(key, ()):
        if not used & needed:
            shown = " or ".join(f"{{{{ {variable} }}}}" for variable in sorted(needed))
            raise UsageError(f"prompts {name}: {key!r} does not use {shown}, so the model would never see it")
    return template
