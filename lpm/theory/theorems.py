"""The paper's two theorems as exact numbers, and the identity that explains the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from lpm.theory._types import BoolArray, FloatArray
from lpm.theory.grid import Grid, expectation


@dataclass(frozen=True)
class Theorem1:
    """Both sides of c r = KL(post || prior) + KL(prior || post) + optimism, and of the bound r >= IG / c."""

    reward: FloatArray
    """r = E_prior[log MSE] - log MSE(theta_D)."""
    gain: FloatArray
    """IG = KL(post || prior)."""
    reverse_kl: FloatArray
    """KL(prior || post)."""
    optimism: FloatArray
    """l(theta_D) - E_post[l]."""
    c: FloatArray
    """Exponent of the surrogate."""

    @property
    def identity_error(self) -> FloatArray:
        """Left side minus right side of the identity."""
        return self.c * self.reward - (self.gain + self.reverse_kl + self.optimism)

    @property
    def slack(self) -> FloatArray:
        """c r - IG: non-negative exactly when the bound holds."""
        return self.c * self.reward - self.gain

    @property
    def admissible(self) -> BoolArray:
        """Whether theta_D meets the theorem's condition l(theta_D) >= E_post[l]."""
        return self.optimism >= 0.0

    @property
    def bound_condition(self) -> BoolArray:
        """The exact condition for r >= IG / c: optimism >= -KL(prior || post). Weaker than the theorem's."""
        return self.optimism >= -self.reverse_kl


def theorem1(grid: Grid, log_mse_d: FloatArray | float) -> Theorem1:
    """Every term of Theorem 1 for theta_D with the given log MSE."""
    return Theorem1(
        reward=grid.reward(log_mse_d),
        gain=grid.information_gain,
        reverse_kl=grid.reverse_kl,
        optimism=grid.optimism(log_mse_d),
        c=grid.c,
    )


@dataclass(frozen=True)
class Theorem2:
    """Expectation-based against pointwise reward for one theta_D."""

    reward: FloatArray
    """r_exp."""
    pointwise: FloatArray
    """r_point for every theta, shape (..., K)."""
    gain: FloatArray
    """IG."""
    pointwise_mean: FloatArray
    """E_prior[r_point]; equals r_exp, so the pointwise reward is noisier but not biased."""


def theorem2(grid: Grid, log_mse_d: FloatArray | float) -> Theorem2:
    """Both rewards of Theorem 2."""
    pointwise = grid.pointwise_reward(log_mse_d)
    return Theorem2(
        reward=grid.reward(log_mse_d),
        pointwise=pointwise,
        gain=grid.information_gain,
        pointwise_mean=expectation(grid.log_prior, pointwise),
    )


def random_grids(rng: np.random.Generator, count: int, max_points: int = 40) -> Grid:
    """`count` random models: 2 to `max_points` points, uneven priors, MSE over many decades, c in [0.05, 50]."""
    points = rng.integers(2, max_points + 1, size=count)
    inside = np.arange(max_points) < points[:, None]
    spread = rng.uniform(0.0, 3.0, size=(count, 1))
    log_weight = np.where(inside, spread * rng.standard_normal((count, max_points)), -np.inf)
    scale = 10.0 ** rng.uniform(-3.0, 1.0, size=(count, 1))
    return Grid(
        log_prior=log_weight - logsumexp(log_weight, axis=-1, keepdims=True),
        log_mse=scale * rng.standard_normal((count, max_points)),
        c=10.0 ** rng.uniform(np.log10(0.05), np.log10(50.0), size=count),
    )


def random_member(grid: Grid, rng: np.random.Generator) -> FloatArray:
    """log MSE of a theta_D drawn from the prior: usually neither MLE nor admissible."""
    gumbel = rng.gumbel(size=grid.log_prior.shape)
    return grid.log_mse_at(np.argmax(grid.log_prior + gumbel, axis=-1))
