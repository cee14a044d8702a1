"""Pictures of environments and of their cells, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import lpm.envs  # noqa: F401  (registers our ids)
from lpm.experiments.evidence import Frame
from lpm.storage.files import png_bytes


def rendered(env_id: str, cases: Mapping[str, Mapping[str, Any]], steps: int, seed: int = 0) -> tuple[Frame, ...]:
    """One picture a case (caption to arguments of the environment), after some random steps.

    A report must not need the packages of an environment: where one is missing there are no pictures.
    """
    frames = []
    for caption, arguments in cases.items():
        try:
            env = gymnasium.make(env_id, render_mode="rgb_array", disable_env_checker=True, **arguments)
        except ImportError:
            return ()
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(steps):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        frames.append(Frame(caption, png_bytes(np.asarray(env.render(), dtype=np.uint8))))
        env.close()
    return tuple(frames)


# ---- visits per cell as a picture: rows from the top, NaN where no agent can be ----------------------------------
def mountain_car_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Position to the right, velocity upwards."""
    return visits.reshape(10, 10).T[::-1]


def maze_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """x to the right, z downwards: the maze from above."""
    from lpm.envs.maze_geometry import GRID, maze_cells

    return np.where(maze_cells(), visits.reshape(GRID), np.nan).T


def square_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """A square floor from above, its cells numbered row by row."""
    side = int(np.sqrt(len(visits)))
    return visits.reshape(side, side)
