"""What `--model` means: `replay:...`, `scripted:...`, or the name of a model behind an OpenAI-compatible endpoint.

A `ModelSource` outlives the runs that use it: `open` gives the model of one run, `close` ends what is shared.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import SecretStr
from swe_exec_server.common.errors import UsageError

from swe_agent.models import Message, Model, ModelResponse
from swe_agent.models.openai_http import HttpSettings, OpenAIModel
from swe_agent.models.replay import Recordings, ReplayModel, load_recordings, turns_for
from swe_agent.models.sampling import Sampling
from swe_agent.models.scripted import Script, ScriptedModel, bash_turn, tool_turn
from swe_agent.prompts import MARKER
from swe_agent.styles import StyleName, style_of

REPLAY = "replay:"
SCRIPTED = "scripted:"

ReplayResolver = Callable[[str], Recordings]
"""From what follows `replay:` to the recording; raises `UsageError`."""


class ModelSource(Protocol):
    """Where the models of runs come from."""

    @property
    def name(self) -> str: ...

    @property
    def sampling(self) -> Mapping[str, Any]:
        """For meta.json; no secrets."""
        ...

    async def check(self) -> None:
        """Raise `UsageError` when no run can work."""
        ...

    def open(self, instance_id: str) -> Model:
        """The model of one run. Raises `UsageError` when it has nothing for this instance."""
        ...

    async def close(self) -> None: ...


def parse_model(
    name: str,
    *,
    api_base: str = "",
    api_key: SecretStr | None = None,
    sampling: Sampling | None = None,
    http: HttpSettings | None = None,
    resolve_replay: ReplayResolver | None = None,
    action_style: StyleName = "fenced",
) -> ModelSource:
    """The source that `--model NAME` asks for; `action_style` as in the loop's settings. Raises `UsageError`."""
    if name.startswith(REPLAY):
        resolve = resolve_replay or (lambda path: load_recordings(Path(path)))
        return ReplaySource(name, resolve(name.removeprefix(REPLAY)))
    if name.startswith(SCRIPTED):
        return parse_scripted(name, action_style)
    if not name.strip():
        raise UsageError("--model is empty; name a model of the server at --api-base, or replay:FILE")
    if not api_base:
        raise UsageError(f"--model {name} is served by an OpenAI-compatible server: give its address with --api-base")
    return HttpSource(OpenAIModel(name, api_base, api_key, sampling, http, style_of(action_style).tools))


class HttpSource:
    """One connection pool for all runs."""

    def __init__(self, model: OpenAIModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        return self._model.sampling

    async def check(self) -> None:
        await self._model.check()

    def open(self, instance_id: str) -> Model:
        return self._model

    async def close(self) -> None:
        await self._model.close()


class ReplaySource:
    """A fresh `ReplayModel` for each run."""

    def __init__(self, name: str, recordings: Recordings) -> None:
        self.name = name
        self.sampling: Mapping[str, Any] = {}
        self.recordings = recordings

    async def check(self) -> None:
        return None

    def open(self, instance_id: str) -> Model:
        return ReplayModel(turns_for(self.recordings, instance_id), self.name)

    async def close(self) -> None:
        return None


class ScriptedSource:
    """A fresh `ScriptedModel` for each run, with the same seed."""

    def __init__(self, name: str, script: Script, latency: tuple[float, float] | None, seed: int) -> None:
        self.name = name
        self._script = script
        self._latency = latency
        self._seed = seed
        self.sampling: Mapping[str, Any] = {"seed": seed} | ({"latency": list(latency)} if latency else {})

    async def check(self) -> None:
        return None

    def open(self, instance_id: str) -> Model:
        return ScriptedModel(self._script, name=self.name, latency=self._latency, seed=self._seed)

    async def close(self) -> None:
        return None


_SCRIPTED_TURNS: Mapping[str, tuple[str, str]] = {
    "submit": (f"echo {MARKER}", "Nothing to do."),
    "idle": ("ls", "Looking around."),
}
"""Script name to the command and the thought of every turn."""


def _script(command: str, thought: str, style: StyleName) -> Script:
    def respond(messages: Sequence[Message]) -> str | ModelResponse:
        return tool_turn(command, thought) if style == "tools" else bash_turn(command, thought)

    return respond


def parse_scripted(name: str, action_style: StyleName = "fenced") -> ScriptedSource:
    """`scripted:submit` or `scripted:idle`, each with optional `,latency=LOW-HIGH` (seconds) and `,seed=N`."""
    script, *options = name.removeprefix(SCRIPTED).split(",")
    usage = f"--model {name}: write scripted:{'|'.join(_SCRIPTED_TURNS)}[,latency=LOW-HIGH][,seed=N]"
    if script not in _SCRIPTED_TURNS:
        raise UsageError(usage)
    latency: tuple[float, float] | None = None
    seed = 0
    for option in options:
        key, _, value = option.partition("=")
        try:
            if key == "latency":
                low, _, high = value.partition("-")
                latency = (float(low), float(high or low))
            elif key == "seed":
                seed = int(value)
            else:
                raise UsageError(usage)
        except ValueError:
            raise UsageError(usage) from None
    if latency and not 0 <= latency[0] <= latency[1] < float("inf"):
        raise UsageError(usage)
    return ScriptedSource(name, _script(*_SCRIPTED_TURNS[script], action_style), latency, seed)
