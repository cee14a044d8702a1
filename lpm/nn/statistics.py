"""Running statistics that take effect only when committed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningMoments(nn.Module):
    """Mean and variance per dimension, accumulated in float64.

    `observe` only accumulates. `commit` makes what was accumulated the active statistics, so that every score
    between two updates sees the same ones, however the rollout is split into blocks.
    """

    total: Tensor
    sums: Tensor
    squares: Tensor
    mean: Tensor
    std: Tensor
    commits: Tensor

    def __init__(self, shape: tuple[int, ...], *, scalar_std: bool = False, min_std: float = 1e-4) -> None:
        super().__init__()
        self.scalar_std = scalar_std
        self.min_std = min_std
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("std", torch.ones(() if scalar_std else shape))
        self.register_buffer("commits", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def observe(self, rows: Tensor) -> None:
        """Accumulate a batch (B, *shape)."""
        rows = rows.double()
        self.total += rows.shape[0]
        self.sums += rows.sum(0)
        self.squares += rows.square().sum(0)

    @torch.no_grad()
    def commit(self) -> None:
        """Make everything observed so far the active statistics."""
        if self.total == 0:
            return
        mean = self.sums / self.total
        variance = (self.squares / self.total - mean.square()).clamp_min(0)
        if self.scalar_std:
            variance = variance.mean()
        self.mean.copy_(mean)
        self.std.copy_(variance.sqrt().clamp_min(self.min_std))
        self.commits += 1

    def normalise(self, rows: Tensor, clip: float | None = None) -> Tensor:
        """Standardise with the active statistics."""
        scaled = (rows - self.mean) / self.std
        return scaled if clip is None else scaled.clamp(-clip, clip)
