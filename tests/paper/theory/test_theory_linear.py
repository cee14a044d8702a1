"""Bayesian linear regression: closed forms against definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import digamma
from scipy.stats import norm

from lpm_paper.theory.linear import (
    Gaussian,
    LinearRegression,
    expected_gain,
    expected_lpm_reward,
    gaussian_kl,
    random_regression,
    realised_gain,
    retrospective_gain,
)

repeatable = settings(deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


@repeatable
@given(seeds)
def test_gain_as_divergence_and_by_definition(seed: int) -> None:
    problem = random_regression(np.random.default_rng(seed))
    assert problem.information_gain() == pytest.approx(problem.information_gain_by_definition(), rel=1e-7, abs=1e-8)


@repeatable
@given(seeds)
def test_linear_identity_for_mle_posterior_mean_and_any_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_regression(rng)
    for theta_d in (problem.mle(), problem.posterior().mean, rng.standard_normal(len(problem.prior.mean))):
        scale = 1 + abs(problem.c_linear * problem.reward_linear(theta_d))
        assert problem.identity_error(theta_d) / scale == pytest.approx(0.0, abs=1e-9)


@repeatable
@given(seeds)
def test_posterior_mean_is_admissible_because_the_likelihood_is_concave(seed: int) -> None:
    problem = random_regression(np.random.default_rng(seed))
    posterior = problem.posterior()
    trace = float(np.trace(problem.x @ posterior.cov @ problem.x.T)) / (2 * problem.noise_var)
    assert problem.optimism(posterior.mean) == pytest.approx(trace, rel=1e-8)
    assert problem.c_linear * problem.reward_linear(posterior.mean) >= problem.information_gain() - 1e-9
    assert problem.optimism(problem.mle()) >= problem.optimism(posterior.mean) - 1e-9


def test_posterior_against_numerical_integration() -> None:
    problem = LinearRegression(
        Gaussian(np.array([0.5]), np.array([[2.0]])), np.array([[1.0], [-0.5]]), np.array([1.0, 0.3]), 0.4
    )

    def weight(theta: float) -> float:
        likelihood = norm.pdf(problem.y, problem.x[:, 0] * theta, np.sqrt(0.4)).prod()
        return float(norm.pdf(theta, 0.5, np.sqrt(2.0)) * likelihood)

    evidence = quad(weight, -15, 15)[0]
    mean = quad(lambda t: t * weight(t), -15, 15)[0] / evidence
    assert problem.log_evidence() == pytest.approx(np.log(evidence), abs=1e-8)
    assert problem.posterior().mean[0] == pytest.approx(mean, abs=1e-8)


def test_expected_log_mse_in_a_case_with_a_closed_form() -> None:
    """theta ~ N(0, s), y = 0, x = 1: MSE = s chi2_1, so the mean log is log(2 s) + psi(1/2)."""
    prior = Gaussian(np.zeros(1), np.array([[3.0]]))
    problem = LinearRegression(prior, np.ones((1, 1)), np.zeros(1), 1.0)
    assert problem.expected_log_mse(prior) == pytest.approx(np.log(6.0) + digamma(0.5), abs=1e-9)


def test_expected_log_mse_against_sampling() -> None:
    rng = np.random.default_rng(0)
    problem = random_regression(rng)
    theta = rng.multivariate_normal(problem.prior.mean, problem.prior.cov, size=200_000)
    logs = np.log(np.mean((problem.y - theta @ problem.x.T) ** 2, axis=1))
    assert problem.expected_log_mse(problem.prior) == pytest.approx(logs.mean(), abs=5 * logs.std() / np.sqrt(2e5))


@repeatable
@given(seeds)
def test_one_sample_gain_equals_the_generic_divergence(seed: int) -> None:
    problem = random_regression(np.random.default_rng(seed))
    one = LinearRegression(problem.prior, problem.x[:1], problem.y[:1], problem.noise_var)
    q = one.x[0] @ problem.prior.cov @ one.x[0] / problem.noise_var
    squared = (one.y[0] - one.x[0] @ problem.prior.mean) ** 2
    gain = float(realised_gain(np.array(q), np.array(squared), problem.noise_var))
    assert gain == pytest.approx(gaussian_kl(one.posterior(), problem.prior), rel=1e-7, abs=1e-9)


@repeatable
@given(st.floats(1e-6, 1e6))
def test_expected_gain_is_the_predictive_mean_of_the_realised_gain(q: float) -> None:
    """The realised gain is linear in e^2, whose predictive mean is sigma^2 (1 + q)."""
    at_mean = float(realised_gain(np.array(q), np.array(1 + q), 1.0))
    assert at_mean == pytest.approx(float(expected_gain(np.array(q))), rel=1e-9, abs=1e-12)


@repeatable
@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1.0), st.floats(1e-6, 1e3))
def test_prior_averaged_reward_is_between_zero_and_twice_the_retrospective_gain(
    old: float, ratio: float, noise_var: float
) -> None:
    before, after, noise = np.array(old), np.array(old * ratio), np.array(noise_var)
    reward = float(expected_lpm_reward(before, after, noise))
    assert -1e-12 <= reward <= 2 * float(retrospective_gain(before, after)) + 1e-12


@repeatable
@given(st.floats(1e-3, 1e3), st.floats(1e-6, 100.0), st.floats(1e-6, 100.0))
def test_at_fixed_input_reward_and_realised_gain_are_ordered_oppositely(q: float, first: float, second: float) -> None:
    gains = realised_gain(np.array([q, q]), np.array([first, second]), 1.0)
    rewards = -np.log(np.array([first, second]))
    assert (gains[0] - gains[1]) * (rewards[0] - rewards[1]) <= 0.0


def test_repeated_input_pays_ever_less_like_one_over_two_n() -> None:
    gains = expected_gain(1 / (1 + np.arange(1, 1001)))
    assert np.all(np.diff(gains) < 0)
    assert 2 * 1000 * gains[-1] == pytest.approx(1.0, abs=2e-3)
