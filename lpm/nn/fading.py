"""Covariances of rows that fade with age, and units and weights that follow from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

OUTLIER = 9.0
"""Multiples of the typical squared size beyond which a state or a step counts no more: three standard deviations."""
STILL = 1e-6
"""Of the mean squared step: less than this is standing still."""


class FadingCovariance(nn.Module):
    """Covariance of rows that fade with age, in float64. Age is counted in weight: what has none fades nothing."""

    total: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, width: int, horizon: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("products", torch.zeros(width, width, dtype=torch.float64))

    def add(self, rows: Tensor, weight: Tensor, *, centred: bool = True) -> None:
        """Take in rows (B, D) by their weights (B,). Not `centred`: the second moment about 0 is meant."""
        rows, weight = rows.double(), weight.double()
        weighted = rows * weight.unsqueeze(1)
        sums = weighted.sum(0) if centred else torch.zeros_like(self.sums)
        added = weight.sum(), sums, weighted.T @ rows
        keep = math.exp(-float(added[0]) / self.horizon)
        for total, new in zip((self.total, self.sums, self.products), added, strict=True):
            total.mul_(keep).add_(new)

    @property
    def mean(self) -> Tensor:
        """(D,)."""
        return self.sums / self.total.clamp_min(1e-9)

    def matrix(self) -> Tensor:
        """(D, D)."""
        return self.products / self.total.clamp_min(1e-9) - torch.outer(self.mean, self.mean)


def inverse_root(matrix: Tensor, ridge: float) -> Tensor:
    """(M + ridge · mean diagonal)^(−½), symmetric: features in units of `matrix`, mixed as little as possible."""
    size = ridge * matrix.diagonal().mean().clamp_min(1e-12)
    values, vectors = torch.linalg.eigh(
        matrix + size * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    )
    root: Tensor = (vectors * values.clamp_min(size).rsqrt()) @ vectors.T
    return root


def influence(rows: Tensor, typical: Tensor) -> Tensor:
    """Huber's weights min(1, OUTLIER · m / size²): no row (B, D) counts for more than OUTLIER of typical size² m.

    >>> influence(torch.tensor([[0.0], [3.0], [30.0]]), torch.tensor(1.0)).tolist()
    [1.0, 1.0, 0.009999999776482582]
    """
    return (OUTLIER * typical / rows.square().sum(1).clamp_min(1e-30)).clamp_max(1)


def typical_square(rows: Tensor) -> Tensor:
    """Median squared size of the rows (B, D) that are not 0: an agent that mostly stands still takes steps too."""
    squares = rows.square().sum(1)
    moving = squares[squares > STILL * squares.mean()]
    return moving.median().clamp_min(1e-12) if len(moving) else squares.new_ones(())
