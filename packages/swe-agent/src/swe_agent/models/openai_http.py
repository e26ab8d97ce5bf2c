"""Any OpenAI-compatible chat endpoint over HTTP.

A request is tried again while the failure may pass (transport errors, 408, 409, 425, 429, 5xx, answers that are no
completion) and the budget lasts; then, or at once for a refusal that will not change, it is `ModelLost`. All models of
one endpoint share a circuit breaker: once it gave nobody an answer for as long as the budget, all that wait for it are
`ModelLost` at once. The key is sent and nothing else: it is in no error, no record and no repr.
"""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from pydantic import SecretStr
from swe_exec_server.common.errors import UsageError, one_line

from swe_agent.models import ContextExhausted, Message, ModelLost, ModelResponse
from swe_agent.models.breaker import Breaker, breaker_of
from swe_agent.models.completion import CompletionError, error_text, parse_completion, says_context_exceeded
from swe_agent.models.retry import backoff_seconds, is_transient, retry_after_seconds
from swe_agent.models.sampling import Sampling

PREFIX = "openai/"
MODELS_SHOWN = 10

_ADVICE = {
    401: "check the API key (OPENAI_API_KEY)",
    403: "the API key (OPENAI_API_KEY) may not use this model",
    404: "check --api-base (it usually ends in /v1) and the model name",
}


@dataclass(frozen=True)
class HttpSettings:
    """How patient the client is; all in seconds.

    Attributes:
        timeout: longest wait for one whole answer.
        connect_timeout: longest wait for a connection.
        retry_budget: how long after the request began another try may start; also how long an endpoint may answer
            nobody before it counts as dead.
        busy_budget: the same for a server that answers 429: it lives and says that it is busy.
    """

    timeout: float = 600.0
    connect_timeout: float = 10.0
    retry_budget: float = 50.0
    busy_budget: float = 600.0


class _TryError(Exception):
    """One try that failed in a way that may pass. `delay` is what the server asked for, if anything."""

    def __init__(self, why: str, delay: float | None = None, busy: bool = False) -> None:
        super().__init__(why)
        self.delay = delay
        self.busy = busy


class OpenAIModel:
    """A model behind `<api_base>/chat/completions`. Safe for any number of conversations at once."""

    def __init__(
        self,
        name: str,
        api_base: str,
        api_key: SecretStr | None = None,
        sampling: Sampling | None = None,
        settings: HttpSettings | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._name = name
        self._served_name = name.removeprefix(PREFIX)
        self._api_base = api_base.rstrip("/")
        self._api_key = api_key if api_key and api_key.get_secret_value() else None
        self._sampling = sampling or Sampling()
        self._settings = settings or HttpSettings()
        self._tools = list(tools)
        self._breaker: Breaker | None = None  # holds what the breaker knows between requests
        self._random = random.Random()  # jitter only: two clients must not agree
        headers = {"Authorization": f"Bearer {self._api_key.get_secret_value()}"} if self._api_key else {}
        try:
            self._client = httpx.AsyncClient(
                base_url=self._api_base,
                headers=headers,
                # Neither a queue nor a cap of our own: how many requests run at once is the caller's decision.
                timeout=httpx.Timeout(self._settings.timeout, connect=self._settings.connect_timeout, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise UsageError(f"model server {api_base!r}: {self._safe(error)}; check --api-base and the key") from None
        if self._client.base_url.scheme not in ("http", "https") or not self._client.base_url.host:
            raise UsageError(f"model server {api_base!r} is no URL; give --api-base as http://HOST:PORT/v1")

    @property
    def name(self) -> str:
        return self._name

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling fields of every request, for meta.json."""
        return self._sampling.body()

    async def respond(self, messages: Sequence[Message]) -> ModelResponse:
        body = {"model": self._served_name, "messages": list(messages), "stream": False, **self._sampling.body()}
        if self._tools:
            body["tools"] = self._tools
        breaker = self._breaker = breaker_of(self._api_base, self._settings.retry_budget)
        async with breaker.watch():
            return await self._persist(body, breaker)

    async def _persist(self, body: dict[str, Any], breaker: Breaker) -> ModelResponse:
        """Try until there is an answer or no use in trying."""
        started = time.monotonic()
        attempt = 0
        while True:
            try:
                response = await self._try(body)
            except _TryError as failure:
                if failure.busy:
                    breaker.answered()
                else:
                    breaker.failed(str(failure))
                budget = self._settings.busy_budget if failure.busy else self._settings.retry_budget
                delay = backoff_seconds(attempt, self._random)
                # The server's wish is a minimum; jitter on top keeps waiting clients from coming back all at once.
                delay = delay if failure.delay is None else failure.delay + delay
                attempt += 1
                elapsed = time.monotonic() - started
                if elapsed + delay > budget:
                    if not failure.busy:
                        breaker.gave_up(started)
                    tries = "1 try" if attempt == 1 else f"{attempt} tries"
                    raise ModelLost(
                        f"model server {self._api_base}: {failure} ({tries} in {elapsed:.1f} s); check that it runs"
                    ) from None
                await asyncio.sleep(delay)
            except (ModelLost, ContextExhausted):
                breaker.answered()
                raise
            else:
                breaker.answered()
                return response

    async def _try(self, body: dict[str, Any]) -> ModelResponse:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.timeout):
                answer = await self._client.post("/chat/completions", json=body)
        except (TimeoutError, httpx.TimeoutException):
            waited = time.monotonic() - started
            raise _TryError(f"no answer within {waited:.1f} s") from None
        except httpx.HTTPError as error:
            raise _TryError(self._safe(error) or type(error).__name__) from None
        if answer.status_code == 200:
            try:
                return parse_completion(_json(answer), time.monotonic() - started)
            except CompletionError as error:
                raise _TryError(
                    f"the answer is no chat completion: {error}: {self._safe(answer.text)[:200]!r}"
                ) from None
        raise self._failure(answer)

    def _failure(self, answer: httpx.Response) -> Exception:
        """What a status other than 200 means."""
        status, body = answer.status_code, _json(answer)
        message = self._safe(error_text(body, answer.text)) or answer.reason_phrase
        if status == 413 or (status in (400, 422) and says_context_exceeded(body, message)):
            return ContextExhausted(message)
        if is_transient(status):
            delay = retry_after_seconds(answer.headers.get("retry-after"), datetime.now(UTC))
            return _TryError(f"HTTP {status}: {message}", delay, busy=status == 429)
        advice = _ADVICE.get(status, "the server will not take this request: check the model and the sampling settings")
        return ModelLost(f"model server {self._api_base} answered HTTP {status}: {message}; {advice}")

    async def check(self) -> None:
        """Ask the server for its models before work starts. Raises `UsageError` with what to do.

        A server without a list of models passes: the first request will tell.
        """
        try:
            async with asyncio.timeout(self._settings.timeout):
                answer = await self._client.get("/models")
        except (httpx.HTTPError, TimeoutError) as error:
            why = self._safe(error) or type(error).__name__
            raise UsageError(
                f"no model server at {self._api_base} ({why}); start one or give its address with --api-base"
            ) from None
        if answer.status_code in (401, 403):
            raise UsageError(f"model server {self._api_base} answered HTTP {answer.status_code}; {_ADVICE[401]}")
        if answer.status_code in (404, 405, 501):
            return
        if answer.status_code != 200:
            why = self._safe(error_text(_json(answer), answer.text))
            raise UsageError(f"model server {self._api_base} answered HTTP {answer.status_code} to GET /models: {why}")
        names = _model_names(_json(answer))
        if names is None:
            raise UsageError(f"{self._api_base} lists no models: is this an OpenAI-compatible server? check --api-base")
        if self._name in names:
            # A model whose own name starts with the prefix, such as openai/gpt-oss-20b.
            self._served_name = self._name
        elif self._served_name not in names:
            shown = ", ".join(names[:MODELS_SHOWN]) + (", ..." if len(names) > MODELS_SHOWN else "")
            raise UsageError(
                f"no model {self._served_name!r} at {self._api_base}; choose with --model among: {shown or '(none)'}"
            )

    async def close(self) -> None:
        await self._client.aclose()

    def _safe(self, text: object) -> str:
        """One line without the key, which some servers repeat in their refusals."""
        line = one_line(text)
        return line.replace(self._api_key.get_secret_value(), "***") if self._api_key else line


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _model_names(body: Any) -> list[str] | None:
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        return None
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]
