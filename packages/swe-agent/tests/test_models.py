"""What --model means, recordings, doubles, and when to try again."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from swe_agent.models import ModelLost, ReplayExhausted
from swe_agent.models.factory import HttpSource, parse_model, parse_scripted
from swe_agent.models.replay import RecordedTurn, ReplayModel, load_recordings, turns_for
from swe_agent.models.retry import backoff_seconds, is_transient, retry_after_seconds
from swe_agent.models.scripted import ScriptedModel
from swe_agent.trajectory import Step, Trajectory
from swe_exec_server.common.errors import UsageError


async def test_replay_plays_in_order_and_ends() -> None:
    model = ReplayModel(["a", RecordedTurn("b", "length")])
    assert (await model.respond([])).text == "a"
    assert (await model.respond([])).finish_reason == "length"
    with pytest.raises(ReplayExhausted, match="all 2"):
        await model.respond([])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", '{"instance_id": "i", "turns": ["a", {"text": "b", "finish_reason": "length"}]}'),
        ("r.json", '[{"instance_id": "i", "turns": ["a", {"text": "b", "finish_reason": "length"}]}]'),
        ("r.json", '{"i": ["a", {"text": "b", "finish_reason": "length"}], "j": []}'),
        ("r.json", '{"name": "gold", "turns": ["a", {"text": "b", "finish_reason": "length"}]}'),
        ("r.jsonl", '{"j": []}\n\n{"instance_id": "i", "turns": ["a", {"text": "b", "finish_reason": "length"}]}\n'),
    ],
)
def test_recordings_are_read_in_every_form(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert list(turns_for(load_recordings(tmp_path / name), "i")) == [RecordedTurn("a"), RecordedTurn("b", "length")]


def test_a_run_is_a_recording(tmp_path: Path) -> None:
    for name, text in (("i__0", "first"), ("i__1", "second")):
        Trajectory("i", steps=[Step(1, text), Step(2, "cut", "length", reasoning="r")]).save(tmp_path / name)
    expected = [RecordedTurn("first"), RecordedTurn("cut", "length", "r")]
    for path in (tmp_path, tmp_path / "i__0", tmp_path / "i__0" / "traj.json"):
        assert list(turns_for(load_recordings(path), "i")) == expected


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("r.json", "{", "not JSON"),
        ("r.jsonl", '{"i": []}\n{', "line 2"),
        ("r.jsonl", '{"i": []}\n{"i": []}', "line 2: a second recording for 'i'"),
        ("r.json", "[1]", "not int"),
        ("r.json", '{"i": "text"}', "turns must be a list"),
        ("r.json", '{"i": [5]}', "a turn is"),
        ("r.json", '{"i": [{"text": "a", "finish_reason": "tired"}]}', "'tired'"),
        ("r.json", "{}", "no turns"),
    ],
)
def test_a_faulty_recording_is_refused_with_its_place(tmp_path: Path, name: str, content: str, complaint: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=complaint):
        load_recordings(tmp_path / name)


def test_a_missing_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_recordings(tmp_path / "none.json")
    with pytest.raises(UsageError, match=r"no traj\.json"):
        load_recordings(tmp_path)
    with pytest.raises(UsageError, match="no recorded turns for 'k'; the recording has i, j"):
        turns_for({"i": [], "j": []}, "k")


async def test_scripted_latencies_follow_the_seed() -> None:
    async def latencies(seed: int) -> list[float]:
        model = ScriptedModel(lambda _: "x", latency=(0.0, 0.002), seed=seed)
        return [(await model.respond([])).latency for _ in range(3)]

    first = await latencies(1)
    assert first == await latencies(1)
    assert first != await latencies(2)
    assert all(0 <= value <= 0.002 for value in first)


async def test_scripted_raises_where_it_is_told_to() -> None:
    model = ScriptedModel(lambda messages: f"{len(messages)}", raise_at={1: ModelLost("gone")})
    assert (await model.respond([{"role": "user", "content": ""}])).text == "1"
    with pytest.raises(ModelLost, match="gone"):
        await model.respond([])
    assert (await model.respond([])).text == "0"


async def test_replay_goes_through_the_callers_resolver() -> None:
    asked: list[str] = []

    def resolve(name: str) -> dict[str, list[str]]:
        asked.append(name)
        return {"i": ["turn"]}

    source = parse_model("replay:gold", resolve_replay=resolve)
    assert asked == ["gold"]
    assert [(await source.open("i").respond([])).text for _ in range(2)] == ["turn", "turn"]
    with pytest.raises(UsageError, match="'k'"):
        source.open("k")


async def test_replay_reads_files_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps({"turns": ["x"]}))
    assert (await parse_model(f"replay:{file}").open("any").respond([])).text == "x"


async def test_any_other_name_is_a_model_behind_http() -> None:
    source = parse_model("openai/qwen", api_base="http://127.0.0.1:9/v1")
    assert isinstance(source, HttpSource)
    assert source.name == "openai/qwen"
    assert source.open("a") is source.open("b")
    await source.close()


@pytest.mark.parametrize(("name", "complaint"), [("qwen", "--api-base"), ("", "--model is empty")])
def test_a_name_that_cannot_work_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_model(name)


async def test_scripted_names() -> None:
    source = parse_scripted("scripted:submit,latency=0.001-0.002,seed=7")
    assert source.sampling == {"seed": 7, "latency": [0.001, 0.002]}
    assert "COMPLETE_TASK" in (await source.open("i").respond([])).text
    assert "ls" in (await parse_scripted("scripted:idle").open("i").respond([])).text


@pytest.mark.parametrize("options", ["dance", "submit,latency=x", "submit,latency=2-1", "idle,seed=", "idle,speed=1"])
def test_scripted_names_that_are_none_are_refused(options: str) -> None:
    with pytest.raises(UsageError, match=r"write scripted:submit\|idle"):
        parse_scripted(f"scripted:{options}")


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30.0),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


def test_backoff_grows_has_jitter_and_a_ceiling() -> None:
    source = random.Random(3)
    for attempt, ceiling in ((0, 0.5), (1, 1.0), (3, 4.0), (50, 20.0)):
        drawn = {backoff_seconds(attempt, source) for _ in range(20)}
        assert len(drawn) > 1
        assert all(ceiling / 2 <= value <= ceiling for value in drawn)


@pytest.mark.parametrize(("status", "again"), [(408, True), (429, True), (500, True), (400, False), (404, False)])
def test_which_statuses_may_pass(status: int, again: bool) -> None:
    assert is_transient(status) is again
