"""Exact Bayes on a finite grid of parameters with log p(D | theta) = -c log MSE(theta) + const.

Everything is computed in log space and batched over leading axes, so that thousands of random models are
checked in one call. A parameter of zero prior mass is outside the support: it pads ragged batches and never
enters an expectation, a maximum or a divergence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def expectation(log_weights: FloatArray, values: FloatArray) -> FloatArray:
    """Expectation of `values` over the last axis; zero-mass entries contribute exactly zero."""
    weights = np.exp(log_weights)
    return np.asarray(np.sum(np.where(weights > 0.0, weights * values, 0.0), axis=-1))


def kl_divergence(log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """KL(p || q) over the last axis, straight from its definition; infinite where q misses mass of p."""
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        terms = np.where(p > 0.0, p * (log_p - log_q), 0.0)
    return np.asarray(np.sum(terms, axis=-1))


@dataclass(frozen=True)
class Grid:
    """A prior over K parameters, the log MSE of each on the data, and the surrogate's exponent."""

    log_prior: FloatArray
    """log p(theta), shape (..., K); minus infinity outside the support."""
    log_mse: FloatArray
    """log MSE(theta) on the data set, shape (..., K), finite."""
    c: FloatArray
    """Exponent c > 0, shape (...)."""

    @classmethod
    def from_prior(cls, prior: FloatArray | list[float], mse: FloatArray | list[float], c: float) -> Self:
        """One model from plain probabilities and mean squared errors."""
        p, m = np.asarray(prior, dtype=np.float64), np.asarray(mse, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return cls(np.log(p), np.log(m), np.full(p.shape[:-1], float(c)))

    @property
    def support(self) -> BoolArray:
        """Parameters with prior mass."""
        return np.isfinite(self.log_prior)

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """l(theta) = -c log MSE(theta), the constant dropped."""
        return -self.c[..., None] * self.log_mse

    @cached_property
    def log_evidence(self) -> FloatArray:
        """log p(D) up to the same constant."""
        return np.asarray(logsumexp(self.log_prior + self.log_likelihood, axis=-1))

    @cached_property
    def log_posterior(self) -> FloatArray:
        """log p(theta | D), normalised."""
        return self.log_prior + self.log_likelihood - self.log_evidence[..., None]

    @cached_property
    def information_gain(self) -> FloatArray:
        """IG as KL(posterior || prior)."""
        return kl_divergence(self.log_posterior, self.log_prior)

    @cached_property
    def information_gain_by_definition(self) -> FloatArray:
        """IG as E_posterior[l] - log p(D): the paper's Definition 1."""
        return expectation(self.log_posterior, self.log_likelihood) - self.log_evidence

    @cached_property
    def reverse_kl(self) -> FloatArray:
        """KL(prior || posterior)."""
        return kl_divergence(self.log_prior, self.log_posterior)

    def mle(self) -> IntArray:
        """Index of the likelihood maximiser within the support."""
        return np.asarray(np.argmax(np.where(self.support, self.log_likelihood, -np.inf), axis=-1))

    def map(self) -> IntArray:
        """Index of the posterior maximiser."""
        return np.asarray(np.argmax(self.log_posterior, axis=-1))

    def log_mse_at(self, index: IntArray | int) -> FloatArray:
        """log MSE of the chosen parameter, to be passed as theta_D."""
        picked = np.take_along_axis(self.log_mse, np.asarray(index)[..., None], axis=-1)
        return np.asarray(picked[..., 0])

    def reward(self, log_mse_d: FloatArray | float) -> FloatArray:
        """The paper's r = E_prior[log MSE] - log MSE(theta_D)."""
        return np.asarray(expectation(self.log_prior, self.log_mse) - log_mse_d)

    def pointwise_reward(self, log_mse_d: FloatArray | float) -> FloatArray:
        """The paper's r_point(theta) = log MSE(theta) - log MSE(theta_D), for every theta."""
        return np.asarray(self.log_mse - np.asarray(log_mse_d)[..., None])

    def optimism(self, log_mse_d: FloatArray | float) -> FloatArray:
        """l(theta_D) - E_posterior[l]; Theorem 1 requires it to be non-negative."""
        return np.asarray(-self.c * log_mse_d - expectation(self.log_posterior, self.log_likelihood))


@dataclass(frozen=True)
class Estimate:
    """A point estimate theta_D with its error on the data."""

    theta: float
    """The parameter; the posterior mean may fall between grid points."""
    log_mse: float
    """log MSE(theta)."""


@dataclass(frozen=True)
class RegressionGrid:
    """A scalar parameter on a grid, a predictor f(theta, x), and a data set: the grid model with coordinates."""

    theta: FloatArray
    """Grid of parameters, shape (K,)."""
    prior: FloatArray
    """Prior probabilities, shape (K,)."""
    x: FloatArray
    """Inputs, shape (n,)."""
    y: FloatArray
    """Targets, shape (n,)."""
    predict: Callable[[FloatArray, FloatArray], FloatArray]
    """f(theta, x): broadcasts theta of shape (K, 1) against x of shape (n,)."""

    def mse(self, theta: FloatArray) -> FloatArray:
        """Mean squared error on the data for each theta."""
        residual = self.y - self.predict(np.asarray(theta)[:, None], self.x)
        return np.asarray(np.mean(residual**2, axis=-1))

    def grid(self, c: float | None = None) -> Grid:
        """The grid model; c defaults to n/2, the exponent left when sigma is integrated out."""
        return Grid.from_prior(self.prior, self.mse(self.theta), len(self.y) / 2 if c is None else c)

    def estimates(self, c: float | None = None) -> dict[str, Estimate]:
        """theta_D as MLE (on the grid), MAP and posterior mean."""
        grid = self.grid(c)
        mean = float(expectation(grid.log_posterior, self.theta))
        points: dict[str, Any] = {"mle": self.theta[grid.mle()], "map": self.theta[grid.map()], "posterior mean": mean}
        # A posterior mean may fit the data exactly; its log MSE is then minus infinity, as it should be.
        with np.errstate(divide="ignore"):
            return {n: Estimate(float(t), float(np.log(self.mse(np.array([t]))[0]))) for n, t in points.items()}
