"""HeadTail keeps the true ends of any stream, says what is missing, and stays small."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_exec_server.capture import HeadTail


def collect(limit: int, pieces: list[bytes]) -> HeadTail:
    collector = HeadTail(limit)
    for piece in pieces:
        collector.feed(piece)
    return collector


@given(st.integers(0, 40), st.lists(st.binary(max_size=30), max_size=20))
def test_ends_are_true_and_the_count_is_exact(limit: int, pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    collector = collect(limit, pieces)
    assert collector.total == len(whole)
    assert collector.truncated == (len(whole) > limit)
    if not collector.truncated:
        assert collector.result() == whole
        return
    head, tail = limit // 2, limit - limit // 2
    notice = b"\n[... %d bytes left out ...]\n" % (len(whole) - limit)
    assert collector.result() == whole[:head] + notice + whole[len(whole) - tail :]


def test_a_flood_in_one_piece_or_in_many_gives_the_same() -> None:
    flood = bytes(range(256)) * 1000
    pieces = [flood[start : start + 997] for start in range(0, len(flood), 997)]
    assert collect(1001, [flood]).result() == collect(1001, pieces).result()


def test_memory_is_bounded() -> None:
    collector = HeadTail(1024 * 1024)
    piece = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1600):
            collector.feed(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert collector.total == 1600 * 65536
    assert peak < 4 * 1024 * 1024


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        HeadTail(-1)
