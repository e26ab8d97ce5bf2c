"""Against hand-computed and published numbers, and against brute force."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_eval.stats import Interval, mcnemar_exact, paired_bootstrap, pass_at_k, pass_hat_k, wilson_interval


def test_wilson_by_hand() -> None:
    # n=10, 5 successes: centre 0.5, half width 1.96/(1+0.384)*sqrt(0.025+0.0096) = 0.2634
    interval = wilson_interval(5, 10)
    assert interval.low == pytest.approx(0.23659, abs=1e-4)
    assert interval.high == pytest.approx(0.76341, abs=1e-4)
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(0, 10).high == pytest.approx(0.27753, abs=1e-4)
    assert wilson_interval(0, 0) == Interval(0.0, 1.0)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_is_symmetric(case: tuple[int, int]) -> None:
    successes, trials = case
    interval = wilson_interval(successes, trials)
    mirrored = wilson_interval(trials - successes, trials)
    assert interval.low - 1e-12 <= successes / trials <= interval.high + 1e-12
    assert interval.low == pytest.approx(1 - mirrored.high)


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_what_drawing_gives(case: tuple[int, int, int]) -> None:
    attempts, successes, k = case
    outcomes = [True] * successes + [False] * (attempts - successes)
    draws = list(itertools.combinations(outcomes, k))
    assert pass_at_k(attempts, successes, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(attempts, successes, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_mcnemar_by_hand() -> None:
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(1, 9) == pytest.approx(2 * 11 / 1024)
    assert mcnemar_exact(9, 1) == mcnemar_exact(1, 9)
    assert mcnemar_exact(5, 5) == 1.0


def test_the_bootstrap_keeps_pairs_together() -> None:
    first = [float(number % 2) for number in range(100)]
    assert paired_bootstrap(first, first) == Interval(0.0, 0.0)
    second = [1.0] * 100
    interval = paired_bootstrap(first, second, seed=3)
    assert interval == paired_bootstrap(first, second, seed=3)
    half_width = 1.96 * math.sqrt(0.25 / 100)
    assert interval.low == pytest.approx(0.5 - half_width, abs=0.03)
    assert interval.high == pytest.approx(0.5 + half_width, abs=0.03)


@pytest.mark.parametrize("case", [(3, 4, 1), (3, 1, 0), (3, 1, 4)])
def test_impossible_counts_are_refused(case: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="k="):
        pass_at_k(*case)
    with pytest.raises(ValueError, match="values"):
        paired_bootstrap([1.0], [])
    with pytest.raises(ValueError, match="trials"):
        wilson_interval(2, 1)
