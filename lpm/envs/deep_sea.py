"""DeepSea of bsuite (Osband et al. 2020): one sequence of actions among 2^N pays, and each step of it costs.

The agent falls through an N × N grid from the upper left corner, one row a step, and moves left or right; which of the
two actions is which differs from cell to cell. Moving right costs 0.01 / N, moving right in the lower right corner pays
1: the best return is 0.99, any other is at most 0. The same world as bsuite's for the same `mapping_seed`.
"""

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from lpm.envs.drawing import blank, rectangle
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, expect

MOVE_COST = 0.01
"""Of moving right in every row, together."""


class DeepSeaVector(BatchedEnv):
    """A batch of seas; `gymnasium.make_vec("lpm/DeepSea-v0", ...)` gives this."""

    _saved = ("row", "column")

    def __init__(
        self,
        num_envs: int = 1,
        size: int = 10,
        mapping_seed: int = 42,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """`size` is N; `mapping_seed` draws the action that moves right in each cell, 42 in bsuite's experiments."""
        expect(2 <= size <= 1000, "size must be from 2 to 1000", size)
        expect(0 <= mapping_seed < 2**32, f"mapping_seed must be from 0 to {2**32 - 1}", mapping_seed)
        super().__init__(num_envs, Box(0, 1, (size * size,), np.uint8), Discrete(2), autoreset_mode, render_mode)
        self.size = size
        # the generator that bsuite draws from
        self.right = np.random.RandomState(mapping_seed).binomial(1, 0.5, (size, size))
        self.num_cells = (size + 1) * size  # the last row is the end of the episode
        self._row, self._column = np.zeros((2, num_envs), dtype=np.int64)

    def _reset_rows(self, rows: Mask) -> None:
        self._row[rows] = self._column[rows] = 0

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        last = self.size - 1
        moving = np.ones(self.num_envs, dtype=np.bool_) if active is None else active
        right = moving & (np.asarray(actions) == self.right[np.minimum(self._row, last), self._column])
        reward = 1.0 * (right & (self._column == last)) - MOVE_COST / self.size * right
        step = np.where(right, 1, -1) * moving
        self._column[:] = np.clip(self._column + step, 0, last)
        self._row[:] = np.minimum(self._row + moving, self.size)
        ended = moving & (self._row == self.size)
        return reward, ended, np.zeros_like(ended), bool(ended.any())

    def _views(self, rows: Array | slice) -> Array:
        place = self._cell()[rows]
        seen = np.zeros((len(place), self.num_cells), dtype=np.uint8)
        seen[np.arange(len(place)), place] = 1
        return seen[:, : self.size**2]  # at the end nothing is seen

    def _cell(self) -> Array:
        return self._row * self.size + self._column

    def _info(self) -> dict[str, Array]:
        return {"cell": self._cell(), "noise": np.zeros(self.num_envs, dtype=np.bool_)}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        return {"row": (0, self.size), "column": (0, self.size - 1)}

    def _render_row(self, row: int) -> Array:
        """The grid: dark where the action 1 moves right, the goal green, the agent blue."""
        tile = max(160 // self.size, 2)
        picture = blank(self.size * tile, self.size * tile, (235, 235, 235))
        ys, xs = np.nonzero(self.right)
        marked = dict.fromkeys(zip(ys.tolist(), xs.tolist(), strict=True), (200, 200, 200))
        marked[self.size - 1, self.size - 1] = (60, 160, 80)
        marked[min(int(self._row[row]), self.size - 1), int(self._column[row])] = (40, 90, 200)
        for (y, x), colour in marked.items():
            rectangle(picture, x * tile, y * tile, (x + 1) * tile - 1, (y + 1) * tile - 1, colour)
        return picture


class DeepSea(SingleEnv):
    """One sea; `gymnasium.make("lpm/DeepSea-v0", ...)` gives this. The options are those of `DeepSeaVector`."""

    vector = DeepSeaVector
