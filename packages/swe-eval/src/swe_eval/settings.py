"""Settings of `swe-eval`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr, model_validator
from pydantic_settings import SettingsConfigDict
from swe_agent.styles import StyleName
from swe_exec_server.common.settings import CommaList, ToolSettings, setting

from swe_eval.bundled import recording_names

SAMPLE = "sample"
DEFAULT_SAMPLE_MODEL = "replay:gold"

OPERATIONAL = frozenset(
    {
        "exec_server_urls",
        "backend",
        "sample_base",
        "unsafe_local",
        "max_concurrent",
        "output_dir",
        "fresh",
        "token_file",
        "api_base",
        "infra_retries",
    }
)
"""Settings that say how a run is carried out, not what it measures: a resumed run may change them."""


class EvalSettings(ToolSettings):
    """Let an agent work on issues, grade its patches with the repositories' own tests, print the table.

    The same command resumes an interrupted run. Further commands: swe-eval grade-log --help.
    """

    model_config = SettingsConfigDict(env_prefix="SWE_EVAL_")

    data: str = SAMPLE
    """What to evaluate on: sample, verified, lite, swe-gym, or paths (JSONL, JSON, parquet), separated by commas."""
    data_source: str = setting("", env=("DATA_SOURCE",))
    """Data source of rows that name none (swe-bench, swe-gym): decides their image."""
    instance_ids: CommaList = setting([])
    """Only these instances."""
    max_instances: int | None = setting(None, env=("MAX_INSTANCES",), ge=1)
    """Only the first so many."""

    model: str = setting("", env=("EVAL_MODEL_NAME",))
    """Model name at --api-base (a prefix openai/ is dropped), or replay:NAME|FILE [default for sample: replay:gold]."""
    api_base: str = setting("", env=("OPENAI_BASE_URL",))
    """Base URL of an OpenAI-compatible server, ending in /v1."""
    api_key: SecretStr | None = setting(None, env=("OPENAI_API_KEY",))
    """Its key."""
    temperature: float = setting(0.0, env=("TEMPERATURE",), ge=0)
    """Sampling temperature."""
    top_p: float = setting(1.0, gt=0, le=1)
    """Nucleus sampling."""
    max_tokens: int = setting(4096, env=("MAX_TOKENS",), ge=1)
    """Most tokens of one response."""
    seed: int | None = None
    """Sampling seed sent to the server."""

    action_style: StyleName = "fenced"
    """How the model asks for a command: fenced blocks in its text, or OpenAI tool calls (the server must do them)."""
    step_limit: int = setting(20, env=("STEP_LIMIT",), ge=1)
    """Most turns of one attempt."""
    exec_timeout: float = setting(180.0, gt=0)
    """Seconds for one command."""
    rollout_timeout: float = setting(1800.0, env=("SWE_ROLLOUT_TIMEOUT",), gt=0)
    """Seconds for the agent's work on one attempt; waiting for a container is not charged."""
    eval_timeout: float = setting(3600.0, gt=0)
    """Seconds for the tests of one attempt."""
    prompt: Path | None = setting(None, env=("SWE_CONFIG_PATH",))
    """TOML file of prompts instead of the packaged ones."""

    exec_server_urls: CommaList = setting([], env=("SWE_EXEC_SERVER_URLS",))
    """Exec servers, http://host:port; without any a node runs inside this process."""
    token: SecretStr | None = setting(None, env=("SWE_EXEC_TOKEN",))
    """Their token."""
    token_file: Path | None = None
    """File that holds their token."""
    backend: Literal["auto", "docker", "local"] = "auto"
    """Without exec servers: Docker, or the embedded sandbox (bubblewrap); auto takes Docker where an engine answers."""
    sample_base: str = ""
    """Base image of the sample tasks [default: swe-base:bookworm where it is, else python:3.11-slim]."""
    unsafe_local: bool = False
    """Run a model's commands in plain processes where there is neither Docker nor bubblewrap."""

    max_concurrent: int = setting(4, env=("MAX_CONCURRENT",), ge=1)
    """Attempts at the same time."""
    infra_retries: int = setting(2, env=("SWE_EVALUATE_MAX_RETRIES",), ge=0)
    """How often a step lost to infrastructure is tried again."""
    output_dir: Path | None = setting(None, env=("OUTPUT_DIR",))
    """Where results go [default: runs/NAME-HASH, the same for the same settings]."""
    fresh: bool = False
    """Start anew; an earlier run in the same directory is moved aside."""

    @model_validator(mode="after")
    def _model_for_data(self) -> "EvalSettings":
        if not self.model and self.data != SAMPLE:
            raise ValueError(f"--model is needed for --data {self.data}: a name at --api-base, or replay:FILE")
        if self.model and not self.is_replay and not self.api_base:
            raise ValueError(f"--api-base is needed for --model {self.model} (for example http://127.0.0.1:8000/v1)")
        return self

    @property
    def model_name(self) -> str:
        return self.model or DEFAULT_SAMPLE_MODEL

    @property
    def is_replay(self) -> bool:
        return self.model_name.startswith("replay:")

    @property
    def replay_name(self) -> str:
        """What follows `replay:`."""
        return self.model_name.removeprefix("replay:")

    @property
    def trusts_its_commands(self) -> bool:
        """Whether all rows and commands are the bundled ones; a file that calls itself "sample" is somebody's."""
        return self.data == SAMPLE and self.is_replay and self.replay_name in recording_names()

    def identity(self) -> dict[str, Any]:
        """What makes a run what it is: all public settings but the operational ones."""
        values = {key: value for key, value in self.public().items() if key not in OPERATIONAL}
        return {**values, "model": self.model_name}
