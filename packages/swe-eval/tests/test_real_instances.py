"""Real SWE-bench rows end to end: images built from the released source alone, recorded turns, no network, real tests.

Only in a checkout of the workspace (the image builder is a tool of it) and where the rows are (SWE_TEST_DATA).
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from swe_eval.cli import run
from swe_eval.results import AttemptResult, read_results

pytestmark = pytest.mark.docker
TOOL = Path(__file__).parents[3] / "tools" / "instance_image.py"
RECORDINGS = Path(__file__).parent / "data" / "django"


@pytest.fixture(scope="session")
def django_rows(swe_test_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three rows with their images built and `base_commit` set to the built tree's."""
    if not TOOL.is_file():
        pytest.skip("tools/instance_image.py is not here; this test runs in a checkout of the whole workspace")
    rows = tmp_path_factory.mktemp("rows") / "django.jsonl"
    source = swe_test_data / "sdist_django_3.jsonl"
    command = [sys.executable, str(TOOL), "--rows", str(source), "--out", str(rows)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return rows


@pytest.fixture(scope="session")
def evaluated(django_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, AttemptResult]]:
    """`evaluated(recording)`: the rows' results by instance id."""

    def evaluate(recording: str) -> dict[str, AttemptResult]:
        directory = tmp_path_factory.mktemp("runs") / recording
        argv = ["--data", str(django_rows), "--model", f"replay:{RECORDINGS / recording}.json"]
        assert run([*argv, "--backend", "docker", "--max-concurrent", "2", "--output-dir", str(directory)]) == 0
        return {row.instance_id: row for row in read_results(directory)}

    return evaluate


def test_gold_is_resolved(evaluated: Callable[[str], dict[str, AttemptResult]]) -> None:
    rows = evaluated("gold")
    assert len(rows) == 3
    for row in rows.values():
        assert (row.class_.value, row.resolved_strict, row.flags) == ("resolved", True, ())
        assert row.f2p == (1, 1)
        assert row.p2p[0] == row.p2p[1] >= 8


def test_a_wrong_fix_is_unresolved(evaluated: Callable[[str], dict[str, AttemptResult]]) -> None:
    rows = evaluated("wrong")
    assert {row.class_.value for row in rows.values()} == {"unresolved"}
    assert all(row.f2p == (0, 1) for row in rows.values())
    assert rows["django__django-15851"].p2p[0] < rows["django__django-15851"].p2p[1], "it breaks passing tests too"


def test_no_change_is_an_empty_patch(evaluated: Callable[[str], dict[str, AttemptResult]]) -> None:
    assert {row.class_.value for row in evaluated("empty").values()} == {"empty_patch"}
