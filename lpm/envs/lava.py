"""LavaCrossing (the paper's MiniGrid appendix) stepped as one batch.

Layouts, transitions, rewards and views equal those of minigrid's LavaCrossing environments for the same seed, over
any number of episodes; minigrid itself is needed only to check that. The observation is minigrid's image: for each
of the 7x7 tiles in front of the agent its object, colour and state. `info["success"]` says that the goal was
reached in this step; coverage counts the tiles inside the walls.
"""

from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.drawing import blank, rectangle, triangle
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, expect

VIEW = 7
UNSEEN, EMPTY, WALL, GOAL, LAVA = 0, 1, 2, 8, 9
LEFT, RIGHT, FORWARD = 0, 1, 2
_NUM_ACTIONS = 7  # minigrid's; picking up, dropping, toggling and "done" do nothing here
_STEPS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
_CODES = np.zeros((10, 3), dtype=np.uint8)
_CODES[[EMPTY, WALL, GOAL, LAVA]] = [(EMPTY, 0, 0), (WALL, 5, 0), (GOAL, 1, 0), (LAVA, 0, 0)]
_KINDS = (UNSEEN, EMPTY, WALL, GOAL, LAVA)
_ONEHOT = np.zeros((10, len(_KINDS)), dtype=np.float32)
_ONEHOT[_KINDS, range(len(_KINDS))] = 1
_COLOURS = {EMPTY: (20, 20, 20), WALL: (110, 110, 110), GOAL: (30, 170, 60), LAVA: (235, 110, 20)}

View = Literal["codes", "onehot"]


@lru_cache
def view_table(size: int) -> NDArray[np.int64]:
    """For each place and direction, which entry of a padded grid each tile of the view shows.

    Walls alone block the view, and all walls stand around the grid, so what is hidden depends on the place and the
    direction only. Entries beyond the grid's own stand for a wall outside, the agent's own tile and a hidden tile.
    """
    outside, own, hidden = size * size, size * size + 1, size * size + 2
    table = np.empty((size, size, 4, VIEW, VIEW), dtype=np.int64)
    half = VIEW // 2
    i, j = np.indices((VIEW, VIEW))
    for x, y, direction in np.ndindex(size, size, 4):
        (ahead_x, ahead_y), (right_x, right_y) = _STEPS[direction], _STEPS[(direction + 1) % 4]
        tx = x + ahead_x * (VIEW - 1 - j) + right_x * (i - half)
        ty = y + ahead_y * (VIEW - 1 - j) + right_y * (i - half)
        nearest, farthest = np.minimum(tx, ty), np.maximum(tx, ty)
        seen = table[x, y, direction]
        seen[:] = np.where((nearest >= 0) & (farthest < size), ty * size + tx, outside)
        seen[~_visible((nearest <= 0) | (farthest >= size - 1))] = hidden
        seen[half, VIEW - 1] = own
    return table


def _visible(opaque: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The tiles light reaches from the agent's tile, row by row away from it: along the row and diagonally on."""
    seen = np.zeros_like(opaque)
    seen[VIEW // 2, VIEW - 1] = True
    for j in reversed(range(VIEW)):
        for sweep, side in ((range(VIEW - 1), 1), (range(VIEW - 1, 0, -1), -1)):
            for i in sweep:
                if seen[i, j] and not opaque[i, j]:
                    seen[i + side, j] = True
                    if j > 0:
                        seen[i + side, j - 1] = seen[i, j - 1] = True
    return seen


def generate_layout(rng: np.random.Generator, size: int, num_crossings: int) -> NDArray[np.uint8]:
    """Rivers of lava with an opening in each, indexed [y, x]; draws as minigrid's generator does."""
    grid = np.full((size, size), EMPTY, dtype=np.uint8)
    grid[[0, -1], :] = grid[:, [0, -1]] = WALL
    grid[size - 2, size - 2] = GOAL
    rivers = [(vertical, place) for vertical in (True, False) for place in range(2, size - 2, 2)]
    rng.shuffle(rivers)
    columns = sorted(place for vertical, place in rivers[:num_crossings] if vertical)
    rows = sorted(place for vertical, place in rivers[:num_crossings] if not vertical)
    grid[rows, 1:-1] = LAVA
    grid[1:-1, columns] = LAVA
    crossings = [True] * len(columns) + [False] * len(rows)
    rng.shuffle(crossings)
    column_limits, row_limits = [0, *columns, size - 1], [0, *rows, size - 1]
    column, row = 0, 0
    for across_column in crossings:
        if across_column:
            x = column_limits[column + 1]
            y = rng.choice(range(row_limits[row] + 1, row_limits[row + 1]))
            column += 1
        else:
            x = rng.choice(range(column_limits[column] + 1, column_limits[column + 1]))
            y = row_limits[row + 1]
            row += 1
        grid[y, x] = EMPTY
    return grid


class LavaCrossingVector(BatchedEnv):
    """A batch of LavaCrossing grids; `gymnasium.make_vec("lpm/LavaCrossing-v0", ...)` gives this."""

    _saved = ("grid", "position", "direction", "steps", "success")

    def __init__(
        self,
        num_envs: int = 1,
        size: int = 9,
        num_crossings: int = 1,
        max_episode_steps: int | None = None,
        observation: View = "codes",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """`max_episode_steps`: minigrid's 4 * size ** 2 by default.

        `observation`: "codes" is minigrid's 7 x 7 x 3 array; "onehot" a vector, five numbers of 0 or 1 for each place
        of the view (unseen, empty, wall, goal, lava), which small networks learn from much faster.
        """
        expect(size >= 5 and size % 2 == 1, "size must be an odd number of at least 5", size)
        most = 2 * len(range(2, size - 2, 2))
        expect(0 <= num_crossings <= most, f"num_crossings must lie in [0, {most}] for size {size}", num_crossings)
        limit = 4 * size**2 if max_episode_steps is None else max_episode_steps
        expect(limit >= 1, "max_episode_steps must be at least 1", limit)
        expect(observation in get_args(View), 'observation must be "codes" or "onehot"', observation)
        self._onehot = observation == "onehot"
        space = Box(0, 1, (VIEW * VIEW * len(_KINDS),)) if self._onehot else Box(0, LAVA, (VIEW, VIEW, 3), np.uint8)
        super().__init__(num_envs, space, Discrete(_NUM_ACTIONS), autoreset_mode, render_mode)
        self.size, self.num_crossings = size, num_crossings
        self.num_cells = (size - 2) ** 2
        self._limit = limit
        self._table = view_table(size)
        self._grid = np.zeros((num_envs, size * size + 3), dtype=np.uint8)
        self._grid[:, -3:] = WALL, EMPTY, UNSEEN
        self._position = np.ones((num_envs, 2), dtype=np.int64)
        self._direction = np.zeros(num_envs, dtype=np.int64)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._success = np.zeros(num_envs, dtype=np.bool_)
        self._all = np.arange(num_envs)

    def _reset_rows(self, rows: Mask) -> None:
        for row in np.flatnonzero(rows).tolist():
            layout = generate_layout(self.rngs[row], self.size, self.num_crossings)
            self._grid[row, :-3] = layout.ravel()
        self._position[rows] = 1
        for array in (self._direction, self._steps, self._success):
            array[rows] = 0

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        acting = np.ones(self.num_envs, dtype=np.bool_) if active is None else active
        ahead = self._position + _STEPS[self._direction]
        tile = self._grid[self._all, ahead[:, 1] * self.size + ahead[:, 0]]
        forward = (actions == FORWARD) & acting
        moving = forward & (tile != WALL)
        turn = np.where(actions == LEFT, -1, np.where(actions == RIGHT, 1, 0))
        self._steps += acting
        self._direction = np.where(acting, (self._direction + turn) % 4, self._direction)
        self._position = np.where(moving[:, None], ahead, self._position)
        self._success = forward & (tile == GOAL)
        terminated = self._success | (forward & (tile == LAVA))
        truncated = acting & (self._steps >= self._limit)
        reward = np.where(self._success, 1.0 - 0.9 * (self._steps / self._limit), 0.0)
        return reward, terminated, truncated, bool((terminated | truncated).any())

    def _views(self, rows: Array | slice) -> Array:
        chosen = self._all[rows]
        x, y = self._position[chosen].T
        seen = self._table[x, y, self._direction[chosen]]
        kinds = self._grid[chosen[:, None, None], seen]
        views: Array = _ONEHOT[kinds].reshape(len(chosen), -1) if self._onehot else _CODES[kinds]
        return views

    def _info(self) -> dict[str, Array]:
        inner = self._position - 1
        cell, noise = inner[:, 1] * (self.size - 2) + inner[:, 0], np.zeros(self.num_envs, dtype=np.bool_)
        return {"cell": cell, "noise": noise, "success": self._success.copy()}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        return {"grid": (UNSEEN, LAVA), "position": (1, self.size - 2), "direction": (0, 3), "steps": (0, 2**62)}

    def _render_row(self, row: int) -> Array:
        tile = 20
        picture = blank(self.size * tile, self.size * tile, (60, 60, 60))
        x, y = self._position[row]
        view = set(self._table[x, y, self._direction[row]].ravel().tolist())
        for place, code in enumerate(self._grid[row, :-3]):
            ty, tx = divmod(place, self.size)
            lit = 40 if place in view else 0
            red, green, blue = (min(channel + lit, 255) for channel in _COLOURS[int(code)])
            left, top = tx * tile, ty * tile
            rectangle(picture, left, top, left + tile - 1, top + tile - 1, (red, green, blue))
        forward, right = _STEPS[self._direction[row]], _STEPS[(self._direction[row] + 1) % 4]
        centre = np.array([x + 0.5, y + 0.5]) * tile
        corners = np.array([forward * 8, -forward * 7 + right * 6, -forward * 7 - right * 6]) + centre
        triangle(picture, corners, (220, 40, 40))
        return picture


class LavaCrossing(SingleEnv):
    """One grid; `gymnasium.make("lpm/LavaCrossing-v0", ...)` gives this. Its options: those of `LavaCrossingVector`."""

    vector = LavaCrossingVector
