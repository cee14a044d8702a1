"""Exploration with a count of visits to the environment's own cells, which no bonus may see.

What an agent reaches with this reward is what a bonus could make of the same agent: noise cannot fool it, and
there is nothing about it to learn.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.core.mixer import Floats, Mask


class CellCounts:
    """The n-th time that a cell is entered in the run is rewarded by 1 / √n; staying in it is not.

    Rewarded by the step, an agent could stand still on a rare cell, or in front of a noisy TV.
    """

    def __init__(self, num_envs: int, num_cells: int) -> None:
        if num_cells < 1:
            raise ValueError(
                "policy='cell_counts': expected an environment with cells (num_cells and info['cell']), got none"
            )
        self._entered = np.zeros(num_cells, dtype=np.int64)
        self._last = np.full(num_envs, -1, dtype=np.int64)

    def reward(self, cells: NDArray[np.int64], valid: Mask, ended: Mask) -> Floats:
        """(T, N): of the steps that led to these cells; -1 where there is none."""
        reward = np.zeros(cells.shape, dtype=np.float32)
        for t, led_to in enumerate(cells):
            entering = valid[t] & (led_to >= 0) & (led_to != self._last)
            here = led_to[entering]
            reward[t, entering] = 1 / np.sqrt(self._entered[here] + 1)
            np.add.at(self._entered, here, 1)
            self._last = np.where(ended[t], -1, led_to)
        return reward

    def state_dict(self) -> dict[str, Any]:
        return {"entered": self._entered.copy(), "last": self._last.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._entered[...], self._last[...] = state["entered"], state["last"]
