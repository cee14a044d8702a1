"""Statistics over seeds. A seed is the unit: one number per run, never one per step or episode.

A bootstrap draws runs with replacement. Every function that draws takes a generator, so a page made twice has the same
numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
"""Bootstrap resamples and Monte Carlo permutations."""
BAND_RESAMPLES = 1_000
"""Of a curve, which has a number at many places."""
COVERAGE = 0.95
"""Of every interval."""
TAILS = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
"""The quantiles between which as much lies."""
EXACT_LIMIT = 1 << 16
"""A permutation test with at most this many arrangements looks at all of them."""


@dataclass(frozen=True)
class Interval:
    """A two-sided interval."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Summary:
    """One cell of a table."""

    n: int
    """Seeds."""
    mean: float
    std: float | None
    """Sample standard deviation (n - 1); None for one seed."""
    iqm: float
    mean_interval: Interval | None
    """95 % bootstrap interval of the mean; None for one seed."""
    iqm_interval: Interval | None


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; no interval from one seed."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Comparison:
    """A permutation test of "A scores higher than B"."""

    difference: float
    """Mean of A minus mean of B."""
    p: float
    """One-sided: how often chance alone gives a difference at least as large."""
    paired: bool
    exact: bool
    """All arrangements were looked at, not a sample of them."""
    smallest: float
    """The smallest p that this number of seeds can give."""


def numbers(values: ArrayLike, what: str = "values") -> Floats:
    """A non-empty vector of finite numbers, or a ValueError that says what was wrong."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{what}: expected a non-empty vector, got shape {vector.shape}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(f"{what}: expected finite numbers, got {vector[bad[0]]} at position {bad[0]}")
    return vector


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean without the lowest and highest quarter, each rounded down (as in rliable).

    >>> iqm([0, 1, 2, 3, 100])
    2.0
    """
    return float(_iqm_rows(numbers(values)))


def _iqm_rows(values: Floats) -> Floats:
    count = values.shape[-1]
    cut = count // 4
    trimmed: Floats = np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return trimmed


def summarise(values: ArrayLike, rng: np.random.Generator) -> Summary:
    """Mean, standard deviation, IQM and the 95 % bootstrap intervals of one cell."""
    vector = numbers(values)
    mean, middle = float(vector.mean()), iqm(vector)
    if vector.size == 1:
        return Summary(1, mean, None, middle, None, None)
    of_mean = percentiles(resampled(vector, rng, RESAMPLES).mean(axis=-1))
    of_middle = percentiles(_iqm_rows(resampled(vector, rng, RESAMPLES)))
    return Summary(vector.size, mean, float(vector.std(ddof=1)), middle, of_mean, of_middle)


def resampled(vector: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Runs drawn with replacement, a row a resample."""
    return vector[rng.integers(vector.size, size=(resamples, vector.size))]


def percentiles(draws: Floats) -> Interval:
    """Between which the middle 95 % of the draws lie."""
    low, high = np.quantile(draws, TAILS)
    return Interval(float(low), float(high))


def curve_band(runs: ArrayLike, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Mean over seeds at every step with its pointwise 95 % bootstrap band; `runs` is (seeds, steps).

    One seed has no band: its low and high are NaN. So is everything at a step where a seed has no value yet (NaN).
    """
    values = np.asarray(runs, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] == 0:
        raise ValueError(f"runs: expected (seeds, steps) with at least one seed, got shape {values.shape}")
    if np.isinf(values).any():
        raise ValueError("runs: expected finite numbers or NaN, got an infinity")
    seeds = values.shape[0]
    mean: Floats = values.mean(axis=0)
    if seeds == 1:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    # A seed is drawn with its whole curve: one set of weights for all steps.
    weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=BAND_RESAMPLES) / seeds
    low, high = np.quantile(weights @ values, TAILS, axis=0)
    return mean, low, high


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike, rng: np.random.Generator) -> Estimate:
    """How often a run of A beats a run of B; a tie counts half.

    >>> probability_of_improvement([1, 2], [0, 2], np.random.default_rng(0)).value
    0.625
    """
    wins = (np.sign(numbers(ours)[:, None] - numbers(theirs)) + 1) / 2
    value = float(wins.mean())
    if min(wins.shape) < 2:
        return Estimate(value, None)

    def times(count: int) -> NDArray[np.int64]:
        """How often each of so many runs is drawn, a row a resample; draws what `resampled` does."""
        places = rng.integers(count, size=(RESAMPLES, count)) + count * np.arange(RESAMPLES)[:, None]
        return np.bincount(places.ravel(), minlength=RESAMPLES * count).reshape(RESAMPLES, count)

    # Runs are counted, not copied: all sums are of halves, so exact, and no array has more than RESAMPLES × runs.
    draws = ((times(len(wins)) @ wins) * times(wins.shape[1])).sum(axis=1) / wins.size
    return Estimate(value, percentiles(draws))


def permutation_test(
    ours: Mapping[int, float], theirs: Mapping[int, float], rng: np.random.Generator, paired: bool = True
) -> Comparison:
    """One-sided test of "A scores higher than B"; both map seed to score.

    Paired: the sign of each seed's difference is flipped. When the two do not have the same seeds, or `paired` is
    False, the runs are dealt anew to A and B instead.
    """
    paired = paired and set(ours) == set(theirs)
    seeds = sorted(ours)
    a = numbers([ours[seed] for seed in seeds], "scores of A")
    b = numbers([theirs[seed] for seed in (seeds if paired else sorted(theirs))], "scores of B")
    observed = float(a.mean() - b.mean())
    count = arrangements(a.size, b.size, paired)
    exact = count <= EXACT_LIMIT
    if paired:
        differences = a - b
        if exact:
            signs = 1 - 2 * ((np.arange(count)[:, None] >> np.arange(a.size)) & 1)
        else:
            signs = rng.choice((-1, 1), size=(RESAMPLES, a.size))
        chance = (signs * differences).mean(axis=1)
    else:
        together = np.concatenate([a, b])
        if exact:
            chosen = np.array(list(combinations(range(together.size), a.size)))
        else:
            chosen = np.argsort(rng.random((RESAMPLES, together.size)), axis=1)[:, : a.size]
        sums = together[chosen].sum(axis=1)
        chance = sums / a.size - (together.sum() - sums) / b.size
    # Equal arrangements differ in the last bits; they count as equal.
    slack = 1e-12 * max(1e-300, float(np.abs(a).max()), float(np.abs(b).max()))
    hits = int((chance >= observed - slack).sum())
    p = hits / count if exact else (hits + 1) / (RESAMPLES + 1)
    return Comparison(observed, p, paired, exact, 1 / count if exact else 1 / (RESAMPLES + 1))


def arrangements(a: int, b: int, paired: bool) -> int:
    """How many equally likely arrangements a permutation test of a against b seeds has."""
    return 2**a if paired else math.comb(a + b, a)


def holm(p_values: Sequence[float], claims: int | None = None) -> list[float]:
    """Holm's correction: p-values that hold for all claims together, in the given order.

    `claims` is how many there are if some have no p-value: they count like those with the largest.

    >>> holm([0.01, 0.04, 0.03]), holm([0.01], claims=3)
    ([0.03, 0.06, 0.06], [0.03])
    """
    claims = len(p_values) if claims is None else claims
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"p_values: expected numbers from 0 to 1, got {list(p_values)}")
    corrected = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (claims - rank) * p_values[index]))
        corrected[index] = worst
    return corrected


def difference_interval(
    values: ArrayLike, mean: float, std: float | None = None, n: int | None = None
) -> Interval | None:
    """Welch's interval of (mean of `values`) - `mean`, where `mean` comes with its own std over n runs.

    Without `std` the other mean is taken as exact, which makes it the t interval of our own mean. Without `n` it is
    taken to come from as many runs as ours. None for one seed: there is nothing to estimate our spread from.
    """
    from scipy import stats

    vector = numbers(values)
    if vector.size < 2:
        return None
    runs = vector.size if n is None else n
    ours = float(vector.var(ddof=1)) / vector.size
    theirs = 0.0 if std is None or runs < 2 else std**2 / runs
    difference = float(vector.mean()) - mean
    if ours + theirs == 0:
        return Interval(difference, difference)
    freedom = (ours + theirs) ** 2 / (ours**2 / (vector.size - 1) + (theirs**2 / (runs - 1) if theirs else 0.0))
    half = float(stats.t.ppf(TAILS[1], freedom)) * math.sqrt(ours + theirs)
    return Interval(difference - half, difference + half)


# ---- how many seeds would settle what is open -------------------------------------------------------------------
# A normal approximation with the spread that was observed. A difference that was observed by chance is larger or
# smaller than the true one: these are orders of magnitude, which tell "three more seeds" from "no affordable number".
POWER = 0.8
"""How surely a difference as large as the observed one should be found."""
LEVEL = 0.05
"""A corrected p at or below this settles a claim."""
MOST = 10_000
"""More seeds than this are as good as none that would do."""


def seeds_to_decide(difference: float, std_a: float, std_b: float, claims: int = 1) -> int | None:
    """Seeds of each of two methods with which a one-sided test finds this difference; None if none would do.

    Welch's two-sample test by its normal approximation, n = (z(1 − level/claims) + z(power))² (s_a² + s_b²) / d²: each
    of several claims is held to its share of the level, which is what Holm's correction asks of the first one. At
    least as many as a permutation test of all runs needs to reach that level at all.

    >>> seeds_to_decide(1.0, 1.0, 1.0), seeds_to_decide(-0.5, 1.0, 1.0), seeds_to_decide(9.0, 1.0, 1.0, claims=8)
    (13, 50, 5)
    >>> seeds_to_decide(0.0, 1.0, 1.0) is None
    True
    """
    if difference == 0 or not all(map(math.isfinite, (difference, std_a, std_b))):
        return None
    reach = NormalDist().inv_cdf(1 - LEVEL / claims) + NormalDist().inv_cdf(POWER)
    needed = max(2, math.ceil(reach**2 * (std_a**2 + std_b**2) / difference**2 - 1e-9))
    while needed <= MOST and math.comb(2 * min(needed, 30), min(needed, 30)) * LEVEL < claims:
        needed += 1
    return needed if needed <= MOST else None


def seeds_to_agree(half_width: float, std: float, paper_std: float | None, paper_seeds: int | None) -> int | None:
    """Seeds with which the interval of ours − the paper's is at most this wide to either side; None if none would do.

    The paper's mean has an error of its own, which no seed of ours makes smaller.

    >>> seeds_to_agree(1.0, 2.0, None, None), seeds_to_agree(1.0, 2.0, 5.0, 5) is None
    (16, True)
    """
    theirs = paper_std**2 / paper_seeds if paper_std is not None and paper_seeds else 0.0
    left = (half_width / NormalDist().inv_cdf(1 - LEVEL / 2)) ** 2 - theirs
    if left <= 0 or not math.isfinite(std):
        return None
    needed = max(2, math.ceil(std**2 / left))
    return needed if needed <= MOST else None
