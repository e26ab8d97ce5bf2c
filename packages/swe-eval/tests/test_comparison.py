import json
from pathlib import Path

import pytest
from swe_eval.cli import run
from swe_eval.comparison import compare, read_run
from swe_exec_server.common.errors import UsageError

IDS = "pantryworks__larder-77,glyphwise__wrapkit-9,lumenfold__confetti-118"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same three tasks, once all resolved and once none."""
    root = tmp_path_factory.mktemp("runs")
    for name in ("gold", "mixed"):
        argv = [
            "--backend",
            "local",
            "--instance-ids",
            IDS,
            "--model",
            f"replay:{name}",
            "--output-dir",
            str(root / name),
        ]
        assert run(argv) == 0
    return root / "mixed", root / "gold"


def test_what_changed_between_two_runs(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    comparison = compare(read_run(runs[0]), read_run(runs[1]))
    assert (len(comparison.both), len(comparison.only_first), len(comparison.neither)) == (0, 0, 0)
    assert set(comparison.only_second) == set(IDS.split(","))
    assert comparison.difference == 1.0
    assert comparison.p == pytest.approx(0.25)
    assert run(["compare", str(runs[0]), str(runs[1])]) == 0
    printed = capsys.readouterr().out
    assert "McNemar's exact p 0.25" in printed
    assert "only the second 3" in printed
    assert run(["compare", str(runs[0]), str(runs[1]), "--as-json"]) == 0
    assert json.loads(capsys.readouterr().out)["mcnemar_p"] == 0.25


def test_different_data_is_refused_unless_told(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "two"
    ids = ",".join(IDS.split(",")[:2])
    assert run(["--backend", "local", "--instance-ids", ids, "--output-dir", str(other)]) == 0
    with pytest.raises(UsageError, match=r"in one of the runs only.*--force"):
        compare(read_run(runs[0]), read_run(other))
    assert len(compare(read_run(runs[0]), read_run(other), force=True).only_second) == 2


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished run"):
        run(["compare", str(tmp_path), str(tmp_path)])
