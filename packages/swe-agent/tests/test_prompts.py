"""Prompt files are checked when they are loaded, not when they are used."""

from importlib.resources import files
from pathlib import Path

import pytest
from swe_agent.prompts import MARKER, VARIABLES, Prompts, load_prompts, parse_prompts
from swe_exec_server.common.errors import UsageError

DEFAULT_TEXT = files("swe_agent.prompts").joinpath("default.toml").read_text(encoding="utf-8")
RUN = {"cwd": "/testbed", "step_limit": 20, "exec_timeout": 180.0, "marker": MARKER}


def replaced(key: str, template: str) -> str:
    """The packaged prompts with one template changed."""
    values = dict.fromkeys(VARIABLES, "{{ issue }} {{ output }} {{ returncode }} {{ found }} {{ turns_left }}")
    values |= {"system": "s", "truncated": "t", "task": "{{ issue }}", "observation": "{{ output }} {{ returncode }}"}
    values |= {"format_error": "{{ found }}", "turns_left": "{{ turns_left }}", key: template}
    return "\n".join(f"{name} = '''{value}'''" for name, value in values.items())


def test_the_packaged_prompts_tell_all_that_the_loop_means(prompts: Prompts) -> None:
    task = prompts.task(issue="Crash {{ not a variable }} on start", **RUN)
    assert "Crash {{ not a variable }} on start" in task
    assert f"echo {MARKER}" in task
    assert "20 turns" in task
    assert "/testbed" in prompts.system(**RUN)
    assert "180 seconds" in prompts.system(**RUN)
    assert "3 ```bash blocks" in prompts.format_error(found=3, **RUN)
    assert "no complete, non-empty" in prompts.format_error(found=0, **RUN)


def test_the_last_turn_is_announced(prompts: Prompts) -> None:
    assert "7 turns left" in prompts.turns_left(turns_left=7, **RUN)
    assert MARKER in prompts.turns_left(turns_left=2, **RUN)
    last = prompts.turns_left(turns_left=1, **RUN)
    assert "last turn" in last
    assert MARKER in last


def test_a_file_of_ones_own_is_used(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(replaced("system", "Work in {{ cwd }}."), encoding="utf-8")
    own = load_prompts(file)
    assert own.system(**RUN) == "Work in /testbed."
    assert own.name == str(file)
    assert own.sha256 != load_prompts().sha256


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (replaced("task", "no variable at all"), "'task' does not use {{ issue }}"),
        (replaced("observation", "{{ output }}"), "{{ returncode }}"),
        (replaced("system", "{{ cwdd }}"), "unknown cwdd"),
        (replaced("system", "{% if cwd %}"), "'system', line 1"),
        (replaced("extra", "x"), "unknown key 'extra'"),
        (DEFAULT_TEXT.replace("format_error =", "formaterror ="), "'format_error' is missing"),
        ("task = ", "not valid TOML"),
        (replaced("system", "x").replace("system = '''x'''", "system = 1"), "'system' must be a text"),
    ],
)
def test_a_faulty_file_is_refused_with_its_fault(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_prompts(text, "mine.toml")
    assert complaint in str(refused.value)
    assert "mine.toml" in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_prompts(tmp_path / "none.toml")
