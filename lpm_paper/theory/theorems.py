"""The paper's two theorems as exact numbers, the identity that explains the first, and why the error is a log MSE."""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

from lpm_paper.theory.grid import BoolArray, FloatArray, Grid, RegressionGrid, expectation, kl_divergence


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
    """l(theta_D) - E_post[l]; theta_D is admissible, as the theorem asks, when it is not negative."""
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


# Why log MSE: a Gaussian likelihood with sigma^2 integrated out under the Jeffreys prior d(sigma^2)/sigma^2.


def jeffreys_log_marginal(n: int, mse: float) -> float:
    """log of the integral of v^(-n/2) exp(-n MSE / (2v)) dv / v by quadrature; (2 pi)^(-n/2) is dropped.

    With u = log(v / MSE) the integrand is exp(-n/2 (u + exp(-u))) times MSE^(-n/2). It peaks at u = 0, so it is
    integrated relative to its peak over the range where it matters.
    """
    half = n / 2

    def relative(u: float) -> float:
        return float(np.exp(-half * (u + np.exp(-u) - 1.0)))

    reach = 60.0 / min(half, 1.0)
    area = quad(relative, -10.0, 0.0, epsabs=0.0, epsrel=1e-12, limit=200)[0]
    area += quad(relative, 0.0, reach, epsabs=0.0, epsrel=1e-12, limit=200)[0]
    return float(np.log(area) - half - half * np.log(mse))


def jeffreys_constant(n: int) -> float:
    """The closed form of log marginal + (n/2) log MSE: log Gamma(n/2) - (n/2) log(n/2)."""
    return float(gammaln(n / 2) - (n / 2) * np.log(n / 2))


def joint_information_gain(model: RegressionGrid, log_variance: FloatArray) -> float:
    """IG about theta from the joint grid over (theta, log sigma^2), the variance summed out numerically.

    A uniform grid in log sigma^2 is the Jeffreys prior. Nothing here uses the log-MSE surrogate, so agreement
    with `RegressionGrid.grid()` is a test of it.
    """
    n = len(model.y)
    variance = np.exp(log_variance)
    exponent = -0.5 * n * (log_variance + model.mse(model.theta)[:, None] / variance)
    log_likelihood = logsumexp(exponent, axis=1)
    with np.errstate(divide="ignore"):
        log_prior = np.log(model.prior)
    log_joint = log_prior + log_likelihood
    return float(kl_divergence(log_joint - logsumexp(log_joint), log_prior))
