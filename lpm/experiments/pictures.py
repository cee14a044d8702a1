"""Visits per cell as a picture: rows from the top, NaN where no agent can be."""

import numpy as np
from numpy.typing import NDArray


def mountain_car_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Position to the right, velocity upwards."""
    return visits.reshape(10, 10).T[::-1]


def maze_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """x to the right, z downwards: the maze from above."""
    from lpm.envs.maze_geometry import GRID, maze_cells

    return np.where(maze_cells(), visits.reshape(GRID), np.nan).T


def floor_grid(free: NDArray[np.bool_], visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """A floor from above, indexed [y, x], whose free cells are numbered row by row."""
    floor = np.full(free.shape, np.nan)
    floor[free] = visits
    return floor


def square_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """A square floor from above, its cells numbered row by row."""
    side = int(np.sqrt(len(visits)))
    return visits.reshape(side, side)
