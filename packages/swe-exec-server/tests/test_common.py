"""Settings precedence, errors as one line, files that survive a kill."""

import json
import resource
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict
from swe_exec_server.common.errors import UsageError, run_cli
from swe_exec_server.common.files import JsonlWriter, read_jsonl, write_atomic
from swe_exec_server.common.settings import CommaList, ToolSettings, read_token, setting


class Example(ToolSettings):
    """An example."""

    model_config = SettingsConfigDict(env_prefix="SWE_X_")

    step_limit: int = setting(20, env=("STEP_LIMIT",), gt=0)
    """How many steps."""
    data: CommaList = setting(["sample"])
    """Which data."""
    mode: Literal["a", "b"] = "a"
    """Which mode."""
    fresh: bool = False
    """Start anew."""
    api_key: SecretStr | None = None
    """A secret."""


def load(*argv: str, **environ: str) -> Example:
    return Example.load("example", argv, environ)


def test_flag_wins_over_environment_over_env_file_over_toml_over_default(tmp_path: Path) -> None:
    toml, env = tmp_path / "c.toml", tmp_path / "e.env"
    toml.write_text("step_limit = 2\n")
    env.write_text("SWE_X_STEP_LIMIT=3\n")
    assert load().step_limit == 20
    assert load("--config", str(toml)).step_limit == 2
    assert load("--config", str(toml), "--env-file", str(env)).step_limit == 3
    assert load("--config", str(toml), "--env-file", str(env), SWE_X_STEP_LIMIT="4").step_limit == 4
    assert load("--step-limit", "5", SWE_X_STEP_LIMIT="4").step_limit == 5


def test_the_prefixed_name_wins_over_an_alias_and_empty_counts_as_unset() -> None:
    assert load(STEP_LIMIT="7").step_limit == 7
    assert load(STEP_LIMIT="7", SWE_X_STEP_LIMIT="8").step_limit == 8
    assert load(STEP_LIMIT="7", SWE_X_STEP_LIMIT="").step_limit == 7


def test_lists_and_switches() -> None:
    assert load("--data", "a, b,").data == ["a", "b"]
    assert load("--fresh").fresh
    assert not load("--no-fresh", SWE_X_FRESH="1").fresh


@pytest.mark.parametrize(
    ("argv", "environ", "says"),
    [
        (["--step-limit", "0"], {}, "--step-limit: Input should be greater than 0 (given: '0')"),
        ([], {"STEP_LIMIT": "x"}, "STEP_LIMIT in the environment: Input should be"),
        (["--bogus"], {}, "--bogus"),
        (["--step", "3"], {}, "--step"),
        (["--mode", "c"], {}, "--mode: Input should be 'a' or 'b'"),
        (["--config", "/nowhere.toml"], {}, "/nowhere.toml"),
        (["--env-file", "/nowhere.env"], {}, "/nowhere.env"),
        (["--api-key", "s3cret"], {}, "unrecognized arguments"),
    ],
)
def test_wrong_input_is_one_line_that_names_it(argv: list[str], environ: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(*argv, **environ)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_toml_keys_are_refused(tmp_path: Path) -> None:
    toml = tmp_path / "c.toml"
    toml.write_text("step_limits = 2\n")
    with pytest.raises(UsageError, match="unknown setting 'step_limits'"):
        load("--config", str(toml))


def test_secrets_are_never_shown() -> None:
    settings = load(SWE_X_API_KEY="s3cret")
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings) + json.dumps(settings.public())
    assert "api_key" not in settings.public()


def test_token_file_beats_the_variable_and_must_hold_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    assert read_token(SecretStr("x"), file) == "abc"
    assert read_token(SecretStr("x"), None) == "x"
    file.write_text("\n")
    with pytest.raises(UsageError, match="empty"):
        read_token(None, file)


@pytest.mark.parametrize("data", [b"\xff", "s\u00e9cret".encode(), b"two\nlines", b"a\0b"])
def test_a_token_that_no_header_carries_is_refused_unshown(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"one line of ASCII characters$"):
        read_token(None, file)
    with pytest.raises(UsageError, match=r"^the token: a token is one line of ASCII characters$"):
        read_token(SecretStr("s\u00e9cret"), None)


def test_an_env_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.env").write_bytes(b"STEP_LIMIT=\xff\n")
    with pytest.raises(UsageError, match=r"--env-file .* cannot be read"):
        load("--env-file", str(tmp_path / "e.env"))


def test_a_line_that_cannot_be_written_whole_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with JsonlWriter(path) as writer:
        writer.append({"a": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                writer.append({"a": "x" * 200})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        writer.append({"a": 2})
    assert list(read_jsonl(path)) == [{"a": 1}, {"a": 2}]


def test_a_refusal_is_exit_code_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise UsageError("two\nlines")

    assert run_cli("tool", main) == 2
    assert capsys.readouterr().err == "tool: two lines\n"


def test_atomic_write_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


@given(st.lists(st.dictionaries(st.text(), st.integers())), st.binary(max_size=40).filter(lambda b: b"\n" not in b))
def test_half_a_line_is_left_out_and_cut_off(
    tmp_path_factory: pytest.TempPathFactory, rows: list[object], half: bytes
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    with JsonlWriter(path) as writer:
        for row in rows:
            writer.append(row)
    with path.open("ab") as file:
        file.write(half)
    assert list(read_jsonl(path)) == rows
    with JsonlWriter(path) as writer:
        writer.append("after")
    assert list(read_jsonl(path)) == [*rows, "after"]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("1\n{\n3\n")
    with pytest.raises(ValueError, match="line 2"):
        list(read_jsonl(path))
