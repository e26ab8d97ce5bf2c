"""One settings mechanism for every tool: flag > environment > env file > TOML > preset > default.

A tool declares one `ToolSettings` class per command. From a field `step_limit` of a class with prefix "SWE_EVAL_" come
the flag `--step-limit`, the variable `SWE_EVAL_STEP_LIMIT`, the TOML key `step_limit` and the help text (the string
under the field). `setting(env=("STEP_LIMIT",))` adds further variable names, read after the prefixed one. An empty
variable counts as unset. Unknown flags and TOML keys are refused; secrets have no flag.

`--config FILE` names a TOML file, `--env-file FILE` a file of NAME=VALUE lines, `--preset NAME` a packaged TOML file,
which may extend one other by `extends = "NAME"`.
"""

import argparse
import os
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Self

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from swe_exec_server.common.errors import UsageError, one_line

SOURCE_FLAGS = ("config", "env_file", "preset")


def setting(default: Any = ..., *, env: Sequence[str] = (), positional: bool = False, **field: Any) -> Any:
    """A settings field with further environment names; `positional` makes it an argument instead of a flag."""
    extra: dict[str, Any] = {"env": list(env), "positional": positional}
    return Field(default, json_schema_extra=extra, **field)


def _split_commas(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


CommaList = Annotated[list[str], BeforeValidator(_split_commas)]
"""A list given as `a,b,c` on the command line and in the environment, as a list in TOML."""


class ToolSettings(BaseSettings):
    """Base of every command's settings. Fields are flat; a validator that rejects says what to do."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
    presets: ClassVar[str | None] = None
    """Package that holds the preset TOML files, if the tool has any."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Sources are put together in `load`, where the files that flags name are known."""
        return (init_settings,)

    @classmethod
    def load(cls, prog: str, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Self:
        """Settings from `argv` and all other sources. Raises `UsageError`; `--help` prints and exits 0."""
        flags = vars(_parser(cls, prog).parse_args(argv))
        chosen = {name: flags.pop(name, None) for name in SOURCE_FLAGS}
        environment = os.environ if environ is None else environ
        layers = [_shown({name: (flag_name(name), value) for name, value in flags.items()})]
        layers.append(_shown(_from_env(cls, environment), "in the environment"))
        if file := chosen["env_file"]:
            layers.append(_shown(_from_env(cls, _read_env_file(Path(file))), f"in {file}"))
        if file := chosen["config"]:
            layers.append(_shown(_named(_read_toml(cls, Path(file), file)), f"in {file}"))
        if preset := chosen["preset"]:
            layers.append(_shown(_named(_read_preset(cls, preset)), f"in preset {preset}"))
        given: dict[str, tuple[str, Any]] = {}
        for layer in reversed(layers):
            given.update(layer)
        try:
            return cls(**{name: value for name, (_, value) in given.items()})
        except ValidationError as error:
            raise UsageError(_explain(cls, error, {name: shown for name, (shown, _) in given.items()})) from error

    def public(self) -> dict[str, Any]:
        """All values as JSON types, without secrets: what may be written to a run's records."""
        dumped = self.model_dump(mode="json")
        secret = {name for name, field in type(self).model_fields.items() if is_secret(field)}
        return {name: value for name, value in dumped.items() if name not in secret}


def flag_name(field: str) -> str:
    """`step_limit` -> `--step-limit`."""
    return "--" + field.replace("_", "-")


def env_names(cls: type[ToolSettings], name: str) -> list[str]:
    """The environment variables that set a field, strongest first."""
    prefix = cls.model_config.get("env_prefix", "")
    own = [f"{prefix}{name}".upper()] if prefix else []
    return own + [alias for alias in _extra(cls.model_fields[name]).get("env", []) if alias not in own]


def is_secret(field: FieldInfo) -> bool:
    """Whether a field holds something that is never written anywhere."""
    return field.annotation is SecretStr or SecretStr in typing.get_args(field.annotation)


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


class _OneLineParser(argparse.ArgumentParser):
    """Argparse whose refusals are one line and that guesses no abbreviations."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _is_bool(field: FieldInfo) -> bool:
    arguments = [a for a in typing.get_args(field.annotation) if a is not types.NoneType]
    return field.annotation is bool or arguments == [bool]


def _parser(cls: type[ToolSettings], prog: str) -> argparse.ArgumentParser:
    description = (cls.__doc__ or "").strip()
    parser = _OneLineParser(
        prog=prog,
        description=description,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, field in cls.model_fields.items():
        if is_secret(field):
            continue  # a command line is world-readable
        text = _help(cls, name, field)
        if _extra(field).get("positional"):
            parser.add_argument(name, help=text, nargs=None if field.is_required() else "?")
        elif _is_bool(field):
            parser.add_argument(flag_name(name), help=text, action=argparse.BooleanOptionalAction)
        else:
            choices = (
                typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else None
            )
            metavar = "|".join(map(str, choices)) if choices else name.rsplit("_", 1)[-1].upper()
            parser.add_argument(flag_name(name), help=text, metavar=metavar)
    sources = parser.add_argument_group("where settings come from (flag > environment > env file > TOML > preset)")
    sources.add_argument("--config", metavar="FILE", help="TOML file of settings")
    sources.add_argument("--env-file", metavar="FILE", help="file of NAME=VALUE lines")
    if cls.presets:
        names = ", ".join(sorted(_preset_files(cls)))
        sources.add_argument("--preset", metavar="NAME", help=f"packaged settings: {names}")
    return parser


def _help(cls: type[ToolSettings], name: str, field: FieldInfo) -> str:
    parts = [one_line(field.description or "")]
    if not field.is_required() and field.default not in (None, "", False, []) and field.default_factory is None:
        parts.append(f"[default: {field.default}]")
    if names := env_names(cls, name):
        parts.append(f"[env: {', '.join(names)}]")
    return " ".join(part for part in parts if part).replace("%", "%%")


def _named(values: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    return {name: (name, value) for name, value in values.items()}


def _shown(values: Mapping[str, tuple[str, Any]], where: str = "") -> dict[str, tuple[str, Any]]:
    """Field -> (how the user gave it, value), for messages."""
    return {name: (f"{shown} {where}".strip(), value) for name, (shown, value) in values.items()}


def _from_env(cls: type[ToolSettings], environ: Mapping[str, str | None]) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for name in cls.model_fields:
        for variable in env_names(cls, name):
            if environ.get(variable) and name not in found:
                found[name] = (variable, environ[variable])
    return found


def _read_env_file(path: Path) -> Mapping[str, str | None]:
    if not path.is_file():
        raise UsageError(f"--env-file {path}: no such file")
    try:
        return dotenv_values(path, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--env-file {path}: cannot be read ({error})") from error


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from error


def _known_keys(cls: type[ToolSettings], values: dict[str, Any], source: str) -> dict[str, Any]:
    for key in values:
        if key not in cls.model_fields:
            raise UsageError(f"{source}: unknown setting {key!r}; known are {', '.join(sorted(cls.model_fields))}")
    return values


def _read_toml(cls: type[ToolSettings], path: Path, source: str) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: cannot be read ({error})") from error
    return _known_keys(cls, _parse_toml(text, source), source)


def _preset_files(cls: type[ToolSettings]) -> dict[str, Traversable]:
    if not cls.presets:
        return {}
    return {entry.name[:-5]: entry for entry in files(cls.presets).iterdir() if entry.name.endswith(".toml")}


def _read_preset(cls: type[ToolSettings], name: str) -> dict[str, Any]:
    known = _preset_files(cls)
    if name not in known:
        raise UsageError(f"unknown preset {name!r}; choose one of {', '.join(sorted(known))}")
    values = _parse_toml(known[name].read_text(encoding="utf-8"), f"preset {name}")
    parent = values.pop("extends", None)
    inherited: dict[str, Any] = {}
    if parent is not None:
        inherited = _parse_toml(known[parent].read_text(encoding="utf-8"), f"preset {parent}")
        if "extends" in inherited:
            raise UsageError(f"preset {name}: {parent} extends another itself; a preset extends one other only")
    return _known_keys(cls, {**inherited, **values}, f"preset {name}")


def _explain(cls: type[ToolSettings], error: ValidationError, given: Mapping[str, str]) -> str:
    """The first complaint as one line that names the setting the way the user gave it."""
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    name = str(first["loc"][0])
    if name not in cls.model_fields:
        return f"unknown setting {name!r}"
    shown = name if _extra(cls.model_fields[name]).get("positional") else given.get(name, flag_name(name))
    if first["type"] == "missing":
        return f"{shown} is needed: {one_line(cls.model_fields[name].description or '')}"
    value = "" if is_secret(cls.model_fields[name]) else f" (given: {first['input']!r})"
    return f"{shown}: {message}{value}"


def read_token(token: SecretStr | None, token_file: Path | None) -> str:
    """The bearer token of `--token-file`, else of SWE_EXEC_TOKEN; empty when there is none. Raises `UsageError`."""
    if token_file is None:
        return _sendable(token.get_secret_value() if token else "", "the token")
    try:
        text = token_file.read_bytes().decode("utf-8", "replace").strip()
    except OSError as error:
        raise UsageError(f"--token-file {token_file}: cannot be read ({error.strerror})") from error
    if not text:
        raise UsageError(f"--token-file {token_file}: the file is empty")
    return _sendable(text, f"--token-file {token_file}")


def _sendable(token: str, source: str) -> str:
    """`token`, if a header of HTTP can carry it: else it would be cut, or split into two headers."""
    if token and not (token.isascii() and token.isprintable()):
        raise UsageError(f"{source}: a token is one line of ASCII characters")
    return token


__all__ = [
    "CommaList",
    "ToolSettings",
    "env_names",
    "flag_name",
    "is_secret",
    "read_token",
    "setting",
]
