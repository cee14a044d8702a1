"""Running statistics that take effect only when committed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Statistics(nn.Module):
    """Statistics of rows: `observe` accumulates, `commit` makes what was accumulated active, `normalise` uses it."""

    mean: Tensor
    std: Tensor
    commits: Tensor

    @property
    def ready(self) -> bool:
        """Whether anything was committed."""
        return bool(self.commits > 0)


class RunningMoments(Statistics):
    """Mean and variance per dimension, accumulated in float64.

    `observe` only accumulates. `commit` makes what was accumulated the active statistics, so that every score
    between two updates sees the same ones, however the rollout is split into blocks.
    """

    total: Tensor
    sums: Tensor
    squares: Tensor
    squashes = False

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
        self.add(rows.shape[0], rows.sum(0), rows.square().sum(0))

    @torch.no_grad()
    def add(self, count: int, sums: Tensor, squares: Tensor) -> None:
        """Accumulate a batch given by its size and by the sums of its rows and of their squares."""
        self.total += count
        self.sums += sums
        self.squares += squares

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
        scaled = (rows - self.mean).div_(self.std)
        return scaled if clip is None else scaled.clamp_(-clip, clip)


class HashedSample(nn.Module):
    """An even sample of all rows that came, at most `capacity` of them.

    Rows are chosen by a hash of their number: nothing is drawn at random, and no regular pattern of the rows
    (environments that take turns) is caught.
    """

    sample: Tensor  # (capacity, *shape), the first `kept` of which count
    number: Tensor  # (capacity,) of each row, as they came
    kept: Tensor
    share: Tensor  # hashes below this are kept
    total: Tensor

    def __init__(self, capacity: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("sample", torch.zeros(capacity, *shape))
        self.register_buffer("number", torch.zeros(capacity, dtype=torch.int64))
        for counter, start in (("kept", 0), ("share", 2**32), ("total", 0)):
            self.register_buffer(counter, torch.tensor(start))

    @property
    def rows(self) -> Tensor:
        """The sample."""
        return self.sample[: int(self.kept)]

    @torch.no_grad()
    def observe(self, rows: Tensor) -> None:
        """Take a batch (B, *shape) into the sample."""
        capacity = len(self.sample)
        number = int(self.total) + torch.arange(len(rows), device=rows.device)
        self.total += len(rows)
        chosen = _hash(number) < self.share
        number, rows = number[chosen], rows[chosen].float()
        while len(rows):
            start = int(self.kept)
            end = min(start + len(rows), capacity)
            self.sample[start:end], self.number[start:end] = rows[: end - start], number[: end - start]
            self.kept.fill_(end)
            number, rows = number[end - start :], rows[end - start :]
            if end == capacity:
                self.share //= 2
                stay = _hash(self.number) < self.share
                self.kept.fill_(int(stay.sum()))
                self.sample[: int(self.kept)] = self.sample[stay]
                self.number[: int(self.kept)] = self.number[stay]
                chosen = _hash(number) < self.share
                number, rows = number[chosen], rows[chosen]


class RobustScale(HashedSample, Statistics):
    """Centre and scale of the densest half of the values of each dimension; what lies outside is squashed, not cut.

    Where a part of the observations is noise, their standard deviation is the noise's, and everything else shrinks to
    a point. The shortest interval that holds half of the values (Rousseeuw 1984) ignores up to half of them.
    `normalise` gives asinh((x − centre) / scale): linear inside, logarithmic outside, so that neither the noise nor
    places that were not reached before the scale was fixed leave the range that networks like. The values are looked
    at in a sample.
    """

    squashes = True
    ROWS = 2048
    NORMAL_HALF = 1.3489795  # length of the shortest half of a standard normal distribution
    LARGEST = 1e30  # what a division that overflows counts as; asinh of it is 70

    def __init__(self, shape: tuple[int, ...], *, min_std: float = 1e-4) -> None:
        super().__init__(self.ROWS, shape)
        self.min_std = min_std
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("std", torch.ones(shape))
        self.register_buffer("commits", torch.tensor(0))

    @torch.no_grad()
    def commit(self) -> None:
        """Make the sample's centre and scale the active ones."""
        if self.kept == 0:
            return
        values = self.rows.double().sort(0).values
        half = len(values) // 2
        lengths = values[half:] - values[: len(values) - half]
        length, first = lengths.min(0, keepdim=True)
        centre = (values.gather(0, first) + values.gather(0, first + half)).squeeze(0) / 2
        scale = length.squeeze(0) / self.NORMAL_HALF
        # more than half of the values are (as good as) equal: a flag, a constant
        flat = scale < self.min_std
        self.mean.copy_(torch.where(flat, values.mean(0), centre))
        self.std.copy_(torch.where(flat, values.std(0, correction=0), scale).clamp_min(self.min_std))
        self.commits += 1

    def normalise(self, rows: Tensor, clip: float | None = None) -> Tensor:
        """Scale with the active statistics, and squash."""
        scaled = ((rows - self.mean) / self.std).clamp_(-self.LARGEST, self.LARGEST).asinh_()
        return scaled if clip is None else scaled.clamp_(-clip, clip)


def _hash(number: Tensor) -> Tensor:
    """Whole numbers to [0, 2³²), evenly (Knuth's multiplicative hash)."""
    return ((number & 0xFFFFFFFF) * 2654435769) & 0xFFFFFFFF
