import threading
import time

import pytest
from swe_exec_server.idempotency import KeyedCalls
from swe_exec_server.wire import CreateResponse, ErrorCode, SandboxError


def answer(name: str = "a") -> CreateResponse:
    return CreateResponse(container_id=name, name=name)


def test_without_a_key_everything_runs() -> None:
    runs: list[int] = []

    def work() -> CreateResponse:
        runs.append(1)
        return answer()

    calls = KeyedCalls("boot")
    calls.run(None, "f", work)
    calls.run(None, "f", work)
    assert len(runs) == 2


def test_repetitions_join_the_running_one() -> None:
    calls, runs, answers = KeyedCalls("boot"), [], []

    def work() -> CreateResponse:
        runs.append(1)
        time.sleep(0.05)
        return answer()

    threads = [threading.Thread(target=lambda: answers.append(calls.run("k", "f", work))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1
    assert answers == [answer()] * 8


def test_final_errors_are_stored_and_retryable_ones_are_not() -> None:
    calls, codes = KeyedCalls("boot"), [ErrorCode.FULL, ErrorCode.IMAGE_UNKNOWN, ErrorCode.INTERNAL]
    raised: list[ErrorCode] = []

    def work() -> CreateResponse:
        raised.append(codes[len(raised)])
        raise SandboxError(raised[-1], "no")

    for _ in range(4):
        with pytest.raises(SandboxError):
            calls.run("k", "f", work)
    assert raised == [ErrorCode.FULL, ErrorCode.IMAGE_UNKNOWN]


def test_a_key_names_one_request() -> None:
    calls = KeyedCalls("boot")
    calls.run("k", "one", answer)
    with pytest.raises(SandboxError) as caught:
        calls.run("k", "two", answer)
    assert caught.value.code is ErrorCode.CONFLICT


def test_a_retry_over_a_restart_is_not_run_again() -> None:
    calls = KeyedCalls("second boot")
    with pytest.raises(SandboxError) as caught:
        calls.run("k", "f", answer, delivered_to="first boot")
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
    assert calls.run("k2", "f", answer, delivered_to="second boot") == answer()


def test_an_answer_that_had_to_go_is_never_run_again() -> None:
    calls = KeyedCalls("boot", max_bytes=300)
    for number in range(10):
        calls.run(f"k{number}", "f", lambda number=number: answer(f"{number:0100d}"))  # type: ignore[misc]
    with pytest.raises(SandboxError) as caught:
        calls.run("k0", "f", lambda: pytest.fail("ran twice"))
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
    assert calls.run("k9", "f", lambda: pytest.fail("ran twice")) == answer(f"{9:0100d}")
