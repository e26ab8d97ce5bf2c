"""Responses to actions: every case of the shared file, and what they leave open."""

import subprocess
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_agent.actions import Action, FormatError, parse_action
from swe_agent.models.scripted import bash_turn


def test_case(parse_case: dict[str, Any]) -> None:
    parsed = parse_action(parse_case["text"], parse_case.get("finish_reason", "stop"))
    expected = parse_case["expect"]
    if "action" in expected:
        assert parsed == Action(expected["action"])
    else:
        assert isinstance(parsed, FormatError)
        assert parsed.kind == expected["error"]
        assert parsed.found == expected.get("found", parsed.found)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("~~~bash\necho '```'\n~~~\n", "echo '```'"),
        ("```shell\nls\n```", "ls"),
        ("```BASH title=x\nls\n```", "ls"),
        ("```bash\n\n\nls\n\n```", "ls"),
        ("1. list:\n\n\t```bash\n\tls\n\t```", "ls"),
        ("```markdown\n```bash\nrm -rf /\n```\n```bash\nls\n```", "ls"),
        ("```bash\n```\n```bash\nls\n```", "ls"),
        ("the thought began in the prompt\n```bash\nrm x\n</think>\n```bash\nls\n```", "ls"),
        ("<think>hm</think>```bash\nls\n```", "ls"),
        ("<think>\nhm\n</think>\n\n```bash\ngrep '<think>' x\n```", "grep '<think>' x"),
        ("```bash\ncat <<EOF > a\n<think>\n```\n</think>\nEOF\n```", "cat <<EOF > a\n<think>\n```\n</think>\nEOF"),
        ("```bash\ncat <<-EOF > a\n\t```\n\tEOF\n```", "cat <<-EOF > a\n\t```\n\tEOF"),
        ("```bash\ncat <<A <<B\n```\nA\n```\nB\n```", "cat <<A <<B\n```\nA\n```\nB"),
        ('```bash\nx="$(cat <<"E O F"\n```\nE O F\n)"\n```', 'x="$(cat <<"E O F"\n```\nE O F\n)"'),
        ("```bash\necho $((1 << 3)); cat <<< x\n```", "echo $((1 << 3)); cat <<< x"),
        ("```bash\ncat <<EOF\nno end\n```", "cat <<EOF\nno end"),
        ("  ```bash\n  cat <<EOF\n  ```\n  EOF\n  ```", "cat <<EOF\n```\nEOF"),
        ("```bash\nprintf 'a\0b'\n```", "printf 'ab'"),
    ],
)
def test_one_action(text: str, action: str) -> None:
    assert parse_action(text) == Action(action)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 0),
        ("```\nls\n```", 0),
        ("```python\nls\n```", 0),
        ("```bash\nls", 0),
        ("```bash ls```", 0),
        ("use `ls` or ```bash``` blocks", 0),
        ("<think>\n```bash\nls\n```", 0),
        ("```bash\n \t\n```", 0),
        ("```bash\na\n```\n```sh\nb\n```\n~~~shell\nc\n~~~", 3),
        ("```bash\na\n```\n```bash\n\n```\n```bash\nb\n```", 2),
    ],
)
def test_format_errors_tell_how_many_blocks_there_are(text: str, found: int) -> None:
    assert parse_action(text) == FormatError("format", found)


def test_a_cut_response_is_truncated_even_after_a_closed_block() -> None:
    assert parse_action("```bash\nls\n```\nand th", "length") == FormatError("truncated", 1)


def test_other_finish_reasons_are_no_cut() -> None:
    assert parse_action("```bash\nls\n```", "other") == Action("ls")


def test_a_heredoc_kept_whole_is_what_bash_reads() -> None:
    parsed = parse_action("```bash\ncat <<'EOF'\n# Use\n```python\nprint(1)\n```\nEOF\n```\n")
    assert isinstance(parsed, Action)
    printed = subprocess.run(["bash", "-c", parsed.command], capture_output=True, check=True).stdout
    assert printed == b"# Use\n```python\nprint(1)\n```\n"


def test_a_long_response_of_heredocs_without_end_is_read_quickly() -> None:
    lines = [f"cat <<E{number}" for number in range(20000)]
    started = time.monotonic()
    assert parse_action("\n".join(["```bash", *lines, "```"])) == Action("\n".join(lines))
    assert time.monotonic() - started < 10  # 0.1 s; a search per line would take a minute


LINES = st.sampled_from(["ls", "cat <<EOF", "EOF", "```", "````", "```bash", "~~~", "<think>", "</think>", "  ", "x"])


@given(st.lists(LINES))
def test_any_text_gives_one_command_or_a_count_that_is_not_one(lines: list[str]) -> None:
    parsed = parse_action("\n".join(lines))
    if isinstance(parsed, Action):
        assert parsed.command.strip()
    else:
        assert parsed.found != 1


@given(st.text(st.characters(exclude_categories=["C"]) | st.sampled_from("\n`~<>'\""), min_size=1))
def test_what_bash_turn_writes_is_read_back(command: str) -> None:
    if command.strip() and command == command.strip("\n"):
        assert parse_action(bash_turn(command)) == Action(command)


PARTS = st.lists(
    st.tuples(
        st.sampled_from(["bash", "sh", "shell", "python", "", "text"]),
        st.sampled_from(["ls", "", "  ", "cat > f <<'EOF'\n```bash\nls\n```\nEOF", "echo '```'"]),
    ),
    max_size=6,
)


@given(PARTS, st.booleans())
def test_the_count_is_that_of_the_blocks_that_hold_a_command(parts: list[tuple[str, str]], cut: bool) -> None:
    text = "\n\nand\n\n".join(f"````{language}\n{content}\n````" for language, content in parts)
    commands = [content for language, content in parts if language in ("bash", "sh", "shell") and content.strip()]
    parsed = parse_action(text, "length" if cut else "stop")
    if cut or len(commands) != 1:
        assert parsed == FormatError("truncated" if cut else "format", len(commands))
    else:
        assert parsed == Action(commands[0])
