"""Whether the scale of observations that was fixed at the beginning still fits."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from lpm.nn.inputs import Statistics


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
        self.register_buffer("outside", torch.zeros(statistics.mean.shape, dtype=torch.int64))
        self.register_buffer("watched", torch.zeros((), dtype=torch.int64))
        self.register_buffer("measured", torch.zeros((), dtype=torch.int64))

    def observe(self, rows: Tensor) -> None:
        """Count rows (B, *shape) that came after the statistics were frozen, and accumulate them."""
        (statistics,) = self._statistics
        if statistics.ready:
            self.outside += statistics.outside(rows, self.limit)
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
        if not provisional:
            if share > self.WARN_SHARE and not self.warned:
                self._warn(share)
            self._restart()
        return False

    def _restart(self) -> None:
        self.outside.zero_()
        self.watched.zero_()

    def _warn(self, share: float) -> None:
        self.warned = True
        warnings.warn(
            f"{share:.0%} of the latest values of observation feature {int(self.outside.argmax())} lie more than "
            f"{self.limit:g} standard deviations from the mean that was frozen after {int(self.measured):,} rows, "
            "where the bonus cannot tell them apart: freeze later (a larger warmup), or take normalise='robust' where "
            "the bonus has it",
            RuntimeWarning,
            stacklevel=2,
        )
