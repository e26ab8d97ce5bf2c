"""Settings of `swe-grpo`. The names of the original scripts' variables are accepted as aliases."""

from pathlib import Path

from pydantic import SecretStr, model_validator
from pydantic_settings import SettingsConfigDict
from swe_exec_server.common.settings import CommaList, ToolSettings, setting


class GrpoSettings(ToolSettings):
    """Train a model on issues with group-relative policy optimisation.

    This version resolves and checks settings (--dry-run prints them); the trainer itself is not part of it yet.
    """

    model_config = SettingsConfigDict(env_prefix="SWE_GRPO_")

    nodes: int = setting(1, env=("NUM_NODES",), ge=1)
    """Machines that take part; the same command runs on each."""
    gpus_per_node: int = setting(8, env=("NUM_GPUS_PER_NODE",), ge=0)
    """GPUs of one machine; 0 trains on the CPU."""
    actor_gpus_per_node: int = setting(4, env=("ACTOR_GPUS_PER_NODE",), ge=0)
    """GPUs of one machine that train."""
    rollout_gpus_per_node: int = setting(4, env=("ROLLOUT_GPUS_PER_NODE",), ge=0)
    """GPUs of one machine that sample."""
    gpus_per_engine: int = setting(4, env=("ROLLOUT_NUM_GPUS_PER_ENGINE",), ge=1)
    """GPUs of one inference engine, all on one machine."""

    model: str = setting("", env=("HF_CKPT",))
    """Checkpoint folder or hub name of the model to train."""
    data: str = setting("", env=("PROMPT_DATA",))
    """What to train on: a name or path as in swe-eval --data."""
    output_dir: Path | None = None
    """Where checkpoints, rollouts and metrics go."""

    n_samples_per_prompt: int = setting(8, ge=2)
    """Rollouts of one issue: the group whose mean is the baseline."""
    prompts_per_step: int = setting(8, ge=1)
    """Issues of one optimizer step."""
    num_rollout: int = setting(2000, ge=1)
    """Optimizer steps in all."""
    save_interval: int = setting(2, ge=1)
    """Steps between two checkpoints."""
    learning_rate: float = setting(1e-6, gt=0)
    """AdamW's constant learning rate."""
    clip_low: float = setting(0.2, gt=0, lt=1)
    """How far a token's probability ratio may fall below 1."""
    clip_high: float = setting(0.28, gt=0)
    """How far it may rise above 1."""
    kl_coef: float = setting(0.0, ge=0)
    """Weight of the KL term; with 0 no reference model is loaded."""
    rollout_max_context_len: int = setting(16384, ge=256)
    """Tokens of a rollout's context."""
    rollout_max_response_len: int = setting(4096, ge=1)
    """Tokens of one response."""
    step_limit: int = setting(20, ge=1)
    """Most turns of one rollout."""
    seed: int = 0
    """Seed of everything that is drawn."""

    exec_server_urls: CommaList = setting([], env=("SWE_EXEC_SERVER_URLS",))
    """Exec servers, http://host:port."""
    token: SecretStr | None = setting(None, env=("SWE_EXEC_TOKEN",))
    """Their token."""
    wandb_api_key: SecretStr | None = setting(None, env=("WANDB_API_KEY", "WANDB_KEY"))
    """Key of the metrics service; never in arguments, logs or records."""

    dry_run: bool = False
    """Print the resolved settings and exit."""

    @model_validator(mode="after")
    def _placement(self) -> "GrpoSettings":
        asked = self.actor_gpus_per_node + self.rollout_gpus_per_node
        if self.gpus_per_node and asked > self.gpus_per_node:
            raise ValueError(
                f"--actor-gpus-per-node {self.actor_gpus_per_node} and --rollout-gpus-per-node "
                f"{self.rollout_gpus_per_node} need {asked} GPUs of a machine that has {self.gpus_per_node}"
            )
        if self.rollout_gpus_per_node % self.gpus_per_engine and self.gpus_per_node:
            raise ValueError(
                f"--gpus-per-engine {self.gpus_per_engine} does not divide "
                f"--rollout-gpus-per-node {self.rollout_gpus_per_node}; an engine lies within one machine"
            )
        if self.rollout_max_response_len >= self.rollout_max_context_len:
            raise ValueError("--rollout-max-response-len must be below --rollout-max-context-len")
        return self
