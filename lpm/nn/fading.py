"""Covariances of rows that fade with age."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lpm.core.group import ALONE, Group


class FadingCovariance(nn.Module):
    """Covariance of rows that fade with age, in float64. Age is counted in weight: what counts nothing fades nothing."""

    total: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, width: int, horizon: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("products", torch.zeros(width, width, dtype=torch.float64))

    def add(self, rows: Tensor, weight: Tensor, *, centred: bool = True, group: Group = ALONE) -> None:
        """Take in rows (B, D) by their weights (B,). Not `centred`: the second moment about 0 is meant."""
        rows, weight = rows.double(), weight.double()
        weighted = rows * weight.unsqueeze(1)
        sums = weighted.sum(0) if centred else torch.zeros_like(self.sums)
        added = group.sum(weight.sum(), sums, weighted.T @ rows)
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
