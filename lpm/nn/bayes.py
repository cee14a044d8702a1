"""Bayesian linear regression on random Fourier features, in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lpm.nn.buffers import fixed_sample
from lpm.nn.ridge import cholesky_with_jitter


def expected_gain(q: Tensor) -> Tensor:
    """Information that an observation with variance ratio q = xᵀSx/σ² will bring, in nats: ½ log(1 + q)."""
    return 0.5 * torch.log1p(q)


def realised_gain(q: Tensor, square: Tensor) -> Tensor:
    """KL of the posterior after an observation from the one before, in nats.

    `square` is the squared residual in units of the noise variance. Its expectation under the model is 1 + q, and
    then this is `expected_gain`.
    """
    return 0.5 * (torch.log1p(q) - q / (1 + q) + square * q / (1 + q).square())


class RandomFeatures(nn.Module):
    """Random Fourier features √(2/F)·cos(Wx/ℓ + b): the kernel is Gaussian with length scale ℓ."""

    weight: Tensor  # (F, inputs) directions in units of the length scale
    phase: Tensor  # (F,)
    scale: Tensor  # ℓ; 0 while it is not known

    def __init__(self, inputs: int, features: int, length_scale: float = 0.0, dtype: torch.dtype | None = None) -> None:
        """Build inside `seeded`."""
        super().__init__()
        self.register_buffer("weight", torch.randn(features, inputs, dtype=dtype))
        self.register_buffer("phase", 2 * math.pi * torch.rand(features, dtype=dtype))
        self.register_buffer("scale", torch.tensor(length_scale, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, F), of norm about 1."""
        angle = x.to(self.phase.dtype) @ (self.weight.T / self.scale.clamp_min(1e-12)) + self.phase
        return angle.cos_().mul_(math.sqrt(2 / len(self.phase)))


def median_distance(x: Tensor, most: int = 512) -> float:
    """The median distance between two of the rows, of which a sample of at most `most` is looked at.

    >>> median_distance(torch.tensor([[0.0], [1.0], [3.0]]))
    2.0
    """
    distances = torch.nn.functional.pdist(x[fixed_sample(len(x), most).to(x.device)].double())
    distances = distances[distances.isfinite()]
    middle = float(distances.median()) if len(distances) else 0.0
    return middle if middle > 0 else 1.0


class BayesianRegression(nn.Module):
    """Posterior of D independent linear regressions that share their features, noise and prior, in float64.

    The prior of each weight is N(0, 1/prior_precision), the noise N(0, noise²).
    """

    precision: Tensor  # (F, F)
    moment: Tensor  # (F, D) Xᵀy/σ²
    factor: Tensor  # (F, F) Cholesky factor of the precision
    mean: Tensor  # (F, D)

    def __init__(self, features: int, outputs: int, *, noise: float = 1.0, prior_precision: float = 1.0) -> None:
        super().__init__()
        self.noise = noise
        self.prior_precision = prior_precision
        eye = torch.eye(features, dtype=torch.float64)
        self.register_buffer("precision", prior_precision * eye)
        self.register_buffer("moment", torch.zeros(features, outputs, dtype=torch.float64))
        self.register_buffer("factor", math.sqrt(prior_precision) * eye)
        self.register_buffer("mean", torch.zeros(features, outputs, dtype=torch.float64))

    def ratio(self, x: Tensor) -> Tensor:
        """q = xᵀSx/σ² of each row (B, F): the variance of the prediction in units of the noise variance, (B,)."""
        half: Tensor = torch.linalg.solve_triangular(self.factor, x.T, upper=False)
        return half.square().sum(0) / self.noise**2

    def squares(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared residuals in units of the noise variance, (B, D)."""
        return (y - x @ self.mean).square() / self.noise**2

    @torch.no_grad()
    def add(self, x: Tensor, y: Tensor) -> None:
        """Condition on rows (B, F) and their targets (B, D); takes effect with `refresh`."""
        self.precision.addmm_(x.T, x, alpha=1 / self.noise**2)
        self.moment.addmm_(x.T, y, alpha=1 / self.noise**2)

    @torch.no_grad()
    def forget(self, kept: float) -> None:
        """Keep this share of the evidence: precision and moment shrink towards those of the prior."""
        self.precision.mul_(kept).diagonal().add_((1 - kept) * self.prior_precision)
        self.moment.mul_(kept)

    @torch.no_grad()
    def refresh(self) -> None:
        """Factor the precision, with as much jitter as it takes, and solve for the mean."""
        self.factor.copy_(_cholesky(self.precision))
        self.mean.copy_(torch.cholesky_solve(self.moment, self.factor))

    def log_determinant(self) -> Tensor:
        """log det of the precision at the last `refresh`, 0-d."""
        return 2 * self.factor.diagonal().log().sum()


def _cholesky(precision: Tensor) -> Tensor:
    factor = cholesky_with_jitter(precision)
    if factor is None:
        raise ArithmeticError("Bayesian regression: its precision matrix has no Cholesky factor, even with jitter")
    return factor
