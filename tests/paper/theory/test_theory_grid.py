"""Theorem 1 and 2 on random grids: property tests over priors, errors and c."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm_paper.theory.grid import Grid, RegressionGrid
from lpm_paper.theory.limits import cell
from lpm_paper.theory.theorems import random_grids, random_member, theorem1, theorem2

repeatable = settings(deadline=None, derandomize=True)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Priors may have zeros; log MSE spans ten decades; c spans four."""
    points = draw(st.integers(1, 12))
    weights = draw(st.lists(st.floats(0.0, 1.0), min_size=points, max_size=points))
    weights[draw(st.integers(0, points - 1))] = draw(st.floats(0.01, 1.0))
    log_mse = draw(st.lists(st.floats(-12.0, 12.0), min_size=points, max_size=points))
    c = draw(st.floats(0.01, 50.0))
    prior = np.array(weights) / np.sum(weights)
    return Grid.from_prior(prior, np.exp(np.array(log_mse)), c)


@repeatable
@given(grids())
def test_posterior_is_a_distribution_and_both_forms_of_gain_agree(grid: Grid) -> None:
    assert np.exp(grid.log_posterior).sum() == pytest.approx(1.0, abs=1e-10)
    assert grid.information_gain == pytest.approx(float(grid.information_gain_by_definition), abs=1e-9)
    assert grid.information_gain >= -1e-10


@repeatable
@given(grids(), st.floats(-12.0, 12.0))
def test_identity_holds_for_any_estimate_on_or_off_the_grid(grid: Grid, log_mse_d: float) -> None:
    assert theorem1(grid, log_mse_d).identity_error == pytest.approx(0.0, abs=1e-9)


@repeatable
@given(grids())
def test_mle_satisfies_the_condition_and_the_bound(grid: Grid) -> None:
    terms = theorem1(grid, grid.log_mse_at(grid.mle()))
    assert terms.optimism >= -1e-9
    assert terms.slack >= -1e-9


@repeatable
@given(grids())
def test_zero_directions_with_the_mle(grid: Grid) -> None:
    """Zero gain means a likelihood constant on the support, hence zero reward; and the reverse."""
    terms = theorem1(grid, grid.log_mse_at(grid.mle()))
    inside = grid.log_mse[grid.support]
    if np.ptp(inside) == 0.0:
        assert abs(float(terms.gain)) < 1e-9
        assert abs(float(terms.reward)) < 1e-9
    if terms.c * terms.reward < 1e-12:
        assert terms.gain < 1e-9


@repeatable
@given(grids())
def test_bound_holds_exactly_under_the_weaker_condition(grid: Grid) -> None:
    for index in np.flatnonzero(grid.support):
        terms = theorem1(grid, grid.log_mse_at(int(index)))
        if abs(float(terms.slack)) > 1e-9:
            assert (terms.slack > 0) == bool(terms.bound_condition)


@repeatable
@given(grids())
def test_pointwise_reward_is_never_negative_at_the_mle_and_averages_to_the_reward(grid: Grid) -> None:
    both = theorem2(grid, grid.log_mse_at(grid.mle()))
    assert both.pointwise[grid.support].min() >= 0.0
    assert both.pointwise_mean == pytest.approx(float(both.reward), abs=1e-10)


@repeatable
@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=10, unique=True),
    st.lists(st.floats(-5, 5), min_size=1, max_size=10),
)
def test_corollary_with_c_half_the_samples(theta: list[float], outcomes: list[float]) -> None:
    model = cell(np.array(theta), np.full(len(theta), 1 / len(theta)), np.array(outcomes))
    if model.mse(model.theta).min() < 1e-8:
        return
    terms = theorem1(model.grid(), model.estimates()["mle"].log_mse)
    assert terms.reward >= 2 / len(outcomes) * terms.gain - 1e-9


@repeatable
@given(
    st.lists(st.floats(-4, 4), min_size=2, max_size=8),
    st.floats(0.01, 5.0),
    st.floats(1.0, 4.0),
)
def test_along_one_ray_of_growing_strength_gain_and_reward_both_grow(h: list[float], s: float, factor: float) -> None:
    """The monotonicity that is true: MSE^s with s growing. dIG/ds = s Var_post >= 0 and r is linear in s."""
    log_mse = np.array(h)
    prior = np.full(len(h), 1 / len(h))
    low, high = (Grid(np.log(prior), log_mse * k, np.array(1.0)) for k in (s, s * factor))
    assert high.information_gain >= low.information_gain - 1e-10
    assert high.reward(high.log_mse_at(high.mle())) >= low.reward(low.log_mse_at(low.mle())) - 1e-10


@repeatable
@given(st.floats(-20, 20), st.floats(-20, 20))
def test_two_equal_points_are_monotone(first: float, second: float) -> None:
    """Two points of equal mass form a one-parameter family, the largest uniform case without a reversal."""
    terms = []
    for gap in (first, second):
        grid = Grid(np.log(np.array([0.5, 0.5])), np.array([0.0, gap]), np.array(1.0))
        terms.append(theorem1(grid, grid.log_mse_at(grid.mle())))
    reward, gain = float(terms[0].reward - terms[1].reward), float(terms[0].gain - terms[1].gain)
    assert reward * gain >= -1e-12


def test_twenty_thousand_random_models_to_1e_minus_10() -> None:
    grid = random_grids(np.random.default_rng(0), 20_000)
    for log_mse_d in (grid.log_mse_at(grid.mle()), random_member(grid, np.random.default_rng(1))):
        assert np.abs(theorem1(grid, log_mse_d).identity_error).max() < 1e-10
    assert theorem1(grid, grid.log_mse_at(grid.mle())).slack.min() > 0.0


def test_random_members_lie_in_the_support_and_are_often_inadmissible() -> None:
    grid = random_grids(np.random.default_rng(0), 2_000)
    terms = theorem1(grid, random_member(grid, np.random.default_rng(1)))
    assert np.all(np.isfinite(terms.reward))
    assert 0.1 < (terms.optimism >= 0).mean() < 0.9


def test_padding_does_not_change_a_model() -> None:
    plain = Grid.from_prior([0.3, 0.7], [1.0, 4.0], 2.0)
    padded = Grid.from_prior([0.3, 0.7, 0.0], [1.0, 4.0, 1e-6], 2.0)
    assert padded.mle() == plain.mle()
    assert padded.information_gain == pytest.approx(float(plain.information_gain), abs=1e-15)
    assert padded.reverse_kl == pytest.approx(float(plain.reverse_kl), abs=1e-15)


def test_the_posterior_mean_may_fall_between_grid_points() -> None:
    model = RegressionGrid(
        np.array([-1.0, 1.0]), np.array([0.5, 0.5]), np.array([1.0]), np.array([0.25]), lambda t, x: t * x
    )
    estimates = model.estimates()
    assert estimates["mle"].theta == 1.0
    # With one sample and c = 1/2 two points weigh 1/|y - theta| each: the mean is y itself and fits it exactly.
    assert estimates["posterior mean"].theta == pytest.approx(0.25, abs=1e-15)
    assert -1.0 < model.estimates(c=1.0)["posterior mean"].theta < 1.0
