"""Sums over episodes, such as returns and lengths, in environments that run side by side."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.core.mixer import Mask

RECENT = 100  # episodes behind a reported return


class EpisodeSums:
    """Sums of several numbers over the running episode of each environment, and over the last 100 that ended."""

    def __init__(self, numbers: int, num_envs: int) -> None:
        self.running = np.zeros((numbers, num_envs))
        self.recent: deque[tuple[float, ...]] = deque(maxlen=RECENT)
        self.ended = 0
        """Episodes so far."""

    def add(self, block: NDArray[Any], done: Mask, left: Mask | None = None) -> None:
        """A (numbers, T, N) block; `done` (T, N) says where an episode ended, `left` which of them counts for nothing:
        the environment was reset before its end.
        """
        start, counted = 0, done if left is None else done & ~left
        for t in np.flatnonzero(done.any(axis=1)):
            self.running += block[:, start : t + 1].sum(axis=1)
            self.recent.extend(map(tuple, self.running[:, counted[t]].T.tolist()))
            self.ended += int(counted[t].sum())
            self.running[:, done[t]] = 0.0
            start = int(t) + 1
        self.running += block[:, start:].sum(axis=1)
