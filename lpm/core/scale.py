"""How large a stream of rewards is: one number that neither a quiet start, nor a spike, nor a long rest can set.

The discounted sum R_t = γ R_{t-1} + r_t is followed for 128 steps at a time, each time from R = 0. The size of such a
segment is the standard deviation of R along it, the median over the environments in which it varied. The scale is a
quantile of the segments' sizes. One segment is one number, so whatever happens in it has the weight of 128 steps.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SEGMENT = 128
"""Steps of a segment: a horizon of 1/(1 - 0.99) and a little more."""
KEPT = 512
"""Sizes that are kept. A scale of the whole run thins them out evenly when there are more."""
ENOUGH, FLOOR = 64, 0.25
"""A scale of the whole run that was measured on this many segments never falls below this share of its highest value:
what is left of a bonus when everything is known is not scaled up again, however long that lasts."""
GROWTH = 71.0
"""Steps in which R of equal rewards (γ = 0.99) grows in proportion to time: n have n/71 of the deviation of a whole
segment."""
TINY = 1e-12
"""Of the mean |R| of a segment: a deviation of less is rounding, not variation."""
MIN_DEVIATION = 1e-30
"""A smaller deviation is none: single precision cannot divide by it."""


def discounted_filter(
    rewards: NDArray[Any], carry: NDArray[np.float64], gamma: float, valid: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """R_t = γ R_{t-1} + r_t along time in each environment, from the `carry` (N,) of the block before.

    Never reset at the end of an episode; steps that are not valid leave R as it was. Returns R (T, N) and the new
    carry.

    >>> filtered, _ = discounted_filter(np.array([[1.0], [1.0], [1.0], [0.0], [0.0]]), np.zeros(1), 0.99)
    >>> [round(float(x), 6) for x in filtered[:, 0]]
    [1.0, 1.99, 2.9701, 2.940399, 2.910995]
    """
    filtered = np.empty(rewards.shape, dtype=np.float64)
    carry = carry.copy()
    for t, reward in enumerate(rewards):
        following = gamma * carry + reward
        carry = following if valid is None else np.where(valid[t], following, carry)
        filtered[t] = carry
    return filtered, carry


def segment_size(deviations: NDArray[np.float64]) -> float:
    """The median deviation of the environments in which the sum varied; 0 if it varied in none.

    >>> segment_size(np.array([0.0, 0.0, 2.0, 4.0, 100.0]))
    4.0
    """
    varied = deviations[deviations > 0]
    return float(np.median(varied)) if len(varied) else 0.0


def lower_quantile(sizes: NDArray[np.float64], share: float) -> float:
    """The largest of the lowest `share` of the sizes: of two or more, the highest one never counts.

    >>> lower_quantile(np.array([1.0, 1e7]), 0.9), lower_quantile(np.array([3.0, 1.0, 2.0]), 0.5)
    (1.0, 2.0)
    """
    return float(np.quantile(sizes, share, method="lower"))


class ReturnScale:
    """The size of a stream of rewards, estimated as above; its whole state is in `state_dict`."""

    def __init__(self, num_envs: int, gamma: float, *, quantile: float, recent: int | None = None) -> None:
        """`quantile` of the sizes of the `recent` segments, of all segments if that is None."""
        self.gamma, self.quantile, self.recent = gamma, quantile, recent
        self._sums = np.zeros((4, num_envs))  # of the open segment: R, steps, mean of R, squared distances from it
        self._steps = 0  # of the open segment
        self._stride, self._seen = 1, 0  # one of so many segments is kept, and segments since the last that was
        self._sizes = np.zeros(0)
        self._highest = 0.0  # quantile so far, once it is that of ENOUGH segments
        self.segments = 0
        """Whole segments since this was made or loaded."""
        self.latest = 0.0
        """Size of the latest segment; before the first one is whole, of what there is of it."""

    @property
    def value(self) -> float:
        """The scale; 1 while nothing has varied."""
        if not len(self._sizes):
            return self.latest or 1.0
        quantile = lower_quantile(self._sizes, self.quantile)
        return quantile if self.recent is not None else max(quantile, FLOOR * self._highest)

    def observe(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """A (T, N) block of rewards, once and in time order."""
        start = 0
        while start < len(rewards):
            stop = min(start + SEGMENT - self._steps, len(rewards))
            self._add(rewards[start:stop], valid[start:stop])
            if self._steps == SEGMENT:
                self.latest = self._size()
                self.segments += 1
                self._keep(self.latest)
                self._sums[...] = 0.0
                self._steps = 0
            start = stop
        if self._steps and not len(self._sizes):  # R has only begun to grow: what a whole segment would have
            self.latest = self._size() * max(1.0, GROWTH / self._steps)

    def _add(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """Steps into the moments of the open segment (Chan's update)."""
        filtered, carry = discounted_filter(rewards, self._sums[0], self.gamma, valid)
        _, count, mean, squares = self._sums
        new = valid.sum(0)
        here = np.divide(np.where(valid, filtered, 0.0).sum(0), new, out=mean.copy(), where=new > 0)
        spread = np.where(valid, np.square(filtered - here), 0.0).sum(0)
        total, shift = count + new, here - mean
        share = np.divide(new, total, out=np.zeros_like(mean), where=total > 0)
        self._sums = np.stack((carry, total, mean + shift * share, squares + spread + shift**2 * count * share))
        self._steps += len(rewards)

    def _size(self) -> float:
        """Of the open segment."""
        _, count, mean, squares = self._sums
        deviation = np.sqrt(squares / np.maximum(count, 1))
        deviation[deviation <= np.maximum(TINY * np.abs(mean), MIN_DEVIATION)] = 0.0
        return segment_size(deviation)

    def _keep(self, size: float) -> None:
        if size <= 0:
            return
        self._seen += 1
        if self._seen < self._stride:
            return
        self._seen = 0
        self._sizes = np.append(self._sizes, size)
        if self.recent is not None:
            self._sizes = self._sizes[-self.recent :]
            return
        if len(self._sizes) >= ENOUGH:
            self._highest = max(self._highest, lower_quantile(self._sizes, self.quantile))
        if len(self._sizes) >= KEPT:
            self._sizes, self._stride = self._sizes[1::2], self._stride * 2

    def state_dict(self) -> dict[str, Tensor]:
        """The open segment ("rows": an entry per environment), and the sizes of those before."""
        counters = torch.tensor([self._steps, self._stride, self._seen])
        sizes = torch.zeros(KEPT, dtype=torch.float64)  # of one shape, so that a state can be checked against another
        sizes[: len(self._sizes)] = torch.from_numpy(self._sizes)
        levels = torch.tensor([self.latest, self._highest], dtype=torch.float64)
        return {"rows": torch.from_numpy(self._sums.T.copy()), "counters": counters, "sizes": sizes, "levels": levels}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` saved."""
        self._sums = state["rows"].numpy().T.copy()
        self._steps, self._stride, self._seen = state["counters"].tolist()
        sizes = state["sizes"].numpy()
        self._sizes = sizes[sizes > 0].copy()
        self.latest, self._highest = state["levels"].tolist()


class RunningDeviation:
    """The standard deviation of the discounted sum over the whole run, as RND has it (Burda et al. 2019).

    One extreme block sets it for good: for experiments that compare with published ones.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self._carry = np.zeros(num_envs)
        self._count = self._mean = self._squares = 0.0  # the last: sum of squared distances from the mean

    @property
    def value(self) -> float:
        """The scale; 1 while nothing has varied."""
        variance = self._squares / self._count if self._count else 0.0
        return math.sqrt(variance) if variance > 1e-16 else 1.0

    def observe(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """A (T, N) block of rewards, once and in time order."""
        filtered, self._carry = discounted_filter(rewards, self._carry, self.gamma, valid)
        seen = filtered[valid]
        if not seen.size:
            return
        total, shift = self._count + seen.size, seen.mean() - self._mean
        self._squares += seen.var() * seen.size + shift**2 * self._count * seen.size / total
        self._mean += shift * seen.size / total
        self._count = total

    def state_dict(self) -> dict[str, Tensor]:
        """Sums and moments."""
        moments = torch.tensor([self._count, self._mean, self._squares], dtype=torch.float64)
        return {"rows": torch.from_numpy(self._carry.copy()), "moments": moments}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` saved."""
        self._carry = state["rows"].numpy().copy()
        self._count, self._mean, self._squares = state["moments"].tolist()
