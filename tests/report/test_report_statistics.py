"""Statistics against values worked out by hand, against scipy and against rliable."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lpm.report import seed_statistics as s

# Reference numbers from rliable 1.2.0 (arch 7.2.0, numpy 2.4.6), scores below:
#   metrics.aggregate_iqm / aggregate_mean / probability_of_improvement
A = np.array(
    [
        [1.063, 0.934, 1.32],
        [1.052, 0.732, 1.181],
        [1.652, 1.474, 0.648],
        [0.367, 0.688, 1.021],
        [-0.163, 0.891, 0.377],
        [0.634, 0.728, 0.842],
    ]
)
B = np.array(
    [
        [1.063, 1.221, 0.636],
        [1.383, 0.367, 0.876],
        [1.152, 0.747, 0.328],
        [0.239, 0.471, 0.81],
        [0.195, 0.595, 0.62],
        [0.97, 0.807, 0.878],
        [0.373, 0.635, 1.092],
        [1.447, 0.07, 1.457],
    ]
)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_iqm_by_hand():
    assert s.iqm([5]) == 5
    assert s.iqm([1, 2, 30]) == 11  # fewer than four runs: nothing is cut
    assert s.iqm([100, 0, 1, 2, 3]) == 2
    assert s.iqm([8, 1, 2, 3, 4, 5, 6, 7]) == 4.5
    assert s.iqm([3, 3, 3, 3]) == 3


def test_summary_of_one_seed_has_no_interval():
    summary = s.summarise([4.0], rng())
    assert (summary.n, summary.mean, summary.iqm) == (1, 4.0, 4.0)
    assert summary.std is summary.mean_interval is summary.iqm_interval is None


def test_summary_of_ties():
    summary = s.summarise([2.0] * 5, rng())
    assert summary.std == 0
    assert summary.mean_interval == summary.iqm_interval == s.Interval(2.0, 2.0)


def test_sample_standard_deviation():
    assert s.summarise([1, 2, 3, 4], rng()).std == pytest.approx(1.2909944)


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_bad_values_are_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        s.summarise(bad, rng())


@pytest.mark.parametrize(("scores", "iqm", "mean"), [(A, 0.8599, 0.85783333), (B, 0.759, 0.768)])
def test_point_estimates_equal_rliable(scores, iqm, mean):
    summary = s.summarise(scores.ravel(), rng())
    assert (summary.iqm, summary.mean) == pytest.approx((iqm, mean))


@pytest.mark.parametrize(("sizes", "values"), [((2, 2), 3), ((8, 5), 4), ((3, 12), 4), ((20, 30), 10**6)])
def test_probability_of_improvement_is_that_of_every_pair_of_runs_drawn(sizes, values):
    """Bit for bit: the resamples are counted, here they are written out; few values have many ties."""
    scores = rng()
    ours, theirs = (scores.integers(values, size=n) / 7 for n in sizes)
    estimate, generator = s.probability_of_improvement(ours, theirs, rng()), rng()

    def drawn(v):
        return v[generator.integers(v.size, size=(s.RESAMPLES, v.size))]

    a, b = drawn(ours)[:, :, None], drawn(theirs)[:, None, :]
    wins = ((a > b) + 0.5 * (a == b)).mean(axis=(1, 2))
    assert estimate.interval == s.Interval(*np.quantile(wins, s.TAILS))


def test_probability_of_improvement_agrees_with_rliable():
    by_task = [s.probability_of_improvement(a, b, rng()).value for a, b in zip(A.T, B.T, strict=True)]
    assert np.mean(by_task) == pytest.approx(0.60069444)


def test_interval_agrees_with_scipy():
    values = np.random.default_rng(3).gamma(2.0, size=12)
    ours = s.summarise(values, rng()).mean_interval
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=rng()).confidence_interval
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_bootstrap_coverage_on_synthetic_data(monkeypatch):
    """The 95 % interval of the mean of 30 normal runs holds the true mean about 95 times in 100, of 5 runs fewer."""
    source = np.random.default_rng(11)
    monkeypatch.setattr(s, "RESAMPLES", 500)

    def coverage(n: int) -> float:
        hits = 0
        for _ in range(400):
            interval = s.summarise(source.normal(1.0, 2.0, n), source).mean_interval
            assert interval is not None
            hits += 1.0 in interval
        return hits / 400

    assert 0.91 <= coverage(30) <= 0.98
    assert 0.76 <= coverage(5) <= 0.91


def test_one_seed_means_no_interval():
    assert s.probability_of_improvement([1.0], [0.0, 2.0], rng()) == s.Estimate(0.5, None)


def test_unequal_numbers_of_seeds():
    estimate = s.probability_of_improvement([3, 4, 5], [1, 2], rng())
    assert estimate == s.Estimate(1.0, s.Interval(1.0, 1.0))
    assert s.permutation_test({0: 3, 1: 4, 2: 5}, {0: 1, 1: 2}, rng()).p == pytest.approx(1 / 10)


def test_ties_count_half():
    assert s.probability_of_improvement([1, 1], [1, 1], rng()).value == 0.5


def test_curve_band():
    runs = np.array([[0.0, 1.0, np.nan], [2.0, 1.0, 4.0], [4.0, 1.0, 4.0]])
    mean, low, high = s.curve_band(runs, rng())
    assert mean[:2].tolist() == [2.0, 1.0]
    assert low[0] < 2.0 < high[0]
    assert low[1] == high[1] == pytest.approx(1.0)
    assert np.isnan([mean[2], low[2], high[2]]).all()


def test_curve_of_one_seed_has_no_band():
    mean, low, high = s.curve_band([[1.0, 2.0]], rng())
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize("bad", [np.zeros((0, 3)), np.zeros(3), [[math.inf]]])
def test_bad_curves_are_refused(bad):
    with pytest.raises(ValueError, match="runs: expected"):
        s.curve_band(bad, rng())


def test_paired_test_by_hand():
    ours, theirs = {0: 2.0, 1: 3.0, 2: 4.0}, {2: 2.0, 1: 1.0, 0: 1.0}  # differences 1, 2, 2
    test = s.permutation_test(ours, theirs, rng())
    assert test.difference == pytest.approx(5 / 3)
    assert (test.p, test.smallest, test.paired, test.exact) == (1 / 8, 1 / 8, True, True)
    assert s.permutation_test(theirs, ours, rng()).p == 1.0


def test_no_difference_is_p_one():
    same = {seed: 0.1 * seed for seed in range(6)}
    assert s.permutation_test(same, same, rng()).p == 1.0
    assert s.permutation_test({0: 1.0, 1: 1.0}, {2: 1.0, 3: 1.0}, rng()).p == 1.0


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e12])
@pytest.mark.parametrize(("paired", "kind"), [(True, "samples"), (False, "independent")])
def test_permutation_test_equals_scipy(scale, paired, kind):
    source = np.random.default_rng(5)
    a, b = (scale * (source.normal(0.6, 1, 7) * 10).round(), scale * (source.normal(0, 1, 7) * 10).round())
    ours = s.permutation_test(dict(enumerate(a)), dict(enumerate(b)), rng(), paired)
    theirs = stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type=kind,
        alternative="greater",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert ours.exact
    assert ours.paired is paired
    assert ours.p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("paired", [True, False])
def test_monte_carlo_is_near_the_exact_answer(paired, monkeypatch):
    source = np.random.default_rng(8)
    a, b = (dict(enumerate(source.normal(m, 1, 8))) for m in (0.7, 0.0))
    exact = s.permutation_test(a, b, rng(), paired)
    monkeypatch.setattr(s, "EXACT_LIMIT", 1)
    sampled = s.permutation_test(a, b, rng(), paired)
    assert not sampled.exact
    assert sampled.p == pytest.approx(exact.p, abs=0.02)
    assert sampled.p >= sampled.smallest > 0


def test_other_seeds_are_not_paired():
    assert not s.permutation_test({0: 1.0, 1: 2.0}, {0: 1.0, 2: 2.0}, rng()).paired


def test_holm_by_hand():
    assert s.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert s.holm([]) == []
    assert s.holm([0.9, 0.9]) == [1.0, 1.0]
    with pytest.raises(ValueError, match="0 to 1"):
        s.holm([1.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_properties(ps):
    corrected = s.holm(ps)
    assert all(p <= c <= 1 for p, c in zip(ps, corrected, strict=True))
    assert min(corrected) == pytest.approx(min(1.0, len(ps) * min(ps)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_iqm_lies_between_the_extremes(values):
    assert min(values) - 1e-6 <= s.iqm(values) <= max(values) + 1e-6


def test_difference_interval_is_welch():
    ours = np.array([70.0, 81.0, 66.0, 75.0, 79.0])
    other = np.array([60.0, 71.0, 58.0, 66.0])
    interval = s.difference_interval(ours, other.mean(), other.std(ddof=1), other.size)
    expected = stats.ttest_ind(ours, other, equal_var=False).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_difference_from_an_exact_number_is_the_t_interval():
    ours = [1.0, 2.0, 4.0]
    interval = s.difference_interval(ours, 2.0)
    expected = stats.ttest_1samp(ours, 2.0).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low + 2.0, interval.high + 2.0) == pytest.approx((expected.low, expected.high))


def test_difference_interval_of_one_or_equal_seeds():
    assert s.difference_interval([1.0], 1.0, 0.5, 5) is None
    assert s.difference_interval([1.0, 1.0], 0.5) == s.Interval(0.5, 0.5)
