"""What a run leaves behind, and whose directory it is."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_eval.results import AttemptResult, prediction, read_results, summarize, write_predictions
from swe_eval.run_directory import claim, default_directory, locked
from swe_eval.verdicts import VerdictClass
from swe_exec_server.common.errors import UsageError
from swe_exec_server.common.files import JsonlWriter

classes = st.sampled_from(list(VerdictClass))


def result(name: str, kind: VerdictClass, **more: object) -> AttemptResult:
    return AttemptResult(instance_id=name, class_=kind, resolved=kind is VerdictClass.RESOLVED, **more)  # type: ignore[arg-type]


@given(st.lists(classes, max_size=40))
def test_the_eleven_classes_sum_to_the_total(kinds: list[VerdictClass]) -> None:
    rows = [result(f"a__b-{number}", kind, n_steps=number) for number, kind in enumerate(kinds)]
    summary = summarize(rows, model="m", data="d", args={})
    assert len(summary["classes"]) == 11
    assert sum(summary["classes"].values()) == summary["total"] == len(kinds)
    assert summary["resolved"] == kinds.count(VerdictClass.RESOLVED)
    assert summary["resolve_rate"] == pytest.approx(summary["resolved"] / max(1, len(kinds)))


def test_averages_are_over_attempts_that_ran() -> None:
    rows = [
        result("a", VerdictClass.RESOLVED, n_steps=4, elapsed=2.0),
        result("b", VerdictClass.UNRESOLVED, n_steps=8, elapsed=4.0),
        result("c", VerdictClass.NOT_RUN),
    ]
    summary = summarize(rows, model="m", data="d", args={})
    assert (summary["avg_steps"], summary["avg_elapsed_s"]) == (6.0, 3.0)


def test_rows_read_back_and_the_last_of_an_attempt_counts(tmp_path: Path) -> None:
    first = result("a", VerdictClass.INFRA_ERROR, error="node lost", flags=("x",), f2p=(1, 2))
    second = result("a", VerdictClass.RESOLVED)
    with JsonlWriter(tmp_path / "results.jsonl") as writer:
        writer.append(first.to_row())
        writer.append(second.to_row())
    assert AttemptResult.from_row(json.loads(json.dumps(first.to_row()))) == first
    assert first.to_row()["class"] == "infra_error"
    assert read_results(tmp_path) == [second]


def test_predictions_have_the_benchmarks_form(tmp_path: Path) -> None:
    (tmp_path / "a__0").mkdir()
    (tmp_path / "a__0" / "patch.diff").write_bytes(b"diff --git a/\xc3\xbc b/\xc3\xbc\r\n\xff")
    rows = [result("a", VerdictClass.RESOLVED, run_dir="a__0"), result("b", VerdictClass.NOT_RUN)]
    write_predictions(tmp_path, rows, "m")
    lines = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"instance_id": "a", "model_name_or_path": "m", "model_patch": "diff --git a/ü b/ü\r\n\ufffd"}
    ]
    assert prediction(rows[0], b"", "m")["model_patch"] == ""


def test_a_directory_belongs_to_one_run(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    identity = {"step_limit": 20, "model": "m"}
    assert not claim(directory, identity, fresh=False)
    assert claim(directory, identity, fresh=False)
    with pytest.raises(UsageError, match=r"--step-limit: 20 then, 30 now"):
        claim(directory, {**identity, "step_limit": 30}, fresh=False)
    (directory / "results.jsonl").write_text("kept\n")
    assert not claim(directory, {**identity, "step_limit": 30}, fresh=True)
    aside = [path for path in tmp_path.iterdir() if ".before-" in path.name]
    assert (aside[0] / "results.jsonl").read_text() == "kept\n"


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty"):
        claim(tmp_path, {}, fresh=False)


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(UsageError, match="another process"), locked(tmp_path / "run"):
        pass
    with locked(tmp_path / "run"):
        pass


def test_a_refused_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="refused"), locked(tmp_path / "runs" / "run"):
        raise UsageError("refused")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_leaves_no_file_behind(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        assert not claim(tmp_path / "run", {"a": 1}, fresh=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_fresh_keeps_the_lock(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    claim(directory, {"a": 1}, fresh=False)
    with locked(directory):
        claim(directory, {"a": 2}, fresh=True)
        with pytest.raises(UsageError, match="another process"), locked(directory):
            pass


@pytest.mark.parametrize("place", ["file", "file/run", "/proc/run", "."])
def test_a_directory_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught, locked(Path(place)):
        claim(Path(place), {}, fresh=False)
    assert "cannot be written" in str(caught.value) or "not empty" in str(caught.value)


def test_the_default_directory_follows_the_settings() -> None:
    one = default_directory("sample", {"a": 1, "b": 2})
    assert one == default_directory("sample", {"b": 2, "a": 1})
    assert one != default_directory("sample", {"a": 1, "b": 3})
    assert one.parts[0] == "runs"
