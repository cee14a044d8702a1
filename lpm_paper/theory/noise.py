"""Rewards of LPM: for pure Gaussian noise, in closed form, and for one cell of a table with a literal FIFO queue."""

from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.special import digamma, polygamma
from scipy.stats import poisson

from lpm_paper.theory.grid import FloatArray

TABLE_DIMS = (1, 2, 3, 4, 8, 64, 784)


def log_error_mean(dim: int) -> float:
    """E[log(MSE / sigma^2)] of a perfect mean prediction: psi(D/2) - log(D/2), below zero by Jensen."""
    return float(digamma(dim / 2) - np.log(dim / 2))


def log_error_std(dim: int) -> float:
    """Standard deviation of log MSE: sqrt(psi1(D/2))."""
    return float(np.sqrt(polygamma(1, dim / 2)))


def log_reward_std(dim: int, queue_samples: float) -> float:
    """Standard deviation of g - eps when g is the mean of `queue_samples` independent errors."""
    return log_error_std(dim) * float(np.sqrt(1 + 1 / queue_samples))


def exp_form_bias(dim: int) -> float:
    """Mean of exp(g) - MSE over sigma^2 with a perfect g: exp(E log) - E < 0, a penalty for noise."""
    return float(np.exp(log_error_mean(dim)) - 1.0)


class NoiseMoments(NamedTuple):
    """Monte Carlo moments, each with its standard error."""

    log_mean: tuple[float, float]
    """Mean of log(MSE / sigma^2)."""
    log_std: tuple[float, float]
    """Standard deviation of log(MSE / sigma^2); its error is from the fourth moment."""
    exp_bias: tuple[float, float]
    """exp(mean log) - mean MSE; its error is by the delta method."""


def simulate_noise(rng: np.random.Generator, dim: int, draws: int) -> NoiseMoments:
    """Sample MSE / sigma^2 = chi2_D / D and estimate the three columns of the table."""
    mse = rng.chisquare(dim, size=draws) / dim
    logs = np.log(mse)
    mean, std = float(logs.mean()), float(logs.std())
    fourth = float(np.mean((logs - mean) ** 4))
    bias_terms = np.exp(mean) * (logs - mean) - mse
    std_error = float(np.sqrt(max(fourth - std**4, 0.0) / draws) / (2 * std))
    bias = float(np.exp(mean) - mse.mean()), float(bias_terms.std() / np.sqrt(draws))
    return NoiseMoments((mean, std / np.sqrt(draws)), (std, std_error), bias)


def simulate_reward_std(rng: np.random.Generator, dim: int, queue_samples: int, draws: int) -> float:
    """Standard deviation of g - eps over fresh queues and fresh observations."""
    queue = np.log(rng.chisquare(dim, size=(draws, queue_samples)) / dim).mean(axis=1)
    return float(np.std(queue - np.log(rng.chisquare(dim, size=draws) / dim)))


def uniform_square_moments() -> tuple[float, float, float]:
    """(E log MSE, std, exp-form bias) for noise uniform on [-1, 1]^2 and prediction 0.

    The mean is pi/2 - 3 exactly; the second moment is one integral in polar coordinates. With
    L = log(r^2 / 2) and R = 1 / cos(phi), the radial part of E[L^2] is closed: R^2 (A^2 - 2A + 2) / 2,
    A = log(R^2 / 2).
    """
    mean = np.pi / 2 - 3.0

    def radial(phi: float) -> float:
        reach = 1.0 / np.cos(phi)
        top = np.log(reach**2 / 2)
        return float(0.5 * reach**2 * (top**2 - 2 * top + 2))

    second = 2 * quad(radial, 0.0, np.pi / 4, epsabs=1e-13, epsrel=1e-12)[0]
    return mean, float(np.sqrt(second - mean**2)), float(np.exp(mean) - 1 / 3)


def bias_payout(dim: int, noncentrality: float) -> float:
    """E[log MSE] with a biased prediction minus E[log MSE] with the right mean.

    The biased error is sigma^2/D times a noncentral chi-square with lambda = D b^2 / sigma^2 (b^2 the mean square
    bias), a Poisson mixture of central ones: the difference is E[psi(D/2 + J)] - psi(D/2), J ~ Poisson(lambda/2).
    This is LPM's total reward while f learns the mean of a noisy transition.
    """
    rate = noncentrality / 2
    reach = 12 * np.sqrt(rate) + 40
    counts = np.arange(max(0, int(rate - reach)), int(rate + reach) + 1)
    weights = poisson.pmf(counts, rate)
    return float(weights @ digamma(dim / 2 + counts) - digamma(dim / 2))


def bias_payout_by_integral(dim: int, noncentrality: float) -> float:
    """The same as `bias_payout` by an independent route.

    E[log Q] = integral of (exp(-t) - E[exp(-tQ)]) dt / t with 1 - u = 1 / (1 + 2t) gives
    integral over u in (0, 1) of (1 - u)^(D/2 - 1) (1 - exp(-lambda u / 2)) / u. With 1 - u = w^2 the endpoint
    singularity of D = 1 is gone.
    """

    def integrand(w: float) -> float:
        u = 1 - w * w
        tail = noncentrality / 2 if u < 1e-12 else -np.expm1(-noncentrality * u / 2) / u
        return float(2 * w ** (dim - 1) * tail)

    return float(quad(integrand, 0.0, 1.0, epsabs=1e-13, epsrel=1e-11, limit=400)[0])


class BiasPayout:
    """`bias_payout` for whole arrays: an interpolant up to lambda = 1e4, the asymptotic series above it."""

    _LIMIT = 1.0e4

    def __init__(self, dim: int) -> None:
        self._dim = dim
        knots = np.linspace(0.0, np.log1p(self._LIMIT), 300)
        values = np.array([bias_payout(dim, float(np.expm1(k))) for k in knots])
        self._spline = CubicSpline(knots, values)

    def __call__(self, noncentrality: FloatArray) -> FloatArray:
        """The payout for each noncentrality."""
        lam = np.asarray(noncentrality, dtype=np.float64)
        inside = self._spline(np.log1p(np.minimum(lam, self._LIMIT)))
        # E[log chi2_D(lambda)] = log lambda + (D - 2)/lambda + O(1/lambda^2), relative to log 2 + psi(D/2).
        large = np.maximum(lam, self._LIMIT)
        outside = np.log(large / 2) + (self._dim - 2) / large - digamma(self._dim / 2)
        return np.asarray(np.where(lam <= self._LIMIT, inside, outside))


def samples_to_detect(progress: float, std: float) -> float:
    """Samples needed for the mean of n rewards to stand one standard error above zero: (s / delta)^2."""
    return (std / progress) ** 2


def mean_lag(capacity: int, per_cycle: int) -> float:
    """Mean age, in model updates, of the errors in a full FIFO queue when g is refitted.

    With K = capacity / per_cycle and m = floor(K) full cycles, the ages are 1..m with weight 1/K each and m + 1
    with the rest: (m + 1)(1 - m / (2K)). It is 1 for K <= 1 and (K + 1)/2 for integer K only.
    """
    versions = capacity / per_cycle
    full = capacity // per_cycle
    return (full + 1) * (1 - full / (2 * versions))


def tabular_rewards(errors: FloatArray, capacity: int, per_cycle: int, initial: float = 0.0) -> FloatArray:
    """LPM rewards per cycle for a cell whose log error during cycle tau is `errors[tau]`.

    Each cycle pushes `per_cycle` copies of its error, rewards them with the present g, then sets g to the
    mean of the queue. `initial` is g before its first update.
    """
    queue: deque[float] = deque(maxlen=capacity)
    error_model = initial
    rewards = np.empty(len(errors))
    for cycle, error in enumerate(errors):
        queue.extend([float(error)] * per_cycle)
        rewards[cycle] = error_model - error
        error_model = float(np.mean(queue))
    return rewards


def geometric_errors(factor: float, cycles: int, floor: float = 0.0) -> FloatArray:
    """log(MSE + floor) for MSE = 1, factor, factor^2, ..."""
    return np.asarray(np.log(factor ** np.arange(cycles, dtype=np.float64) + floor))
