"""The HTTP model against a real server on loopback that misbehaves as servers do."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr
from swe_agent.loop import LoopSettings, Task, run_agent
from swe_agent.models import ContextExhausted, Message, ModelLost, ModelResponse
from swe_agent.models.breaker import breaker_of
from swe_agent.models.factory import parse_model
from swe_agent.models.openai_http import HttpSettings, OpenAIModel
from swe_agent.models.sampling import Sampling
from swe_agent.models.scripted import bash_turn
from swe_agent.prompts import MARKER, load_prompts
from swe_agent.styles import BASH_TOOL
from swe_agent.trajectory import AgentStatus, Step
from swe_exec_server.common.errors import UsageError
from swe_exec_server.sandbox import Sandbox

KEY = "sk-very-secret"
QUICK = HttpSettings(timeout=5, connect_timeout=2, retry_budget=3, busy_budget=4)
MESSAGES: list[Message] = [{"role": "user", "content": "hi"}]


@dataclass
class Answer:
    """One scripted answer: a body (JSON or raw text), or a hang-up."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False
    drip: float = 0.0  # seconds between the bytes of the body


def completion(text: str | None = "ok", finish: str | None = "stop", **message: Any) -> Answer:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return Answer(200, {"choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 3}})


class ChatServer:
    """Gives its answers in order, the last one for ever; remembers requests and when they came."""

    def __init__(self) -> None:
        self.answers = [completion()]
        self.models = Answer(200, {"data": [{"id": "qwen"}, {"id": "llama"}]})
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.times: list[float] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.authorizations.append(self.headers.get("Authorization"))
                self._give(outer.models if self.path == "/v1/models" else Answer(404, {"detail": "Not Found"}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path != "/v1/chat/completions":
                    self._give(Answer(404, {"detail": "Not Found"}))
                    return
                outer.times.append(time.monotonic())
                outer.requests.append(body)
                outer.authorizations.append(self.headers.get("Authorization"))
                self._give(outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0])

            def _give(self, answer: Answer) -> None:
                time.sleep(answer.delay)
                if answer.hang_up:
                    self.close_connection = True
                    return
                data = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a client that gave up is part of the play
                    for part in [data] if not answer.drip else [data[i : i + 1] for i in range(len(data))]:
                        self.wfile.write(part)
                        time.sleep(answer.drip)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                return None

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


Ask = Callable[..., Any]


@pytest.fixture
def ask(chat: ChatServer) -> Ask:
    async def respond(name: str = "openai/qwen", settings: HttpSettings = QUICK, **options: Any) -> ModelResponse:
        model = OpenAIModel(name, options.pop("url", chat.url), SecretStr(KEY), settings=settings, **options)
        try:
            return await model.respond(MESSAGES)
        finally:
            await model.close()

    return respond


async def test_name_sampling_messages_and_key_are_sent(chat: ChatServer, ask: Ask) -> None:
    sampling = Sampling(0.7, 0.9, 100, 5, ("END",), {"top_k": 20})
    response = await ask(sampling=sampling)
    assert chat.requests == [
        {"model": "qwen", "messages": MESSAGES, "stream": False, "temperature": 0.7, "top_p": 0.9}
        | {"max_tokens": 100, "seed": 5, "stop": ["END"], "top_k": 20}
    ]
    assert chat.authorizations == [f"Bearer {KEY}"]
    assert (response.text, response.finish_reason) == ("ok", "stop")
    assert (response.prompt_tokens, response.completion_tokens) == (11, 3)
    assert response.latency > 0


async def test_what_is_unset_is_not_sent(chat: ChatServer, ask: Ask) -> None:
    await ask(sampling=Sampling(temperature=0.0))
    assert set(chat.requests[0]) == {"model", "messages", "stream", "temperature"}


@pytest.mark.parametrize(
    ("finish", "read"), [("stop", "stop"), ("length", "length"), ("content_filter", "other"), (None, "other")]
)
async def test_the_finish_reason_is_honoured(chat: ChatServer, ask: Ask, finish: str | None, read: str) -> None:
    chat.answers = [completion(finish=finish)]
    assert (await ask()).finish_reason == read


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_is_kept_apart(chat: ChatServer, ask: Ask, key: str) -> None:
    chat.answers = [completion(None, **{key: "thoughts"})]
    response = await ask()
    assert (response.text, response.reasoning) == ("", "thoughts")


async def test_content_in_parts_is_joined(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [completion()]
    chat.answers[0].body["choices"][0]["message"]["content"] = [{"type": "text", "text": "a"}, {"text": "b"}]
    assert (await ask()).text == "ab"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503])
async def test_failures_that_may_pass_are_tried_again(chat: ChatServer, ask: Ask, status: int) -> None:
    chat.answers = [Answer(status, {"error": {"message": "not now"}}), completion("back")]
    assert (await ask()).text == "back"
    assert len(chat.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(hang_up=True),
        Answer(200, "<html>proxy</html>"),
        Answer(200, {"choices": []}),
        Answer(200, []),
        Answer(200, {"choices": [{"message": {"content": 5}}]}),
    ],
)
async def test_hang_ups_and_garbage_are_tried_again(chat: ChatServer, ask: Ask, answer: Answer) -> None:
    chat.answers = [answer, completion("back")]
    assert (await ask()).text == "back"


async def test_retry_after_is_waited_for(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [Answer(503, {}, {"Retry-After": "1"}), completion()]
    await ask()
    assert chat.times[1] - chat.times[0] >= 1.0


async def test_a_retry_after_beyond_the_budget_is_not_waited_for(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [Answer(503, {"error": "loading"}, {"Retry-After": "3600"})]
    with pytest.raises(ModelLost, match=r"HTTP 503: loading \(1 try"):
        await ask()


async def test_a_busy_server_gets_the_longer_budget(chat: ChatServer, ask: Ask) -> None:
    settings = HttpSettings(timeout=5, retry_budget=0.1, busy_budget=20)
    chat.answers = [Answer(429, {}, {"Retry-After": "0"}), Answer(429, {}), completion("served")]
    assert (await ask(settings=settings)).text == "served"
    chat.answers = [Answer(500, {})]
    with pytest.raises(ModelLost, match="1 try"):
        await ask(settings=settings)


async def test_garbage_for_ever_is_a_lost_model_that_says_what_came(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [Answer(200, "<html>proxy</html>")]
    with pytest.raises(ModelLost, match=r"no chat completion.*<html>proxy"):
        await ask(settings=HttpSettings(retry_budget=0.5))


async def test_a_dead_server_is_lost_within_the_budget(chat: ChatServer, ask: Ask) -> None:
    started = time.monotonic()
    with pytest.raises(ModelLost, match=r"127.0.0.1:9/v1.*tries in .*check that it runs"):
        await ask(url="http://127.0.0.1:9/v1")
    assert time.monotonic() - started < 20


async def test_a_server_that_never_answers_is_lost(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [Answer(delay=3)]
    with pytest.raises(ModelLost, match="no answer within"):
        await ask(settings=HttpSettings(timeout=0.3, retry_budget=0.2))


async def test_a_server_that_answers_byte_by_byte_is_lost(chat: ChatServer, ask: Ask) -> None:
    chat.answers = [Answer(200, completion().body, drip=0.05)]
    with pytest.raises(ModelLost, match="no answer within"):
        await ask(settings=HttpSettings(timeout=0.4, retry_budget=0.2))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}),
        (400, {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000."}),
        (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        (400, {"detail": "the request exceeds the available context size"}),
        (422, {"error": "`inputs` tokens + `max_new_tokens`: too many tokens"}),
        (413, {"error": "Request too large"}),
    ],
)
async def test_too_long_a_conversation_is_told_apart(chat: ChatServer, ask: Ask, status: int, body: Any) -> None:
    chat.answers = [Answer(status, body)]
    with pytest.raises(ContextExhausted):
        await ask()
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    ("status", "advice"), [(400, "sampling settings"), (401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "/v1")]
)
async def test_a_refusal_is_lost_at_once_with_what_to_do(chat: ChatServer, ask: Ask, status: int, advice: str) -> None:
    chat.answers = [Answer(status, {"error": {"message": f"temperature must be >= 0, key {KEY}"}})]
    with pytest.raises(ModelLost) as lost:
        await ask()
    assert advice in str(lost.value)
    assert "temperature must be" in str(lost.value)
    assert KEY not in str(lost.value)
    assert len(chat.requests) == 1


async def test_many_conversations_share_one_model(chat: ChatServer) -> None:
    import asyncio

    chat.answers = [Answer(200, completion().body, delay=0.3)]
    model = OpenAIModel("qwen", chat.url, settings=QUICK)
    started = time.monotonic()
    await asyncio.gather(*(model.respond(MESSAGES) for _ in range(20)))
    await model.close()
    assert time.monotonic() - started < 20 * 0.3


async def test_the_key_is_nowhere_but_in_the_request(chat: ChatServer) -> None:
    model = OpenAIModel("qwen", chat.url, SecretStr(KEY), Sampling(temperature=1.0))
    assert model.sampling == {"temperature": 1.0}
    assert KEY not in repr(model) + repr(vars(model)) + str(model.sampling)
    await model.close()


async def check(url: str, name: str = "openai/qwen") -> OpenAIModel:
    model = OpenAIModel(name, url, SecretStr(KEY), settings=QUICK)
    try:
        await model.check()
    finally:
        await model.close()
    return model


async def test_check_accepts_a_served_model(chat: ChatServer) -> None:
    await check(chat.url)
    await check(chat.url, "llama")
    assert chat.authorizations[0] == f"Bearer {KEY}"


async def test_check_finds_a_model_whose_own_name_has_the_prefix(chat: ChatServer) -> None:
    chat.models = Answer(200, {"data": [{"id": "openai/gpt-oss-20b"}]})
    model = OpenAIModel("openai/gpt-oss-20b", chat.url, settings=QUICK)
    await model.check()
    await model.respond(MESSAGES)
    await model.close()
    assert chat.requests[0]["model"] == "openai/gpt-oss-20b"


async def test_check_lets_servers_without_a_list_pass(chat: ChatServer) -> None:
    chat.models = Answer(404, {})
    await check(chat.url)


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        (Answer(200, {"data": [{"id": "llama"}, {"id": "phi"}]}), "no model 'qwen' at .*llama, phi"),
        (Answer(200, "<html>"), "lists no models"),
        (Answer(401, {"error": f"bad {KEY}"}), "OPENAI_API_KEY"),
        (Answer(500, {"error": "boom"}), "HTTP 500 .*boom"),
    ],
)
async def test_check_refuses_with_what_to_do(chat: ChatServer, models: Answer, complaint: str) -> None:
    chat.models = models
    with pytest.raises(UsageError, match=complaint) as refused:
        await check(chat.url)
    assert KEY not in str(refused.value)


async def test_check_names_an_unreachable_server() -> None:
    with pytest.raises(UsageError, match=r"no model server at http://127.0.0.1:9/v1 .*--api-base"):
        await check("http://127.0.0.1:9/v1")


@pytest.mark.parametrize("url", ["localhost:8000/v1", "not a url", "ftp://x/v1", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--api-base"):
        OpenAIModel("qwen", url)


async def test_tools_are_offered_and_their_calls_are_read(chat: ChatServer, ask: Ask) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
        {"function": {"name": "bash", "arguments": {"command": "pwd"}}},
    ]
    chat.answers = [completion(None, "tool_calls", tool_calls=calls)]
    response = await ask(tools=[BASH_TOOL])
    assert chat.requests[0]["tools"] == [BASH_TOOL]
    assert "parallel_tool_calls" not in chat.requests[0]
    assert (response.text, response.finish_reason) == ("", "stop")
    assert [call["id"] for call in response.tool_calls] == ["a", "call_2"]
    assert json.loads(response.tool_calls[1]["function"]["arguments"]) == {"command": "pwd"}


async def test_without_tools_none_are_sent(chat: ChatServer, ask: Ask) -> None:
    await ask()
    assert "tools" not in chat.requests[0]


async def test_a_run_by_tool_calls_over_http(chat: ChatServer, sandbox: Sandbox) -> None:
    def turn(call_id: str, arguments: str) -> Answer:
        call = {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": arguments}}
        return completion(None, "tool_calls", tool_calls=[call])

    chat.answers = [turn("a", '{"command": "ls'), turn("b", json.dumps({"command": f"echo {MARKER}"}))]
    source = parse_model("qwen", api_base=chat.url, action_style="tools")
    settings = LoopSettings(action_style="tools")
    trajectory = await run_agent(Task("i", "?"), source.open("i"), sandbox, settings, load_prompts(style="tools"))
    await source.close()
    assert trajectory.status is AgentStatus.SUBMITTED
    assistant, answer = chat.requests[1]["messages"][2:]
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"not_json": '{"command": "ls'}
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "a")
    assert "not valid JSON" in answer["content"]


async def ask_many(chat: ChatServer, count: int, settings: HttpSettings) -> list[BaseException | ModelResponse]:
    models = [OpenAIModel("qwen", chat.url, settings=settings) for _ in range(count)]
    try:
        return await asyncio.gather(*(model.respond(MESSAGES) for model in models), return_exceptions=True)
    finally:
        for model in models:
            await model.close()


async def test_a_server_dead_for_one_is_dead_for_all(chat: ChatServer) -> None:
    chat.answers = [Answer(503, {"error": "loading"})]
    patient = HttpSettings(timeout=60, retry_budget=1.0)
    early = asyncio.create_task(ask_many(chat, 3, patient))
    await asyncio.sleep(0.7)
    late = await ask_many(chat, 20, patient)
    assert all(isinstance(answer, ModelLost) for answer in [*late, *await early])
    # None of the late ones went on until a budget of its own was used up.
    assert {"no request got an answer" in str(answer) for answer in late} == {True}
    assert "HTTP 503: loading" in str(late[0])


async def test_a_request_in_flight_ends_with_its_dead_server(chat: ChatServer) -> None:
    hanging = OpenAIModel("qwen", chat.url, settings=HttpSettings(timeout=60, retry_budget=1.0))
    chat.answers = [Answer(200, {}, delay=8), Answer(503, {})]
    flight = asyncio.create_task(hanging.respond(MESSAGES))
    await asyncio.sleep(0.2)
    await ask_many(chat, 1, HttpSettings(timeout=60, retry_budget=1.0))
    with pytest.raises(ModelLost, match="no request got an answer"):
        await asyncio.wait_for(flight, 1)
    await hanging.close()


async def test_a_dead_server_gets_one_try_a_request_until_it_answers(chat: ChatServer) -> None:
    model = OpenAIModel("qwen", chat.url, settings=HttpSettings(timeout=60, retry_budget=0.6))
    chat.answers = [Answer(500, {})]
    with pytest.raises(ModelLost):
        await model.respond(MESSAGES)
    before = len(chat.requests)
    with pytest.raises(ModelLost, match="HTTP 500"):
        await model.respond(MESSAGES)
    assert len(chat.requests) == before + 1
    chat.answers = [completion("back"), Answer(500, {}), completion("again")]
    assert (await model.respond(MESSAGES)).text == "back"
    assert (await model.respond(MESSAGES)).text == "again"
    await model.close()


async def test_answers_to_others_keep_an_endpoint_alive(chat: ChatServer) -> None:
    settings = HttpSettings(timeout=60, retry_budget=0.6)
    chat.answers = [Answer(500, {})]
    unlucky = OpenAIModel("qwen", chat.url, settings=settings)
    breaker = breaker_of(chat.url, settings.retry_budget)
    asking = asyncio.create_task(unlucky.respond(MESSAGES))
    await asyncio.sleep(0.1)
    breaker.answered()
    with pytest.raises(ModelLost, match="tries"):
        await asking
    assert not breaker.dead
    await unlucky.close()


async def test_a_server_that_dies_midway_ends_the_run_within_a_minute(chat: ChatServer, sandbox: Sandbox) -> None:
    chat.answers = [completion(bash_turn("sed -i 's/hello /hi /' hello.py")), Answer(hang_up=True)]
    # The real patience, with the real budgets, against a server that is gone.
    source = parse_model("qwen", api_base=chat.url)

    def stop(step: Step) -> None:
        chat.server.shutdown()
        chat.server.server_close()

    started = time.monotonic()
    trajectory = await run_agent(
        Task("i", "?"), source.open("i"), sandbox, LoopSettings(), load_prompts(), on_step=stop
    )
    await source.close()
    assert trajectory.status is AgentStatus.MODEL_LOST
    assert b"hi " in trajectory.patch
    assert time.monotonic() - started < 60
