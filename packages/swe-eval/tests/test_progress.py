"""What a person sees: whole lines on a terminal, in a pipe and at 80 columns."""

import io

import pytest
from rich.console import Console
from swe_eval.progress import Board, closing_lines, results_table
from swe_eval.results import AttemptResult
from swe_eval.verdicts import VerdictClass


def console(width: int, *, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, legacy_windows=False)


def shown(target: Console) -> list[str]:
    assert isinstance(target.file, io.StringIO)
    return [line.rstrip() for line in target.file.getvalue().splitlines()]


def row(instance_id: str, kind: VerdictClass = VerdictClass.UNRESOLVED, **more: object) -> AttemptResult:
    return AttemptResult.model_validate({"instance_id": instance_id, "class_": kind, "resolved": False, **more})


@pytest.mark.parametrize("width", [80, 200])
def test_the_board_gives_each_attempt_a_line_of_its_own(width: int) -> None:
    target = console(width, terminal=True)
    board = Board(target, 4, [row("third__three-3"), row("fourth__four-4")], step_limit=20)
    for name in ("first__one-1", "second__two-2"):
        board.phase(name, "agent")
    target.print(board._draw())
    head, bar, *attempts = shown(target)
    assert head.startswith("2/4 0 resolved")
    assert set(bar) == {"━"}
    assert [line.split()[:3] for line in attempts] == [
        ["first__one-1", "step", "0/20"],
        ["second__two-2", "step", "0/20"],
    ]


@pytest.mark.parametrize("kind", list(VerdictClass))
def test_the_table_fits_80_columns(kind: VerdictClass) -> None:
    target = console(80, terminal=False)
    target.print(results_table([row("matplotlib__matplotlib-25433", kind, exit_status="submitted", elapsed=1234.5)]))
    assert len(shown(target)) == 2


def test_a_long_notice_in_a_pipe_stays_one_line() -> None:
    target = console(80, terminal=False)
    failed = row("a__b-1", VerdictClass.INFRA_ERROR, error="word " * 60)
    for line in closing_lines([failed], "runs/" + "x" * 100):
        target.print(line, soft_wrap=True)
    with Board(target, 1, [], step_limit=20) as board:
        board.result(row("c__" + "d" * 100))
    assert len(shown(target)) == 5
