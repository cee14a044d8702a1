"""Pure noise, the surrogate and the queue."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm_paper.theory import noise
from lpm_paper.theory.checks_algorithm import NOISE_TABLE
from lpm_paper.theory.limits import bell_cell
from lpm_paper.theory.noise import geometric_errors, mean_lag, tabular_rewards
from lpm_paper.theory.theorems import jeffreys_constant, jeffreys_log_marginal, joint_information_gain

repeatable = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(("dim", "mean", "std", "bias"), NOISE_TABLE)
def test_noise_table(dim: int, mean: float, std: float, bias: float) -> None:
    assert noise.log_error_mean(dim) == pytest.approx(mean, abs=1e-6)
    assert noise.log_error_std(dim) == pytest.approx(std, abs=1e-6)
    assert noise.exp_form_bias(dim) == pytest.approx(bias, abs=1e-6)
    drawn = noise.simulate_noise(np.random.default_rng(dim), dim, 50_000)
    for (sampled, error), stated in zip(drawn, (mean, std, bias), strict=True):
        assert sampled == pytest.approx(stated, abs=5 * error)


def test_uniform_noise_on_the_square() -> None:
    mean, std, bias = noise.uniform_square_moments()
    assert (mean, std, bias) == pytest.approx((-1.4292, 1.0229, -0.0938), abs=5e-5)
    sample = np.log(np.mean(np.random.default_rng(0).uniform(-1, 1, size=(200_000, 2)) ** 2, axis=1))
    assert sample.mean() == pytest.approx(mean, abs=5 * std / np.sqrt(2e5))
    assert sample.std() == pytest.approx(std, abs=0.02)


@repeatable
@given(st.integers(1, 64), st.floats(0.0, 500.0))
def test_bias_payout_by_two_routes(dim: int, noncentrality: float) -> None:
    assert noise.bias_payout(dim, noncentrality) == pytest.approx(
        noise.bias_payout_by_integral(dim, noncentrality), abs=1e-7
    )


@pytest.mark.parametrize("dim", [1, 5])
def test_bias_payout_for_arrays(dim: int) -> None:
    values = np.array([0.0, 1e-3, 0.2, 3.0, 77.0, 9_999.0, 10_001.0, 2e5])
    exact = np.array([noise.bias_payout(dim, float(v)) for v in values])
    np.testing.assert_allclose(noise.BiasPayout(dim)(values), exact, atol=1e-6)


def test_transient_pay_tends_to_the_simple_formula_from_above() -> None:
    pays = [noise.bias_payout(dim, dim * 1.0) for dim in (1, 2, 8, 64, 784)]
    assert np.all(np.diff(pays) < 0)
    assert pays[-1] == pytest.approx(np.log(2), abs=1e-3)
    assert pays[0] == pytest.approx(0.853371, abs=1e-6)


@pytest.mark.parametrize(("n", "constant"), [(3, -0.728980), (10, -4.869136), (50, -25.687166)])
def test_jeffreys_quadrature(n: int, constant: float) -> None:
    for mse in (1e-4, 1.0, 50.0):
        value = jeffreys_log_marginal(n, mse) + n / 2 * np.log(mse)
        assert value == pytest.approx(constant, abs=5e-7)
        assert value == pytest.approx(jeffreys_constant(n), abs=1e-10)


def test_log_mse_grid_equals_the_joint_posterior_with_sigma_summed_out() -> None:
    model = bell_cell(np.array([1.1, 2.9, 2.3, 1.7]))
    joint = joint_information_gain(model, np.linspace(-15.0, 60.0, 20_001))
    assert joint == pytest.approx(float(model.grid().information_gain), abs=1e-9)
    assert joint != pytest.approx(float(model.grid(c=1.0).information_gain), abs=1e-2)


@repeatable
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.integers(1, 8))
def test_rewards_telescope_when_the_queue_holds_one_cycle(errors: list[float], per_cycle: int) -> None:
    rewards = tabular_rewards(np.array(errors), capacity=per_cycle, per_cycle=per_cycle)
    assert rewards[1:].sum() == pytest.approx(errors[0] - errors[-1], abs=1e-9)


@repeatable
@given(st.integers(1, 60), st.integers(1, 20), st.floats(0.01, 2.0))
def test_steady_reward_is_the_mean_lag_times_progress(capacity: int, per_cycle: int, delta: float) -> None:
    rewards = tabular_rewards(-delta * np.arange(80.0), capacity, per_cycle)
    assert rewards[-1] == pytest.approx(mean_lag(capacity, per_cycle) * delta, rel=1e-9)


def test_mean_lag_special_cases() -> None:
    assert mean_lag(8, 32) == mean_lag(32, 32) == 1.0
    assert mean_lag(128, 32) == 2.5
    assert mean_lag(100, 64) == pytest.approx(1.36)
    assert mean_lag(100, 32) == pytest.approx(2.08)


def test_floor_bounds_the_lifetime_budget() -> None:
    errors = geometric_errors(1e-3, 10, floor=1e-6)
    assert tabular_rewards(errors, 1, 1)[1:].sum() == pytest.approx(13.8155, abs=5e-5)
