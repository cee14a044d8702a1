"""The theorem averages over parameters, the error model averages over next observations: two numbers.

One cell with scalar outcome o' = mu + sigma z. The belief about mu is Gaussian, the data set is given. The
theorem's reward is E over theta ~ prior of log MSE on the data, minus log MSE(theta_D) on the same data. The
algorithm's reward, with the best error model there can be, is E over fresh o' of the old model's log error minus
that of the new model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpm.theory._types import FloatArray
from lpm.theory.grid import RegressionGrid
from lpm.theory.noise import bias_payout, log_error_std
from lpm.theory.theorems import theorem1


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


def compare(model: RegressionGrid, truth: float, sigma: float) -> Mismatch:
    """Both rewards for the data of `model` when fresh outcomes are N(truth, sigma^2)."""
    grid = model.grid()
    estimates = model.estimates()
    terms = theorem1(grid, estimates["mle"].log_mse)
    old = float(model.prior @ model.theta)
    new = estimates["posterior mean"].theta
    return Mismatch(
        gain=float(terms.gain),
        theorem_reward=float(terms.reward),
        algorithm_reward=bias_payout(1, ((old - truth) / sigma) ** 2) - bias_payout(1, ((new - truth) / sigma) ** 2),
        algorithm_std=log_error_std(1),
        bound=float(terms.gain / terms.c),
    )


def demo(kind: str) -> Mismatch:
    """Three fixed cells: `learning` (prior mean wrong), `lucky` (prior mean right, data misleading), `known`."""
    theta = np.linspace(-3.0, 3.0, 61)
    bell = np.exp(-0.5 * theta**2)
    prior = bell / bell.sum()
    if kind == "learning":
        return compare(cell(theta, prior, np.array([1.1, 2.9, 2.3, 1.7])), truth=2.0, sigma=1.0)
    if kind == "lucky":
        return compare(cell(theta, prior, np.array([0.3, 1.9, 1.2, 0.6])), truth=0.0, sigma=1.0)
    if kind == "known":
        return compare(cell(np.zeros(1), np.ones(1), np.array([0.3, 1.9, 1.2, 0.6])), truth=0.0, sigma=1.0)
    raise ValueError(f"kind must be 'learning', 'lucky' or 'known', got {kind!r}")
