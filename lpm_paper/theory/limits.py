"""Limits of the theorems, as explicit models. They are true statements about the theory: nothing to be fixed.

The last is that the theorem averages over parameters, the error model over next observations: two numbers (`compare`).
One cell with scalar outcome o' = mu + sigma z. The belief about mu is Gaussian, the data set is given. The theorem's
reward is E over theta ~ prior of log MSE on the data, minus log MSE(theta_D) on the same data. The algorithm's reward,
with the best error model there can be, is E over fresh o' of the old model's log error minus that of the new model.
"""

from dataclasses import dataclass

import numpy as np

from lpm_paper.theory.grid import FloatArray, Grid, RegressionGrid
from lpm_paper.theory.linear import Gaussian, LinearRegression
from lpm_paper.theory.noise import bias_payout, log_error_std
from lpm_paper.theory.theorems import Theorem1, Theorem2, theorem1, theorem2


def _uniform(mse: list[float], c: float = 1.0) -> Grid:
    return Grid.from_prior([1 / len(mse)] * len(mse), mse, c)


def _at_mle(grid: Grid) -> Theorem1:
    return theorem1(grid, grid.log_mse_at(grid.mle()))


def not_monotone() -> tuple[Theorem1, Theorem1]:
    """More information gain, less reward: two uniform three-point models with theta_D = MLE and c = 1."""
    return _at_mle(_uniform([1.0, 100.0, 100.0])), _at_mle(_uniform([1.0, 1.0, 1e6]))


def unbounded_reward() -> Theorem1:
    """IG is at most log K under a uniform prior; r grows without limit. Two points, MSE ratio 1e12."""
    return _at_mle(_uniform([1.0, 1e12]))


def estimate_off_support() -> Theorem1:
    """IG = 0 and r > 0: the estimate has no prior mass (MSE 2 on the support, 0.5 at theta_D)."""
    return theorem1(_uniform([2.0, 2.0]), float(np.log(0.5)))


def constant_likelihood() -> Theorem1:
    """r = 0 and IG = 0 with a constant likelihood: the case the identifiability clause would exclude."""
    return _at_mle(_uniform([3.0, 3.0, 3.0], c=2.0))


def map_breaks_bound() -> Theorem1:
    """theta_D = MAP: r is negative while IG is positive."""
    grid = Grid.from_prior([0.9, 0.05, 0.05], [3.0, 1.0, 1.0], 1.0)
    return theorem1(grid, grid.log_mse_at(grid.map()))


def posterior_mean_breaks_bound() -> Theorem1:
    """theta_D = posterior mean in a *linear* model: it falls between two modes, where log MSE is large.

    The likelihood -c log MSE is concave only near its peak, so Jensen's inequality does not help; compare
    `LinearRegression`, where the Gaussian likelihood is concave and the posterior mean is always admissible.
    """
    x = np.array([1.0])
    model = RegressionGrid(np.array([0.001, 100.0]), np.array([1e-5, 1 - 1e-5]), x, np.zeros(1), np.multiply)
    return theorem1(model.grid(0.5), model.estimates(0.5)["posterior mean"].log_mse)


def theorem2_with_mle() -> Theorem2:
    """theta_D = MLE: no theta has a negative pointwise reward, but the MLE itself scores 0 < IG / c."""
    grid = _uniform([1.0, 2.0, 5.0], c=2.0)
    return theorem2(grid, grid.log_mse_at(grid.mle()))


def theorem2_without_mle() -> tuple[Theorem1, Theorem2]:
    """theta_D admissible but not the MLE: the pointwise reward of the MLE is negative while IG > 0."""
    grid = Grid.from_prior([0.1, 0.1, 0.8], [1.0, 1.1, 4.0], 1.0)
    return theorem1(grid, grid.log_mse_at(1)), theorem2(grid, grid.log_mse_at(1))


def sample_size_is_invisible(samples: int) -> Theorem1:
    """The same MSE curve from n samples, c = n/2: IG grows with n, r does not move."""
    return _at_mle(_uniform([1.0, 1.5, 2.0], c=samples / 2))


def weak_data(strength: float) -> Theorem1:
    """MSE^strength with strength -> 0: IG vanishes quadratically, r only linearly, so c r / IG diverges."""
    profile = np.array([1.0, 2.0, 5.0]) ** strength
    return _at_mle(_uniform(profile.tolist()))


def fixed_sigma(outlier: float) -> tuple[float, float]:
    """(r_log, IG / c) for a Gaussian likelihood of *fixed* sigma = 1 and targets (-A, A), c = n/2 = 1.

    The residual A cannot be explained, so log MSE hardly depends on theta and r falls like 1/A^2; IG does not
    depend on A. The log-MSE theorem needs sigma integrated out.
    """
    prior, y = Gaussian(np.zeros(1), np.eye(1)), np.array([-outlier, outlier])
    model = LinearRegression(prior, np.ones((2, 1)), y, noise_var=1.0)
    return model.reward_log(model.mle()), model.information_gain()


@dataclass(frozen=True)
class Mismatch:
    """The two rewards for one data set."""

    gain: float
    """IG of the data about the cell's mean."""
    theorem_reward: float
    """E over parameters, theta_D = MLE on the grid."""
    algorithm_reward: float
    """Mean over fresh o': E[eps_old] - E[eps_new], f = posterior mean before and after the data."""
    algorithm_std: float
    """Standard deviation of a single algorithmic reward when the new model is right: sqrt(psi1(1/2))."""
    bound: float
    """IG / c, which the theorem promises as a lower bound for its own reward."""


def constant_prediction(theta: FloatArray, x: FloatArray) -> FloatArray:
    """f(theta, x) = theta: the tabular model of one cell."""
    return np.broadcast_to(theta, np.broadcast_shapes(theta.shape, x.shape)).astype(np.float64)


def cell(theta: FloatArray, prior: FloatArray, outcomes: FloatArray) -> RegressionGrid:
    """A one-cell tabular model with a grid prior over its mean."""
    return RegressionGrid(theta, prior, np.zeros(len(outcomes)), outcomes, constant_prediction)


def bell_cell(outcomes: FloatArray) -> RegressionGrid:
    """A cell whose grid prior is bell-shaped around 0."""
    theta = np.linspace(-3.0, 3.0, 61)
    bell = np.exp(-0.5 * theta**2)
    return cell(theta, bell / bell.sum(), outcomes)


def compare(model: RegressionGrid, truth: float, sigma: float) -> Mismatch:
    """Both rewards for the data of `model` when fresh outcomes are N(truth, sigma^2)."""
    grid = model.grid()
    estimates = model.estimates()
    terms = theorem1(grid, estimates["mle"].log_mse)
    means = float(model.prior @ model.theta), estimates["posterior mean"].theta
    before, after = (bias_payout(1, ((mean - truth) / sigma) ** 2) for mean in means)
    bound = float(terms.gain / terms.c)
    return Mismatch(float(terms.gain), float(terms.reward), before - after, log_error_std(1), bound)


def demo(kind: str) -> Mismatch:
    """Three fixed cells: `learning` (prior mean wrong), `lucky` (prior mean right, data misleading), `known`."""
    misleading = np.array([0.3, 1.9, 1.2, 0.6])
    if kind == "learning":
        return compare(bell_cell(np.array([1.1, 2.9, 2.3, 1.7])), truth=2.0, sigma=1.0)
    if kind == "lucky":
        return compare(bell_cell(misleading), truth=0.0, sigma=1.0)
    if kind == "known":
        return compare(cell(np.zeros(1), np.ones(1), misleading), truth=0.0, sigma=1.0)
    raise ValueError(f"kind must be 'learning', 'lucky' or 'known', got {kind!r}")
