import json

import pytest
from swe_exec_server.common.errors import UsageError
from swe_grpo.cli import run
from swe_grpo.settings import GrpoSettings


def test_the_original_names_are_accepted_and_flags_win() -> None:
    environ = {"NUM_NODES": "8", "ACTOR_GPUS_PER_NODE": "6", "ROLLOUT_GPUS_PER_NODE": "2", "HF_CKPT": "Qwen3-32B"}
    settings = GrpoSettings.load("swe-grpo", ["--nodes", "4", "--gpus-per-engine", "2"], environ)
    assert (settings.nodes, settings.actor_gpus_per_node, settings.model) == (4, 6, "Qwen3-32B")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--actor-gpus-per-node", "6"], "need 10 GPUs of a machine that has 8"),
        (["--gpus-per-engine", "3"], "does not divide"),
        (["--rollout-max-response-len", "16384"], "below --rollout-max-context-len"),
        (["--n-samples-per-prompt", "1"], "--n-samples-per-prompt"),
    ],
)
def test_layouts_that_cannot_work_are_refused(argv: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        GrpoSettings.load("swe-grpo", argv, {})


def test_dry_run_prints_the_settings_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_KEY", "s3cret")
    assert run(["--dry-run", "--nodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["nodes"] == 2
    assert "s3cret" not in printed


def test_there_is_no_pretended_training() -> None:
    with pytest.raises(UsageError, match="no trainer yet"):
        run([])
