"""An error model that returns to its prior where it has no data: Bayesian regression on random Fourier features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lpm.nn.buffers import fixed_sample

JITTER = 1e-8
ATTEMPTS = 12  # with ten times as much jitter each


class AnchoredErrorModel(nn.Module):
    """g(x) = m₀ + w · φ(x), with the posterior mean of w in closed form.

    φ are random Fourier features of a Gaussian kernel, so g is a Gaussian-process regression in F dimensions: near
    data it follows the data, further away than the length scale it goes back to m₀. The length scale is a multiple of
    the median distance between the inputs of the first fit. Old data fades by `forgetting` an update: both the
    precision and the moment shrink towards those of the prior. Everything is a buffer; there is no optimiser.
    """

    weight: Tensor  # (F, inputs) directions in units of the length scale
    phase: Tensor  # (F,)
    scale: Tensor  # the length scale; 0 before the first fit
    anchor: Tensor  # m₀
    precision: Tensor  # (F, F) of w, in units of the noise precision
    moment: Tensor  # (F,)
    mean: Tensor  # (F,) of w
    rows: Tensor  # how many rows the caller had seen at the last fit

    def __init__(
        self, inputs: int, *, features: int = 512, length_scale: float, forgetting: float, ridge: float
    ) -> None:
        """Build inside `seeded`. `ridge` is the noise variance over the variance of g's prior."""
        super().__init__()
        self.length_scale, self.forgetting, self.ridge = length_scale, forgetting, ridge
        self.register_buffer("weight", torch.randn(features, inputs))
        self.register_buffer("phase", 2 * math.pi * torch.rand(features))
        self.register_buffer("scale", torch.zeros(()))
        self.register_buffer("anchor", torch.zeros(()))
        self.register_buffer("precision", ridge * torch.eye(features, dtype=torch.float64))
        self.register_buffer("moment", torch.zeros(features, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64))

    def features(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, F), of norm about 1."""
        angle = torch.addmm(self.phase, x, self.weight.T / self.scale.clamp_min(1e-12))
        return angle.cos_().mul_(math.sqrt(2 / len(self.phase)))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, 1); m₀ everywhere before the first fit."""
        if not bool(self.scale > 0):
            return self.anchor.expand(len(x), 1)
        return (self.anchor + self.features(x) @ self.mean).unsqueeze(1)

    @torch.no_grad()
    def fit(self, x: Tensor, errors: Tensor) -> Tensor:
        """Forget a little, then condition on rows (B, inputs) and their errors (B,); the squared residual before.

        Rows without finite features or error, as a diverged encoder makes them, are left out.
        """
        if not bool(self.scale > 0):
            self.scale.fill_(self.length_scale * median_distance(x))
        phi = self.features(x)
        sound = phi.isfinite().all(1) & errors.isfinite()
        phi, difference = phi[sound], errors[sound] - self.anchor
        loss = (difference - phi @ self.mean).square().mean()
        kept = self.forgetting
        self.precision.mul_(kept).diagonal().add_((1 - kept) * self.ridge)
        self.precision.add_((phi.T @ phi).double())
        self.moment.mul_(kept).add_((phi.T @ difference).double())
        self.mean.copy_(_solve(self.precision, self.moment))
        return loss


def median_distance(x: Tensor, most: int = 512) -> float:
    """The median distance between two of the rows, of which a sample of at most `most` is looked at.

    >>> median_distance(torch.tensor([[0.0], [1.0], [3.0]]))
    2.0
    """
    distances = torch.nn.functional.pdist(x[fixed_sample(len(x), most).to(x.device)].double())
    distances = distances[distances.isfinite()]
    middle = float(distances.median()) if len(distances) else 0.0
    return middle if middle > 0 else 1.0


def _solve(precision: Tensor, moment: Tensor) -> Tensor:
    """Precision⁻¹ moment by Cholesky, with as much jitter as it takes."""
    factor, failed = torch.linalg.cholesky_ex(precision)
    jitter = JITTER * float(precision.diagonal().mean())
    for _ in range(ATTEMPTS):
        if not bool(failed):
            break
        raised = precision.clone()
        raised.diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(raised)
        jitter *= 10
    if bool(failed):
        raise ArithmeticError("anchored error model: its precision matrix has no Cholesky factor, even with jitter")
    return torch.cholesky_solve(moment.unsqueeze(1), factor).squeeze(1)
