"""From raw observations to what networks see, by running statistics that take effect only when committed."""

import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces

RESOLUTION = 1e-6
"""A spread below this share of the values themselves is rounding, not information."""
LARGEST_STD = 1e37  # finite as float32
OVERFLOW_CLIP = 1e6
"""Where numbers are cut that nothing else bounds: squares of larger ones, and gradients of those, overflow."""


class Statistics(nn.Module):
    """Statistics of rows: `observe` accumulates, `commit` makes what was accumulated active, `normalise` uses it."""

    mean: Tensor
    std: Tensor
    total: Tensor  # rows so far
    commits: Tensor
    squashes: bool  # whether what lies far outside stays apart instead of being cut off

    observe: Callable[[Tensor], None]
    commit: Callable[[], None]

    def normalise(self, rows: Tensor, clip: float | None = None) -> Tensor:
        """Rows in units of the active statistics."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether anything was committed."""
        return bool(self.commits > 0)


def usable_std(std: Tensor, mean: Tensor) -> Tensor:
    """Standard deviations to divide by, whatever unit the values come in; (near) constants get a small one.

    A constant is given a thousandth of its own size, or 1e-4 of the other dimensions' median spread: should it ever
    move, that is seen.

    >>> [f"{std:.3g}" for std in usable_std(torch.tensor([2e-6, 0.0]), torch.tensor([0.0, 5.0])).tolist()]
    ['2e-06', '0.005']
    """
    size = mean.abs()
    flat = std <= RESOLUTION * size
    moving = std[~flat]
    typical = moving.median() if moving.numel() else size.max() if bool(size.max() > 0) else torch.ones_like(size.max())
    return torch.where(flat, torch.maximum(1e-4 * typical, 1e-3 * size), std).clamp_max(LARGEST_STD)


class RunningMoments(Statistics):
    """Mean and variance per dimension, accumulated in float64.

    Every score between two `commit`s sees the same ones, however the rollout is split into blocks. `min_std` is in the
    unit of the values; None: none, any unit does.
    """

    sums: Tensor
    squares: Tensor
    squashes = False

    def __init__(self, shape: tuple[int, ...], *, scalar_std: bool = False, min_std: float | None = None) -> None:
        super().__init__()
        self.scalar_std = scalar_std
        self.min_std = min_std
        for name, size in (("total", ()), ("sums", shape), ("squares", shape)):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("std", torch.ones(() if scalar_std else shape))
        self.register_buffer("commits", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def observe(self, rows: Tensor) -> None:
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
        if self.total == 0:
            return
        mean = self.sums / self.total
        variance = (self.squares / self.total - mean.square()).clamp_min(0)
        std = (variance.mean() if self.scalar_std else variance).sqrt()
        if self.min_std is None:
            std = usable_std(std, mean.abs().max() if self.scalar_std else mean)
        else:
            std = std.clamp_min(self.min_std)
        self.mean.copy_(mean)
        self.std.copy_(std)
        self.commits += 1

    def normalise(self, rows: Tensor, clip: float | None = None) -> Tensor:
        clip = OVERFLOW_CLIP if clip is None else clip
        return (rows - self.mean).div_(self.std).clamp_(-clip, clip)


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

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(self.ROWS, shape)
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
        mean, std = values.mean(0), values.std(0, correction=0)
        flat = scale <= RESOLUTION * torch.maximum(centre.abs(), std)
        mean, std = torch.where(flat, mean, centre), torch.where(flat, std, scale)
        self.mean.copy_(mean)
        self.std.copy_(usable_std(std, mean))
        self.commits += 1

    def normalise(self, rows: Tensor, clip: float | None = None) -> Tensor:
        scaled = ((rows - self.mean) / self.std).clamp_(-self.LARGEST, self.LARGEST).asinh_()
        return scaled if clip is None else scaled.clamp_(-clip, clip)


def _hash(number: Tensor) -> Tensor:
    """Whole numbers to [0, 2³²), evenly (Knuth's multiplicative hash)."""
    return ((number & 0xFFFFFFFF) * 2654435769) & 0xFFFFFFFF


class RangeWatch(nn.Module):
    """Whether statistics that were frozen still fit what comes; if not, they are measured again, on everything so far.

    Those of fewer than `PROVISIONAL_ROWS` are replaced as soon as more than `WARN_SHARE` of the values of a dimension
    lie outside ±`limit`. After that it takes `REPLACE_SHARE`, and more than `WARN_SHARE` gives one warning. Statistics
    that squash instead of cutting are replaced while they are provisional only, if `REPLACE_SHARE` lies outside.
    """

    PROVISIONAL_ROWS, REVIEW_ROWS = 1024, 4096
    WARN_SHARE, REPLACE_SHARE = 0.05, 0.5

    outside: Tensor  # of each dimension, since the last judgement
    watched: Tensor  # rows since then
    measured: Tensor  # rows behind the active statistics

    def __init__(self, statistics: Statistics, limit: float = 10.0) -> None:
        super().__init__()
        self._statistics = [statistics]  # not a submodule: saved with its owner
        self.limit = limit
        self.warned = False
        for name, shape in (("outside", statistics.mean.shape), ("watched", ()), ("measured", ())):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int64))

    def observe(self, rows: Tensor) -> None:
        """Count rows (B, *shape) that came after the statistics were frozen, and accumulate them."""
        (statistics,) = self._statistics
        if statistics.ready:
            self.outside += ((rows - statistics.mean).abs() > self.limit * statistics.std).sum(0)
            self.watched += len(rows)
        statistics.observe(rows)

    def freeze(self) -> None:
        """Make everything so far the active statistics."""
        (statistics,) = self._statistics
        statistics.commit()
        self.measured.fill_(int(statistics.total))
        self._restart()

    def review(self) -> bool:
        """Judge what came since the last time; True if the statistics were measured again."""
        (statistics,) = self._statistics
        provisional = int(self.measured) < self.PROVISIONAL_ROWS
        watched = int(self.watched)
        if watched == 0 or not (provisional or (watched >= self.REVIEW_ROWS and not statistics.squashes)):
            return False
        share = self.outside.max().item() / watched
        if share > (self.WARN_SHARE if provisional and not statistics.squashes else self.REPLACE_SHARE):
            self.freeze()
            return True
        if provisional:
            return False
        if share > self.WARN_SHARE and not self.warned:
            self.warned = True
            warnings.warn(
                f"{share:.0%} of the latest values of observation feature {int(self.outside.argmax())} lie more than "
                f"{self.limit:g} standard deviations from the mean that was frozen after {int(self.measured):,} rows, "
                "where the bonus cannot tell them apart: freeze later (a larger warmup), or take normalise='robust' "
                "where the bonus has it",
                RuntimeWarning,
                stacklevel=2,
            )
        self._restart()
        return False

    def _restart(self) -> None:
        self.outside.zero_()
        self.watched.zero_()


Normalise = Literal["none", "standard", "scalar", "robust"]


class ObservationInput(nn.Module):
    """Raw (B, *observation shape) to float (B, *input_shape).

    Bounded images are scaled to [0, 1] by their space and put channels first; this is also where uint8 becomes
    float, so that no difference of uint8 is ever taken. `normalise="standard"` then standardises each dimension,
    `"scalar"` subtracts the mean of each dimension and divides by one common standard deviation, `"robust"` (vectors)
    scales by the densest half of the values and squashes the rest.
    """

    def __init__(self, spaces: Spaces, normalise: Normalise = "none", clip: float | None = None) -> None:
        super().__init__()
        if normalise not in get_args(Normalise):
            raise ValueError(f"normalise: expected one of {', '.join(get_args(Normalise))}, got {normalise!r}")
        if normalise == "robust" and spaces.kind != "vector":
            raise ValueError(f"normalise: 'robust' expects vector observations, got {spaces.observation}")
        self.shape = spaces.input_shape
        self.channels_last = spaces.channels_last
        self.clip = clip
        self.low, self.span, least = 0.0, 1.0, None
        if spaces.bounded_image:
            box: Any = spaces.observation
            self.low = float(box.low.min())
            self.span = max(float(box.high.max()) - self.low, 1e-8)
            least = 1e-4  # pixels are in [0, 1]; the unit of anything else is the environment's
        self.moments: RunningMoments | RobustScale | None = None
        if normalise == "robust":
            self.moments = RobustScale(self.shape)
        elif normalise != "none":
            self.moments = RunningMoments(self.shape, scalar_std=normalise == "scalar", min_std=least)

    def raw(self, obs: Tensor) -> Tensor:
        """Scaled and laid out, but not standardised."""
        if len(self.shape) == 1:
            return obs.reshape(obs.shape[0], *self.shape).float()
        image = self.laid_out(obs)
        fresh = image.dtype != torch.float32
        image = image.float()
        if self.low:
            image, fresh = image - self.low, True
        return image.div_(self.span) if fresh else image / self.span

    def laid_out(self, obs: Tensor) -> Tensor:
        """Images (B, C, H, W), as they were given otherwise."""
        return obs.permute(0, 3, 1, 2) if self.channels_last else obs.reshape(obs.shape[0], *self.shape)

    def forward(self, obs: Tensor) -> Tensor:
        """What the networks see."""
        if isinstance(self.moments, RunningMoments) and self._bytes(obs):
            # scaled and standardised in one go: images are long, and every pass over them takes its time
            mean, std = self.moments.mean * self.span + self.low, self.moments.std * self.span
            clip = OVERFLOW_CLIP if self.clip is None else self.clip
            return self.laid_out(obs).float().sub_(mean).div_(std).clamp_(-clip, clip)
        x = self.raw(obs)
        if self.moments is None:
            bound = max(OVERFLOW_CLIP, self.clip or 0)
            return x if obs.dtype == torch.uint8 else x.clamp(-bound, bound)  # bounds may be broken
        return self.moments.normalise(x, self.clip)

    @torch.no_grad()
    def clipped_share(self, obs: Tensor) -> float | None:
        """The share of a vector's standardised numbers that are at their bound; None where there is no such bound."""
        if self.clip is None or not isinstance(self.moments, RunningMoments) or len(self.shape) > 1:
            return None
        return float((self(obs).abs() >= self.clip).float().mean())

    @property
    def ready(self) -> bool:
        """Whether there are active statistics, or none are needed."""
        return self.moments is None or self.moments.ready

    def observe(self, *fields: Tensor, into: Callable[[Tensor], None] | None = None) -> None:
        """Accumulate statistics, if there are any, of rows (B, ...) of observations, of their successors or of both.

        The statistics are the same however rows are split into blocks. `into` takes the rows in their place, and passes
        them on.
        """
        if self.moments is None:
            return
        if isinstance(self.moments, RobustScale):  # numbers its rows as they come
            fields = (torch.stack(fields, dim=1).flatten(0, 1),)
        for rows in fields:
            if into is None and isinstance(self.moments, RunningMoments) and self._bytes(rows):
                self._observe_bytes(self.moments, rows)
                continue
            for part in torch.split(rows, 256):  # float64 sums of a whole block of images would take gigabytes
                (into or self.moments.observe)(self.raw(part))

    def _bytes(self, obs: Tensor) -> bool:
        return len(self.shape) == 3 and obs.dtype == torch.uint8

    def _observe_bytes(self, moments: RunningMoments, rows: Tensor) -> None:
        """Sums of at most 256 bytes and of their squares are whole numbers that float32 holds exactly."""
        for part in torch.split(self.laid_out(rows), 64):
            values, count = part.float(), len(part)
            sums = values.sum(0, dtype=torch.float32).double()
            squares = values.square_().sum(0, dtype=torch.float32).double()
            squares = (squares - 2 * self.low * sums + count * self.low**2) / self.span**2
            moments.add(count, (sums - count * self.low) / self.span, squares)

    def commit(self) -> None:
        """Make the accumulated statistics the active ones."""
        if self.moments is not None:
            self.moments.commit()


def in_chunks(function: Callable[..., Tensor], *tensors: Tensor, chunk: int = 1024) -> Tensor:
    """Apply `function` to slices of `tensors` along the first axis and join the results: bounded memory."""
    rows = tensors[0].shape[0]
    if rows <= chunk:
        return function(*tensors)
    return torch.cat([function(*(t[i : i + chunk] for t in tensors)) for i in range(0, rows, chunk)])


def same_rows(first: Tensor, second: Tensor) -> Tensor:
    """Which rows of two tensors (B, ...) are equal, (B,); bytes are compared eight at a time where they can be."""
    rows = [tensor.flatten(1) for tensor in (first, second)]
    if rows[0].shape[1] % 8 == 0 and all(
        row.dtype == torch.uint8 and row.is_contiguous() and row.data_ptr() % 8 == 0 for row in rows
    ):
        rows = [row.view(torch.int64) for row in rows]
    return (rows[0] == rows[1]).all(1)
