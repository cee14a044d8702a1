"""From raw observations to what networks see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.statistics import OVERFLOW_CLIP, RangeWatch, RobustScale, RunningMoments

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
        self.low, self.span = 0.0, 1.0
        if spaces.bounded_image:
            box: Any = spaces.observation
            self.low = float(box.low.min())
            self.span = max(float(box.high.max()) - self.low, 1e-8)
        self.moments: RunningMoments | RobustScale | None = None
        if normalise == "robust":
            self.moments = RobustScale(self.shape)
        elif normalise != "none":
            # pixels are in [0, 1]; the unit of anything else is the environment's
            least = 1e-4 if spaces.bounded_image else None
            self.moments = RunningMoments(self.shape, scalar_std=normalise == "scalar", min_std=least)

    def raw(self, obs: Tensor) -> Tensor:
        """Scaled and laid out, but not standardised."""
        if len(self.shape) == 1:
            return obs.reshape(obs.shape[0], *self.shape).float()
        image = self._laid_out(obs)
        fresh = image.dtype != torch.float32
        image = image.float()
        if self.low:
            image, fresh = image - self.low, True
        return image.div_(self.span) if fresh else image / self.span

    def halved(self, obs: Tensor) -> Tensor:
        """`raw` of images at half the size, each pixel the mean of four: bytes are added up before they are floats."""
        image = self._laid_out(obs)
        image = image.short() if image.dtype == torch.uint8 else image.float()
        height, width = (size // 2 * 2 for size in image.shape[-2:])
        rows = image[..., :height:2, :width] + image[..., 1:height:2, :width]
        sums = (rows[..., ::2] + rows[..., 1::2]).float()
        return sums.sub_(4 * self.low).div_(4 * self.span)

    def _laid_out(self, obs: Tensor) -> Tensor:
        """Images (B, C, H, W), as they were given otherwise."""
        return obs.permute(0, 3, 1, 2) if self.channels_last else obs.reshape(obs.shape[0], *self.shape)

    def forward(self, obs: Tensor) -> Tensor:
        """What the networks see."""
        if isinstance(self.moments, RunningMoments) and self._bytes(obs):
            # scaled and standardised in one go: images are long, and every pass over them takes its time
            mean, std = self.moments.mean * self.span + self.low, self.moments.std * self.span
            clip = OVERFLOW_CLIP if self.clip is None else self.clip
            return self._laid_out(obs).float().sub_(mean).div_(std).clamp_(-clip, clip)
        x = self.raw(obs)
        if self.moments is None:
            return x if obs.dtype == torch.uint8 else x.clamp(-OVERFLOW_CLIP, OVERFLOW_CLIP)  # bounds may be broken
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

    def observe(self, *fields: Tensor, watch: RangeWatch | None = None) -> None:
        """Accumulate statistics, if there are any, of rows (B, ...) of observations, of their successors or of both.

        The statistics are the same however rows are split into blocks. A `watch` over them is shown the rows too.
        """
        into = self.moments if watch is None else watch
        if into is None:
            return
        if isinstance(self.moments, RobustScale):  # numbers its rows as they come
            fields = (torch.stack(fields, dim=1).flatten(0, 1),)
        for rows in fields:
            if watch is None and isinstance(self.moments, RunningMoments) and self._bytes(rows):
                self._observe_bytes(self.moments, rows)
                continue
            for part in torch.split(rows, 256):  # float64 sums of a whole block of images would take gigabytes
                into.observe(self.raw(part))

    def _bytes(self, obs: Tensor) -> bool:
        return len(self.shape) == 3 and obs.dtype == torch.uint8

    def _observe_bytes(self, moments: RunningMoments, rows: Tensor) -> None:
        """Sums of at most 256 bytes and of their squares are whole numbers that float32 holds exactly."""
        for part in torch.split(self._laid_out(rows), 64):
            values = part.float()
            sums = values.sum(0, dtype=torch.float32).double()
            squares = values.square_().sum(0, dtype=torch.float32).double()
            count = len(part)
            moments.add(
                count,
                (sums - count * self.low) / self.span,
                (squares - 2 * self.low * sums + count * self.low**2) / self.span**2,
            )

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
