"""Why log MSE: a Gaussian likelihood with sigma^2 integrated out under the Jeffreys prior d(sigma^2)/sigma^2."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

from lpm.theory._types import FloatArray
from lpm.theory.grid import RegressionGrid, kl_divergence


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
