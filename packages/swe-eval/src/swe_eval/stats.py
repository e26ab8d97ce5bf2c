"""The statistics of a benchmark run. Pure functions, each with its formula and source."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution: two-sided 95 % intervals."""


@dataclass(frozen=True)
class Interval:
    """A closed interval."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, z: float = Z95) -> Interval:
    """The score interval of a proportion; [0, 1] without trials.

    With p = successes/n: centre (p + z²/2n) / (1 + z²/n), half width z/(1 + z²/n) · sqrt(p(1-p)/n + z²/4n²).
    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    Raises ValueError unless 0 <= successes <= trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    share, weight = successes / trials, z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Probability that at least one of k attempts drawn without replacement succeeds: 1 - C(n-c, k) / C(n, k).

    M. Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    Raises ValueError when k is not in 1..attempts.
    """
    _check_k(attempts, successes, k)
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Probability that all of k attempts drawn without replacement succeed: C(c, k) / C(n, k).

    S. Yao et al., tau-bench (2024), section 3. Raises ValueError when k is not in 1..attempts.
    """
    _check_k(attempts, successes, k)
    return math.comb(successes, k) / math.comb(attempts, k)


def _check_k(attempts: int, successes: int, k: int) -> None:
    if not 0 <= successes <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"k={k} with {successes} successes of {attempts} attempts")


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p of McNemar's test: the chance of a split at least as uneven among the discordant pairs.

    min(1, 2 · P[X <= min(b, c)]) with X ~ Binomial(b + c, 1/2); 1 without discordant pairs.
    """
    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    tail = sum(math.comb(discordant, i) for i in range(min(only_first, only_second) + 1))
    return min(1.0, 2.0 * tail / float(2**discordant))


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], *, draws: int = 10_000, seed: int = 0
) -> Interval:
    """95 % percentile interval of mean(second) - mean(first), instances drawn with replacement, pairs kept together.

    Raises ValueError for sequences of different or no length.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} values")
    differences = [b - a for a, b in zip(first, second, strict=True)]
    draw = random.Random(seed)
    size = len(differences)
    means = sorted(math.fsum(draw.choices(differences, k=size)) / size for _ in range(draws))
    return Interval(means[int(0.025 * draws)], means[min(draws - 1, int(0.975 * draws))])
