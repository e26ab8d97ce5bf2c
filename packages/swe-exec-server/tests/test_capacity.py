import threading
import time

import pytest
from swe_exec_server.capacity import FairSlots


def test_cap_holds_under_many_threads() -> None:
    slots = FairSlots(2)
    most, now, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal most, now
        assert slots.acquire(10)
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        slots.release()

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2
    assert slots.used == 0
    assert slots.waiting == 0


def test_waiters_are_served_in_order() -> None:
    slots = FairSlots(1)
    assert slots.acquire(0.1)
    order: list[int] = []

    def work(number: int) -> None:
        assert slots.acquire(10)
        order.append(number)
        slots.release()

    threads = []
    for number in range(6):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
        while slots.waiting != number + 1:
            time.sleep(0.001)
    slots.release()
    for thread in threads:
        thread.join()
    assert order == list(range(6))


def test_one_that_gives_up_leaves_the_queue() -> None:
    slots = FairSlots(1)
    assert slots.acquire(0)
    assert not slots.acquire(0.01)
    assert slots.waiting == 0
    slots.release()
    assert slots.acquire(0)


def test_release_without_a_slot_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="not taken"):
        FairSlots(1).release()
