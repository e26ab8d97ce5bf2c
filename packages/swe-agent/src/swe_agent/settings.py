"""Settings of `swe-agent`: one class for each command. The text under a field is its reference."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict
from swe_exec_server.common.settings import CommaList, ToolSettings, setting
from swe_exec_server.sandbox import DEFAULT_CWD

from swe_agent.limits import LoopSettings
from swe_agent.models import FinishReason
from swe_agent.models.sampling import Sampling
from swe_agent.repository import shown_repo
from swe_agent.styles import StyleName

WHERE_ONLY = frozenset({"output_dir", "fresh", "exec_server_urls", "token_file", "api_base", "backend", "unsafe_local"})
"""Settings that change where a run happens and not what it is; the rest is its identity."""


class ContainerSettings(ToolSettings):
    """What a command needs to know to get a container with a repository in it."""

    repo: str = ""
    """Your repository: a path, or a URL that git can clone; a clean checkout of it is put into the container."""
    base: str = ""
    """Commit, branch or tag of --repo to start from [default: HEAD]; uncommitted changes are left out."""
    image: str = ""
    """Container image; without --repo it must hold the repository [default with --repo: one with git and Python]."""
    cwd: str = setting(DEFAULT_CWD, pattern="^/")
    """Directory of the repository in the container."""
    backend: Literal["auto", "docker", "local"] = "auto"
    """Docker, or the embedded sandbox (for --repo); auto takes Docker where an engine and an image are."""
    unsafe_local: bool = False
    """Run the commands in plain processes where there is neither Docker nor bubblewrap."""
    exec_server_urls: CommaList = setting([], env=("SWE_EXEC_SERVER_URLS",))
    """Exec servers, separated by commas [default: this machine's Docker engine]."""
    token: SecretStr | None = setting(None, env=("SWE_EXEC_TOKEN",))
    """Bearer token of the exec servers."""
    token_file: Path | None = None
    """File that holds that token."""


class SolveSettings(ContainerSettings):
    """Let a model work on one issue in a container. Steps go to stderr; the patch to stdout and the run directory."""

    model_config = SettingsConfigDict(env_prefix="SWE_AGENT_")

    issue: str = setting(min_length=1)
    """File with the text of the issue; - reads standard input."""
    model: str = setting(min_length=1)
    """Model name at --api-base, with or without openai/; replay:PATH plays recorded turns, scripted:submit a double."""
    api_base: str = setting("", env=("OPENAI_API_BASE", "OPENAI_BASE_URL"))
    """Address of an OpenAI-compatible server, usually http://HOST:PORT/v1."""
    api_key: SecretStr | None = setting(None, env=("OPENAI_API_KEY",))
    """Key for that server."""
    action_style: StyleName = "fenced"
    """How the model asks for a command: fenced blocks in its text, or OpenAI tool calls (the server must do them)."""
    step_limit: int = setting(20, ge=1)
    """Turns that the model has."""
    exec_timeout: float = setting(180.0, gt=0, le=86400)
    """Seconds for one command."""
    wall_limit: float = setting(1800.0, ge=0)
    """Seconds for the whole run; 0 means no limit."""
    token_limit: int = setting(0, ge=0)
    """Tokens that the model may write in all; 0 means no limit."""
    max_format_errors: int = setting(3, ge=1)
    """Refused responses of one kind in a row that end the run."""
    temperature: float | None = setting(None, ge=0)
    """Sampling temperature [default: the server's]."""
    top_p: float | None = setting(None, gt=0, le=1)
    """Nucleus sampling [default: the server's]."""
    max_tokens: int | None = setting(None, ge=1)
    """Longest response in tokens [default: the server's]."""
    seed: int | None = None
    """Sampling seed [default: the server's]."""
    prompt: Path | None = None
    """TOML file of prompts [default: the packaged ones]."""
    output_dir: Path | None = None
    """Run directory [default: runs/solve-HASH, with a hash of the settings]."""
    fresh: bool = False
    """Start anew where a run with the same settings has already ended."""

    @field_validator("temperature", "top_p", "max_tokens", "seed", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any) -> Any:
        return None if value == "" else value

    @model_validator(mode="after")
    def _something_to_work_on(self) -> Self:
        if not self.repo and not self.image:
            raise ValueError("--repo is needed (a path or a URL), or an --image that holds the repository")
        if self.base and not self.repo:
            raise ValueError("--base needs a --repo")
        return self

    def loop(self) -> LoopSettings:
        return LoopSettings(
            step_limit=self.step_limit,
            exec_timeout=self.exec_timeout,
            wall_limit=self.wall_limit or None,
            token_limit=self.token_limit or None,
            max_format_errors=self.max_format_errors,
            action_style=self.action_style,
        )

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.max_tokens, self.seed)

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        values = {name: value for name, value in self.public().items() if name not in WHERE_ONLY}
        return values | ({"repo": shown_repo(self.repo)} if self.repo else {})


class ShowSettings(ToolSettings):
    """Show a recorded run: status, steps and patch. A directory of several runs is listed."""

    model_config = SettingsConfigDict(env_prefix="SWE_AGENT_SHOW_")

    run: Path | None = setting(None, positional=True)
    """Directory with a traj.json, a mini-swe-agent .traj.json, or a directory of such runs."""
    full: bool = False
    """Print long outputs whole, what was answered, and the prompts too."""
    errors: bool = False
    """Only the steps that were refused, failed, or ran into their time limit."""
    step: int | None = setting(None, ge=1)
    """Only this step, whole."""
    context: int | None = setting(None, ge=1)
    """The messages that the model saw at this step."""
    patch: bool = False
    """Only the patch."""
    json_schema: bool = False
    """Print the JSON Schema of traj.json."""

    @model_validator(mode="after")
    def _one_view(self) -> Self:
        chosen = [self.errors, self.step is not None, self.context is not None, self.patch]
        if sum(chosen) > 1:
            raise ValueError("choose one of --errors, --step, --context and --patch")
        if self.run is None and not self.json_schema:
            raise ValueError("run is needed: a run directory, a .traj.json, or a directory of runs")
        return self


class ReplaySettings(ContainerSettings):
    """Run the commands of a recorded run again in a fresh container and report the first difference (exit code 1).

    Image, directory and repository come from the record where it names them.
    """

    model_config = SettingsConfigDict(env_prefix="SWE_AGENT_REPLAY_")

    run: Path = setting(positional=True)
    """Run directory, or a mini-swe-agent .traj.json."""
    cwd: str = setting("", pattern="^(/|$)")
    """Directory to run in [default: the recorded one]."""
    normalise: bool = False
    """Take times, durations, addresses, process ids and temporary names out of the outputs before comparing."""


class ParseSettings(ToolSettings):
    """Read a response on standard input and print as JSON what the loop would do with it."""

    model_config = SettingsConfigDict(env_prefix="SWE_AGENT_PARSE_")

    finish_reason: FinishReason = "stop"
    """How the server says that the response ended."""
