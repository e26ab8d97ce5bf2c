"""The main command, for real: bundled tasks, recorded turns, embedded sandbox and Docker, kills and refusals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import pytest
from swe_eval.bundled import expected_classes, recorded_turns, sample_rows
from swe_eval.cli import run
from swe_eval.results import read_results
from swe_eval.verdicts import VerdictClass
from swe_exec_server.common.errors import UsageError
from swe_exec_server.embedded import namespace_of

SOME = "pantryworks__larder-77,glyphwise__wrapkit-9,lumenfold__confetti-118"


def evaluate(directory: Path, *more: str) -> int:
    return run(["--output-dir", str(directory), *more])


def classes(directory: Path) -> dict[str, str]:
    return {row.instance_id: row.class_.value for row in read_results(directory)}


def test_gold_resolves_and_leaves_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "run"
    assert evaluate(directory, "--backend", "local", "--instance-ids", SOME) == 0
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["total"], summary["resolved"], summary["resolve_rate"]) == (3, 3, 1.0)
    assert summary["model"] == "replay:gold"
    rows = {row.instance_id: row for row in read_results(directory)}
    assert set(rows) == set(SOME.split(","))
    for row in rows.values():
        attempt = directory / row.run_dir
        assert row.run_dir == f"{row.instance_id}__0"
        assert {path.name for path in attempt.iterdir()} == {
            "traj.json", "patch.diff", "meta.json", "test_output.txt", "report.json"
        }  # fmt: skip
        assert json.loads((attempt / "report.json").read_text())["class"] == "resolved"
        assert row.resolved_strict
        assert row.patch_source == "diff"
        assert row.n_steps > 2
    predictions = [json.loads(line) for line in (directory / "predictions.jsonl").read_text().splitlines()]
    assert {entry["instance_id"] for entry in predictions} == set(rows)
    assert "resolved 3 of 3" in capsys.readouterr().out
    assert not (directory / "sandboxes").exists()


def test_mixed_gives_the_documented_table(tmp_path: Path) -> None:
    assert evaluate(tmp_path / "run", "--backend", "local", "--model", "replay:mixed") == 0
    expected = {name: str(kind) for name, kind in expected_classes("mixed").items()}
    assert classes(tmp_path / "run") == expected
    assert len(set(expected.values())) >= 6


@pytest.mark.docker
def test_docker_gives_the_same_verdicts_and_leaves_no_container(tmp_path: Path, docker_base_image: str) -> None:
    directory = tmp_path / "run"
    more = ["--sample-base", docker_base_image, "--max-concurrent", "2", "--model", "replay:mixed"]
    assert evaluate(directory, "--backend", "docker", *more) == 0
    assert classes(directory) == {name: str(kind) for name, kind in expected_classes("mixed").items()}
    assert containers_of(directory) == []


def containers_of(directory: Path) -> list[str]:
    client = docker.from_env()
    label = f"swe-exec.namespace={namespace_of(directory)}"
    found = [container.name or "" for container in client.containers.list(all=True, filters={"label": label})]
    client.close()
    return found


def start(directory: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-c",
        "from swe_eval.__main__ import main; main()",
        "--output-dir",
        str(directory),
        *more,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for_rows(directory: Path, count: int) -> None:
    results = directory / "results.jsonl"
    deadline = time.monotonic() + 120
    while not results.exists() or results.read_text().count("\n") < count:
        assert time.monotonic() < deadline, "no results came"
        time.sleep(0.02)


BACKENDS = ["local", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, backend: str) -> None:
    directory = tmp_path / "run"
    more = ["--backend", backend, "--max-concurrent", "2", "--model", "replay:mixed"]
    process = start(directory, *more)
    wait_for_rows(directory, 3)
    process.kill()
    process.wait()
    before = {row.instance_id: row for row in read_results(directory)}
    assert 3 <= len(before) < 14
    assert evaluate(directory, *more) == 0
    after = {row.instance_id: row for row in read_results(directory)}
    assert {name: after[name] for name in before} == before, "a finished attempt was run again"
    lines = (directory / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(after) == 14
    assert {name: row.class_ for name, row in after.items()} == expected_classes("mixed")
    if backend == "docker":
        assert containers_of(directory) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_leaves_no_container_and_no_lost_result(tmp_path: Path, backend: str) -> None:
    directory = tmp_path / "run"
    process = start(directory, "--backend", backend, "--max-concurrent", "2", "--model", "replay:mixed")
    wait_for_rows(directory, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert len(read_results(directory)) >= 2
    if backend == "docker":
        assert containers_of(directory) == []
    else:
        assert not (directory / "sandboxes").exists()


def test_sigterm_ends_like_ctrl_c(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    process = start(directory, "--backend", "local", "--max-concurrent", "2", "--model", "replay:mixed")
    wait_for_rows(directory, 1)
    process.terminate()
    assert process.wait(60) == 130
    assert {path.name for path in directory.iterdir() if not path.is_dir()} == {"run.json", "results.jsonl"}
    assert not (directory / "sandboxes").exists()


def test_a_full_disk_stops_the_run_with_one_line(tmp_path: Path) -> None:
    more = ["--backend", "local", "--max-concurrent", "2", "--instance-ids", SOME]
    assert evaluate(tmp_path / "whole", *more) == 0
    # No file may grow beyond this: enough for the run's record, too little for its trajectories and all its rows.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); "
    command = [sys.executable, "-c", limit + "from swe_eval.__main__ import main; main()"]
    full = subprocess.run(
        [*command, "--output-dir", str(tmp_path / "run"), *more], capture_output=True, text=True, timeout=120
    )
    assert full.returncode == 1
    assert "cannot be written (File too large)" in full.stdout
    assert "Traceback" not in full.stdout + full.stderr
    assert evaluate(tmp_path / "run", *more) == 0
    assert classes(tmp_path / "run") == classes(tmp_path / "whole")


def test_broken_results_are_named(tmp_path: Path) -> None:
    more = ["--backend", "local", "--instance-ids", "pantryworks__larder-77"]
    assert evaluate(tmp_path / "run", *more) == 0
    (tmp_path / "run" / "results.jsonl").write_text('{"instance_id": 1}\n')
    with pytest.raises(UsageError, match=r"results\.jsonl cannot be read"):
        evaluate(tmp_path / "run", *more)


def test_a_row_that_cannot_run_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = sample_rows()[:4]
    rows[1] = {**rows[1], "image": "no-such-image:1"}
    rows[2] = {**rows[2], "test_cmd": "", "eval_script": ""}
    rows[3] = {**rows[3], "image": "", "data_source": "nobodys"}
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    directory = tmp_path / "run"
    code = evaluate(directory, "--backend", "local", "--data", str(data), "--model", "replay:gold")
    assert code == 1
    found = {row.instance_id: row for row in read_results(directory)}
    assert [found[row["instance_id"]].class_.value for row in rows] == ["resolved"] + 3 * ["not_run"]
    assert "no-such-image:1" in found[rows[1]["instance_id"]].error
    assert "no-such-image:1" in capsys.readouterr().out


def replay(tmp_path: Path, *commands: str) -> list[str]:
    """Arguments that play `commands` on one bundled task, then hand in."""
    commands = (*commands, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    turns = [f"```bash\n{command}\n```" for command in commands]
    (tmp_path / "turns.json").write_text(json.dumps({"pantryworks__larder-77": turns}))
    return ["--model", f"replay:{tmp_path / 'turns.json'}", "--instance-ids", "pantryworks__larder-77"]


@pytest.mark.docker
def test_a_patch_that_kills_its_tests_is_judged(tmp_path: Path, docker_base_image: str) -> None:
    more = replay(tmp_path, "echo 'import os; os.kill(-1, 9)' >> larder/__init__.py")
    more += ["--backend", "docker", "--sample-base", docker_base_image, "--infra-retries", "1"]
    assert evaluate(tmp_path / "run", *more) == 0
    (row,) = read_results(tmp_path / "run")
    assert (row.class_, row.flags) == (VerdictClass.UNRESOLVED, ("container_ended",))


def test_a_stand_in_for_the_test_runner_is_never_strictly_resolved(tmp_path: Path) -> None:
    listed = next(row for row in sample_rows() if row["instance_id"] == "pantryworks__larder-77")
    names = listed["FAIL_TO_PASS"] + listed["PASS_TO_PASS"]
    lines = "".join(f"{name.rpartition('.')[2]} ({name}) ... ok\n" for name in names)
    stand_in = f"mkdir unittest; touch unittest/__init__.py\ncat > unittest/__main__.py <<'E'\nprint({lines!r})\nE"
    more = [*replay(tmp_path, stand_in), "--backend", "local", "--unsafe-local"]
    assert evaluate(tmp_path / "run", *more) == 0
    (row,) = read_results(tmp_path / "run")
    assert (row.resolved, row.resolved_strict, row.flags) == (True, False, ("test_setup_changed",))


class Recorded(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that answers with recorded turns."""

    turns: list[str]
    requests: list[dict[str, Any]]

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(request)
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        choice = {"message": {"role": "assistant", "content": self.turns[turn]}, "finish_reason": "stop"}
        self._answer({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def model_server() -> Iterator[str]:
    Recorded.turns, Recorded.requests = recorded_turns("gold")["pantryworks__larder-77"], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_model_over_http(tmp_path: Path, model_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-key")
    directory = tmp_path / "run"
    more = ["--instance-ids", "pantryworks__larder-77", "--backend", "local", "--unsafe-local"]
    assert evaluate(directory, "--model", "openai/tiny", "--api-base", model_server, "--temperature", "0.5", *more) == 0
    (row,) = read_results(directory)
    assert row.class_ is VerdictClass.RESOLVED
    assert row.completion_tokens == 10 * row.n_steps
    assert Recorded.requests[0]["model"] == "tiny"
    assert Recorded.requests[0]["temperature"] == 0.5
    written = [path.read_text() for path in directory.rglob("*") if path.is_file()]
    assert not any("s3cret-key" in text for text in written)


REFUSALS = [
    (["--data", "verifed", "--model", "replay:gold"], "verifed"),
    (["--data", "verified", "--model", "replay:gold"], "VERIFIED_DATA"),
    (["--data", "/nowhere.jsonl"], "--model is needed"),
    (["--model", "x"], "--api-base is needed"),
    (["--model", "x", "--api-base", "http://127.0.0.1:9/v1"], "http://127.0.0.1:9/v1"),
    (["--model", "replay:nothing"], "replay:nothing"),
    (["--exec-server-urls", "http://127.0.0.1:9"], "http://127.0.0.1:9"),
    (["--exec-server-urls", "127.0.0.1:9"], "http://host:port"),
    (["--exec-server-urls", "http://127.0.0.1:99999"], "http://host:port"),
    (["--exec-server-urls", "http://"], "http://host:port"),
    (["--instance-ids", "a__b-1"], "a__b-1"),
    (["--max-concurrent", "0"], "--max-concurrent"),
    (["--prompt", "/nowhere.toml"], "/nowhere.toml"),
]


@pytest.mark.parametrize(("argv", "says"), REFUSALS)
def test_bad_input_is_refused_before_any_work(
    tmp_path: Path, argv: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROMPT_DATA", "VERIFIED_DATA", "SWE_EXEC_SERVER_URLS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as caught:
        evaluate(tmp_path / "run", *argv)
    assert says in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_no_docker_where_docker_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(UsageError, match="Docker"):
        evaluate(tmp_path / "run", "--backend", "docker")
    assert not (tmp_path / "run").exists()


def test_malformed_rows_are_named_with_their_line(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps(sample_rows()[0]) + '\n{"instance_id": "a__b-1"}\n{\n')
    with pytest.raises(UsageError) as caught:
        evaluate(tmp_path / "run", "--data", str(data), "--model", "replay:gold")
    assert f"{data}:2" in str(caught.value)
    assert f"{data}:3" in str(caught.value)


@pytest.mark.docker
def test_over_an_exec_server(tmp_path: Path, docker_base_image: str) -> None:
    token = "a token"
    command = [
        sys.executable,
        "-c",
        "from swe_exec_server.cli import main; main()",
        "--port",
        "0",
        "--max-containers",
        "2",
    ]
    environment = {**os.environ, "SWE_EXEC_TOKEN": token}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stderr is not None
        url = next(word.rstrip(":") for line in server.stderr for word in line.split() if word.startswith("http://"))
        drain = threading.Thread(target=server.stderr.read, daemon=True)
        drain.start()
        more = ["--instance-ids", SOME, "--exec-server-urls", url, "--sample-base", docker_base_image]
        with pytest.raises(UsageError, match="token"):
            evaluate(tmp_path / "none", *more)
        (tmp_path / "token").write_text(token)
        assert evaluate(tmp_path / "run", *more, "--token-file", str(tmp_path / "token")) == 0
        assert set(classes(tmp_path / "run").values()) == {"resolved"}
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_a_file_that_calls_itself_sample_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swe_eval.sandboxes.why_unusable", lambda: "no bubblewrap")
    row = {**sample_rows()[0], "test_cmd": "touch /tmp/swe-eval-escaped"}
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps(row) + "\n")
    with pytest.raises(UsageError, match="--unsafe-local"):
        evaluate(tmp_path / "run", "--backend", "local", "--data", str(data), "--model", "replay:gold")
    assert not Path("/tmp/swe-eval-escaped").exists()
