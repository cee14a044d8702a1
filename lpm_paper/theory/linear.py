"""Bayesian linear regression with known noise variance, in closed form."""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from lpm_paper.theory.grid import FloatArray


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian over regression weights."""

    mean: FloatArray
    """Shape (k,)."""
    cov: FloatArray
    """Shape (k, k), positive definite."""


def gaussian_kl(p: Gaussian, q: Gaussian) -> float:
    """KL(p || q) by the generic formula."""
    k = len(p.mean)
    shift = q.mean - p.mean
    trace = float(np.trace(np.linalg.solve(q.cov, p.cov)))
    quadratic = float(shift @ np.linalg.solve(q.cov, shift))
    log_det = float(np.linalg.slogdet(q.cov)[1] - np.linalg.slogdet(p.cov)[1])
    return 0.5 * (trace + quadratic - k + log_det)


def realised_gain(q: FloatArray, squared_error: FloatArray, noise_var: FloatArray | float) -> FloatArray:
    """KL(posterior || prior) of one sample: q = x'Sx / sigma^2, e = residual of the prior mean."""
    return np.asarray(0.5 * (np.log1p(q) - q / (1 + q) + squared_error / noise_var * q / (1 + q) ** 2))


def expected_gain(q: FloatArray) -> FloatArray:
    """The mean of `realised_gain` over the predictive distribution: log(1 + q) / 2, whatever the outcome."""
    return np.asarray(0.5 * np.log1p(q))


@dataclass(frozen=True)
class LinearRegression:
    """Prior, inputs and targets of one regression problem with noise variance `noise_var`."""

    prior: Gaussian
    """Prior over the k weights."""
    x: FloatArray
    """Inputs, shape (n, k)."""
    y: FloatArray
    """Targets, shape (n,)."""
    noise_var: float
    """sigma^2, known."""

    @property
    def c_linear(self) -> float:
        """c' = n / (2 sigma^2): the likelihood is exp(-c' MSE)."""
        return len(self.y) / (2 * self.noise_var)

    def posterior(self) -> Gaussian:
        """The conjugate posterior."""
        precision = np.linalg.inv(self.prior.cov)
        cov = np.linalg.inv(precision + self.x.T @ self.x / self.noise_var)
        mean = cov @ (precision @ self.prior.mean + self.x.T @ self.y / self.noise_var)
        return Gaussian(mean, 0.5 * (cov + cov.T))

    def mle(self) -> FloatArray:
        """Least squares (of minimum norm when it is not unique)."""
        return np.asarray(np.linalg.lstsq(self.x, self.y, rcond=None)[0])

    def mse(self, theta: FloatArray) -> float:
        """Mean squared error of one weight vector."""
        return float(np.mean((self.y - self.x @ theta) ** 2))

    def expected_mse(self, belief: Gaussian) -> float:
        """E[MSE(theta)] for theta drawn from `belief`."""
        spread = np.einsum("ni,ij,nj->", self.x, belief.cov, self.x)
        return self.mse(belief.mean) + float(spread) / len(self.y)

    def expected_log_mse(self, belief: Gaussian) -> float:
        """E[log MSE(theta)] by one quadrature: E[log Q] = integral of (exp(-t) - E[exp(-tQ)]) dt / t.

        The Laplace transform of the quadratic form Q is known in closed form for a Gaussian, and t = exp(u)
        makes the integrand smooth and integrable at both ends.
        """
        values, vectors = np.linalg.eigh(self.x @ belief.cov @ self.x.T)
        offset = (vectors.T @ (self.y - self.x @ belief.mean)) ** 2
        scale = self.expected_mse(belief)
        values, offset = np.maximum(values, 0.0) / (scale * len(self.y)), offset / (scale * len(self.y))

        def integrand(u: float) -> float:
            t = np.exp(u)
            shrink = 1 + 2 * t * values
            transform = np.exp(-0.5 * np.sum(np.log(shrink)) - t * np.sum(offset / shrink))
            return float(np.exp(-t) - transform)

        area = sum(
            quad(integrand, low, low + 10.0, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for low in range(-40, 80, 10)
        )
        return float(np.log(scale) + area)

    def log_evidence(self) -> float:
        """log p(y)."""
        cov = self.noise_var * np.eye(len(self.y)) + self.x @ self.prior.cov @ self.x.T
        return float(multivariate_normal(self.x @ self.prior.mean, cov).logpdf(self.y))

    def expected_log_likelihood(self, belief: Gaussian) -> float:
        """E[l(theta)] for theta drawn from `belief`."""
        n = len(self.y)
        return float(-0.5 * n * np.log(2 * np.pi * self.noise_var) - self.c_linear * self.expected_mse(belief))

    def information_gain(self) -> float:
        """IG as KL(posterior || prior)."""
        return gaussian_kl(self.posterior(), self.prior)

    def information_gain_by_definition(self) -> float:
        """IG as E_posterior[l] - log p(y)."""
        return self.expected_log_likelihood(self.posterior()) - self.log_evidence()

    def reward_linear(self, theta_d: FloatArray) -> float:
        """r_lin = E_prior[MSE] - MSE(theta_D), the form for which Theorem 1 is exact at known sigma."""
        return self.expected_mse(self.prior) - self.mse(theta_d)

    def reward_log(self, theta_d: FloatArray) -> float:
        """The paper's r = E_prior[log MSE] - log MSE(theta_D)."""
        return self.expected_log_mse(self.prior) - float(np.log(self.mse(theta_d)))

    def optimism(self, theta_d: FloatArray) -> float:
        """l(theta_D) - E_posterior[l]; tr(XSX') / (2 sigma^2) at the posterior mean, hence never negative there."""
        return self.c_linear * (self.expected_mse(self.posterior()) - self.mse(theta_d))

    def identity_error(self, theta_d: FloatArray) -> float:
        """c' r_lin - [KL(post || prior) + KL(prior || post) + optimism]."""
        posterior = self.posterior()
        divergences = gaussian_kl(posterior, self.prior) + gaussian_kl(self.prior, posterior)
        return self.c_linear * self.reward_linear(theta_d) - divergences - self.optimism(theta_d)


def random_regression(rng: np.random.Generator, max_samples: int = 12, max_weights: int = 5) -> LinearRegression:
    """A random problem, with more or fewer samples than weights."""
    n, k = int(rng.integers(1, max_samples + 1)), int(rng.integers(1, max_weights + 1))
    root = rng.standard_normal((k, k))
    prior = Gaussian(rng.standard_normal(k), root @ root.T / k + 0.1 * np.eye(k))
    x = rng.standard_normal((n, k))
    noise_var = float(10.0 ** rng.uniform(-1.0, 1.0))
    y = x @ rng.multivariate_normal(prior.mean, prior.cov) + np.sqrt(noise_var) * rng.standard_normal(n)
    return LinearRegression(prior, x, y, noise_var)


def expected_lpm_reward(previous_var: FloatArray, current_var: FloatArray, noise_var: FloatArray) -> FloatArray:
    """Prior-averaged LPM reward with a perfect error model: log((sigma^2 + s_old) / (sigma^2 + s_new)).

    s is the epistemic variance x'Sx of the prediction before and after the last update.
    """
    return np.asarray(np.log((noise_var + previous_var) / (noise_var + current_var)))


def retrospective_gain(previous_var: FloatArray, current_var: FloatArray, outputs: int = 1) -> FloatArray:
    """Information the last update gave about f(x): (D/2) log(s_old / s_new)."""
    return np.asarray(0.5 * outputs * np.log(previous_var / current_var))
