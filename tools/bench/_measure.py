"""Times calls from many threads. Standard library only: the peers' environment runs it too."""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

COMMAND = "echo hi"
EXPECTED = "hi\n"


@dataclass(frozen=True)
class Latency:
    """Of many calls, in milliseconds; `rate` is calls per second, all threads together."""

    concurrency: int
    calls: int
    p50: float
    p95: float
    rate: float


def load(make_call: Callable[[], Callable[[], object]], concurrency: int, seconds: float) -> Latency:
    """Call from `concurrency` threads for `seconds`; each thread makes its own call (its connection) first, unmeasured.

    An exception of any call is raised after all threads have ended.
    """
    times: list[float] = []
    errors: list[BaseException] = []
    start = threading.Barrier(concurrency + 1)

    def work() -> None:
        mine: list[float] = []
        try:
            call = make_call()
            call()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            start.abort()
            return
        start.wait()
        end = time.perf_counter() + seconds
        try:
            while (begun := time.perf_counter()) < end:
                call()
                mine.append(time.perf_counter() - begun)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        times.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return summarise(times, concurrency, time.perf_counter() - begun)


def summarise(times: list[float], concurrency: int, elapsed: float) -> Latency:
    """`times` and `elapsed` in seconds."""
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return Latency(concurrency, len(ordered), statistics.median(ordered) * 1e3, p95 * 1e3, len(ordered) / elapsed)


def seconds_of(call: Callable[[], object]) -> float:
    """How long one call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def rows(latencies: list[Latency]) -> list[dict[str, float]]:
    """As JSON."""
    return [asdict(latency) for latency in latencies]
