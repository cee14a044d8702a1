"""Exact Bayesian linear regression on fixed random features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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
    """Random Fourier features √(2/F)·cos(Wx + b): the kernel is Gaussian with the given length scale."""

    weight: Tensor
    phase: Tensor

    def __init__(self, inputs: int, features: int, length_scale: float) -> None:
        """Build inside `seeded`."""
        super().__init__()
        self.register_buffer("weight", torch.randn(features, inputs, dtype=torch.float64) / length_scale)
        self.register_buffer("phase", 2 * math.pi * torch.rand(features, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, features) in float64, of norm about 1."""
        angle = x.double() @ self.weight.T + self.phase
        return math.sqrt(2 / self.weight.shape[0]) * torch.cos(angle)


class BayesianRegression(nn.Module):
    """Posterior of D independent linear regressions that share their features, noise and prior, in float64.

    The prior of each weight is N(0, prior²), the noise N(0, noise²).
    """

    precision: Tensor  # (F, F)
    moment: Tensor  # (F, D) Xᵀy/σ²
    factor: Tensor  # (F, F) Cholesky factor of the precision
    mean: Tensor  # (F, D)

    def __init__(self, features: int, outputs: int, *, noise: float = 1.0, prior: float = 1.0) -> None:
        super().__init__()
        self.noise = noise
        eye = torch.eye(features, dtype=torch.float64)
        self.register_buffer("precision", eye / prior**2)
        self.register_buffer("moment", torch.zeros(features, outputs, dtype=torch.float64))
        self.register_buffer("factor", eye / prior)
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
    def refresh(self) -> None:
        """Factor the precision and solve for the mean."""
        self.factor.copy_(torch.linalg.cholesky(self.precision))
        self.mean.copy_(torch.cholesky_solve(self.moment, self.factor))

    def log_determinant(self) -> Tensor:
        """log det of the precision at the last `refresh`, 0-d."""
        return 2 * self.factor.diagonal().log().sum()
