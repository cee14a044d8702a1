"""How the agent moves in the maze: compiled, in place, the same arithmetic as Miniworld's, and no rendering."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lpm.envs._jit import jit
from lpm.envs.maze_geometry import (
    CELL,
    FORWARD_STEP,
    GRID,
    RADIUS,
    START,
    TURN_STEP,
    Action,
    wall_segments,
)

_TURN_LEFT, _TURN_RIGHT = int(Action.TURN_LEFT), int(Action.TURN_RIGHT)
_FORWARD, _BACK = int(Action.FORWARD), int(Action.BACK)


@jit
def blocked(x: float, z: float, segments: NDArray[np.float64]) -> bool:
    """Whether a circle of the agent's radius at (x, z) touches a wall."""
    for i in range(segments.shape[0]):
        ax, az = segments[i, 0], segments[i, 1]
        abx, abz = segments[i, 2] - ax, segments[i, 3] - az
        along = ((x - ax) * abx + (z - az) * abz) / (abx * abx + abz * abz)
        along = min(max(along, 0.0), 1.0)
        dx, dz = (ax + along * abx) - x, (az + along * abz) - z
        if math.sqrt(dx * dx + dz * dz) < RADIUS:
            return True
    return False


@jit
def _advance_one(pose: NDArray[np.float64], action: int, segments: NDArray[np.float64]) -> None:
    if action == _TURN_LEFT:
        pose[2] += TURN_STEP
    elif action == _TURN_RIGHT:
        pose[2] -= TURN_STEP
    elif action in (_FORWARD, _BACK):
        step = FORWARD_STEP if action == _FORWARD else -FORWARD_STEP
        x = pose[0] + math.cos(pose[2]) * step
        z = pose[1] - math.sin(pose[2]) * step
        if not blocked(x, z, segments):
            pose[0] = x
            pose[1] = z


@jit
def advance(pose: NDArray[np.float64], action: NDArray[np.int64], segments: NDArray[np.float64]) -> None:
    """Apply one action per row to `pose` (rows, 3: x, z, heading), in place. A blocked move changes nothing."""
    for i in range(pose.shape[0]):
        _advance_one(pose[i], action[i], segments)


@jit
def _walk(
    pose: NDArray[np.float64],
    chosen: NDArray[np.int64],
    repeat: NDArray[np.bool_],
    segments: NDArray[np.float64],
) -> tuple[NDArray[np.int64], int]:
    seen = np.zeros(GRID[0] * GRID[1], dtype=np.bool_)
    curve = np.empty(chosen.shape[0], dtype=np.int64)
    cells = 1
    seen[int(pose[0] / CELL) * GRID[1] + int(pose[1] / CELL)] = True
    executed = -1
    idle = 0
    for t in range(chosen.shape[0]):
        if executed < 0 or not repeat[t]:
            executed = chosen[t]
        _advance_one(pose, executed, segments)
        if executed > _BACK:
            idle += 1
        cell = int(pose[0] / CELL) * GRID[1] + int(pose[1] / CELL)
        if not seen[cell]:
            seen[cell] = True
            cells += 1
        curve[t] = cells
    return curve, idle


def random_walk_coverage(
    steps: int, seed: int, *, sticky: float = 0.0, actions: int = 5
) -> tuple[NDArray[np.int64], float]:
    """Cells visited after each step by a uniform random policy, and the share of idle steps. No rendering.

    >>> curve, idle = random_walk_coverage(1000, seed=0)
    >>> curve.shape, bool(curve[-1] > 1), bool(0 < idle < 1)
    ((1000,), True, True)
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if not 0.0 <= sticky <= 1.0:
        raise ValueError(f"sticky must be a probability in [0, 1], got {sticky}")
    rng = np.random.default_rng(seed)
    chosen = rng.integers(actions, size=steps)
    repeat = rng.random(steps) < sticky
    curve, idle = _walk(np.array(START), chosen, repeat, wall_segments())
    return curve, idle / steps
