"""Noisy MNIST: one-step transitions, half of them learnable and half pure noise (the paper's first experiment).

A 0 is followed by the same image. A 1 is followed by a random image of a digit from 2 to 9. There are no actions
and no episodes: this is a source of batches, not a Gymnasium environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lpm.data import ImageSet

Kind = Literal["mixed", "deterministic", "stochastic"]
SHARE_OF_NOISE: dict[Kind, float] = {"mixed": 0.5, "deterministic": 0.0, "stochastic": 1.0}


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of transitions."""

    obs: npt.NDArray[np.float32]
    """Start images, (n, pixels), in [0, 1]."""
    next_obs: npt.NDArray[np.float32]
    """Successors, (n, pixels), in [0, 1]."""
    stochastic: npt.NDArray[np.bool_]
    """(n,): True where the start is a 1 and the successor is noise."""


class NoisyMNIST:
    """Draws transitions from an image set, with a random generator of its own.

    Use the train split to learn from and, for held-out digits, a second source on the test split.

    >>> images = np.arange(10, dtype=np.uint8).reshape(10, 1, 1)
    >>> digits = ImageSet(images, np.arange(10), "ten made-up digits", complete=False)
    >>> batch = NoisyMNIST(digits, seed=0).sample(4, kind="deterministic")
    >>> batch.obs.shape, bool((batch.obs == batch.next_obs).all())
    ((4, 1), True)
    """

    def __init__(self, digits: ImageSet, seed: int | np.random.Generator) -> None:
        labels = np.asarray(digits.labels, dtype=np.int64)
        if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
            raise ValueError(f"labels: expected digits 0..9, got {labels.min()}..{labels.max()}")
        counts = np.bincount(labels, minlength=10)
        if not counts.all():
            missing = np.flatnonzero(counts == 0).tolist()
            raise ValueError(f"expected images of every digit 0..9, got none of {missing} in {digits.source!r}")
        self.digits = digits
        self._rng = np.random.default_rng(seed)
        self._images = digits.images.reshape(len(digits), -1)
        # Images in order of their digit: those of digit d are _order[_starts[d] : _starts[d] + _counts[d]].
        self._order = np.argsort(labels, kind="stable")
        self._counts = counts
        self._starts = np.cumsum(counts) - counts

    @property
    def pixels(self) -> int:
        """Length of an observation: 784 for MNIST."""
        return int(self._images.shape[1])

    def sample(self, n: int, kind: Kind = "mixed") -> Batch:
        """Draw ``n`` independent transitions.

        ``mixed`` starts at a 0 or a 1 with probability 0.5 each, ``deterministic`` always at a 0, ``stochastic``
        always at a 1. The noise is uniform over the digits 2..9 first, then over the images of that digit.
        """
        stochastic = self._rng.random(n) < SHARE_OF_NOISE[kind]
        start = self._pick(stochastic.astype(np.int64))
        noise = self._pick(self._rng.integers(2, 10, size=n))
        return Batch(self._scaled(start), self._scaled(np.where(stochastic, noise, start)), stochastic)

    def _pick(self, digit: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Index of a random image of each given digit."""
        index: npt.NDArray[np.int64] = self._order[self._starts[digit] + self._rng.integers(self._counts[digit])]
        return index

    def _scaled(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return np.divide(self._images[index], np.float32(255), dtype=np.float32)
