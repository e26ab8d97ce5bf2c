"""The agent and the evaluator against a real vLLM server: a tiny model with random weights, over real HTTP.

Its answers make no sense, which is what is tested: requests, limits, token counts and classes must hold all the same.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import httpx
import pytest
from swe_agent.models import ContextExhausted
from swe_agent.models.openai_http import OpenAIModel
from swe_agent.models.sampling import Sampling
from swe_eval.cli import run
from swe_eval.results import read_results
from swe_exec_server.common.errors import UsageError

pytestmark = pytest.mark.engine
READY_S = 300


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a running server that serves the model `tiny`."""
    spec = spec_from_file_location("tiny_model", Path(__file__).with_name("tiny_model.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    directory = tmp_path_factory.mktemp("tiny")
    module.make_tiny_model(directory / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory / "model"),
        "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "8192", "--enforce-eager",
        "--host", "127.0.0.1", "--port", str(port), "--generation-config", "vllm", "--max-num-seqs", "8",
        # A seeded request whose prompt is processed in chunks kills the CPU engine (0.32.0): no chunks.
        "--max-num-batched-tokens", "16384",
    ]  # fmt: skip
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_CI_ENV": "1"}
    log = directory / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _healthy(url):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail("the vLLM server did not start:\n" + log.read_text(errors="replace")[-3000:], pytrace=False)
            time.sleep(1)
        yield f"{url}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


async def test_the_model_answers_within_its_limits(vllm_server: str) -> None:
    model = OpenAIModel("openai/tiny", vllm_server, None, Sampling(temperature=1.0, max_tokens=16, seed=7))
    await model.check()
    first = await model.respond([{"role": "user", "content": "hello"}])
    again = await model.respond([{"role": "user", "content": "hello"}])
    assert first.text == again.text
    assert first.completion_tokens is not None
    assert first.completion_tokens <= 16
    assert (first.finish_reason == "length") == (first.completion_tokens == 16)
    await model.close()


async def test_a_prompt_beyond_the_context_is_told_apart(vllm_server: str) -> None:
    model = OpenAIModel("tiny", vllm_server, None, Sampling(max_tokens=16))
    with pytest.raises(ContextExhausted):
        await model.respond([{"role": "user", "content": "0123456789 " * 20_000}])
    await model.close()


async def test_a_model_that_is_not_served_is_named_with_those_that_are(vllm_server: str) -> None:
    model = OpenAIModel("other", vllm_server, None, Sampling())
    with pytest.raises(UsageError, match="tiny"):
        await model.check()
    await model.close()


def test_an_evaluation_with_a_real_engine(vllm_server: str, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    ids = "pantryworks__larder-77,glyphwise__wrapkit-9"
    argv = ["--model", "tiny", "--api-base", vllm_server, "--max-tokens", "32", "--step-limit", "3", "--seed", "1"]
    argv += ["--temperature", "1.0", "--instance-ids", ids, "--unsafe-local", "--output-dir", str(directory)]
    assert run(argv) == 0
    rows = read_results(directory)
    assert {row.instance_id for row in rows} == set(ids.split(","))
    for row in rows:
        # Random weights write no command: format errors or cut answers until a limit ends it.
        assert row.exit_status in {"step_limit", "format_errors"}
        assert row.class_.value == "empty_patch"
        trajectory = json.loads((directory / row.run_dir / "traj.json").read_text())
        assert all(0 < step["completion_tokens"] <= 32 for step in trajectory["steps"])
        meta = json.loads((directory / row.run_dir / "meta.json").read_text())
        assert meta["sampling"]["seed"] == 1
