"""One step of a batch of mountain cars, compiled, and the memory it works on.

The state of all rows lies in one array and the outputs of a step in another, because each array handed to a
compiled function costs more time than a car's step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.envs.compiled import compiled

BINS = 10
NUM_POINTS = 3
PLAIN, NOISE, IDLE = 0, 1, 2
Slot = tuple[int, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

_BLOCK = 64  # steps whose outputs are allocated together; a returned array is never written again
_SHARED = NUM_POINTS + 3
_PER_ROW = 11 + NUM_POINTS
_MIN_POSITION, _MAX_POSITION = np.float32(-1.2), np.float32(0.6)
_MAX_SPEED = np.float32(0.07)
_GOAL = np.float32(0.45)
_POWER = np.float32(0.0015)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


class Cars:
    """The state of a batch: named arrays that are views of one array of doubles (whole numbers and flags too)."""

    def __init__(self, n: int, mode: int, max_steps: int, goal: bool) -> None:
        self.memory = np.zeros(_SHARED + _PER_ROW * n)
        self.points = self.memory[:NUM_POINTS]
        self.memory[NUM_POINTS:_SHARED] = mode, max_steps, goal
        rows = self.memory[_SHARED:].reshape(_PER_ROW, n)
        self.position, self.velocity, self.steps, self.cell, self.moved, self.noise, self.active = rows[:7]
        self.observation = rows[7:9].T
        self.passed = rows[9 : 9 + NUM_POINTS].T
        self.rng = rows[-1].view(np.uint64)
        self.active[:] = 1.0


class Outputs:
    """The outputs of many steps: observation, reward, terminated, truncated, noise and cell of each slot."""

    def __init__(self, n: int) -> None:
        self.buffer = np.empty((_BLOCK, 32 * n), dtype=np.uint8)  # 27 bytes a row are used; 32 keep slots aligned
        observation = self.buffer[:, : 8 * n].view(np.float32).reshape(_BLOCK, n, 2)
        reward = self.buffer[:, 8 * n : 16 * n].view(np.float64)
        cell = self.buffer[:, 16 * n : 24 * n].view(np.int64)
        flags = self.buffer[:, 24 * n : 27 * n].view(np.bool_)
        terminated, truncated, noise = flags[:, :n], flags[:, n : 2 * n], flags[:, 2 * n :]
        views = (range(_BLOCK), observation, reward, terminated, truncated, noise, cell)
        self.next_slot: Callable[[], Slot] = iter(zip(*views, strict=True)).__next__


@compiled
def unit(counter: Any) -> Any:
    """SplitMix64's output for a counter, in [0, 1): the same numbers as `RowRandom.uniform`."""
    word = (counter ^ (counter >> _S30)) * _MIX_1
    word = (word ^ (word >> _S27)) * _MIX_2
    return ((word ^ (word >> _S31)) >> _S11) * 1.1102230246251565e-16


@compiled
def cell_at(position: float, velocity: float) -> int:
    """The cell of the 10x10 grid over (position, velocity)."""
    column = min(max(int((position + 1.2) / 1.8 * BINS), 0), BINS - 1)
    return column * BINS + min(max(int((velocity + 0.07) / 0.14 * BINS), 0), BINS - 1)


@compiled
def advance(cars: Any, actions: Any, outputs: Any, t: int) -> int:
    """One step of every active row into slot t of the outputs; returns the number of done rows, -1 for a bad action."""
    n = actions.shape[0]
    for i in range(n):
        for j in range(actions.shape[1]):
            if not -1.0 <= actions[i, j] <= 1.0:
                return -1
    mode, limit, goal = cars[NUM_POINTS], cars[NUM_POINTS + 1], cars[NUM_POINTS + 2]
    position, velocity, steps, cell = _SHARED, _SHARED + n, _SHARED + 2 * n, _SHARED + 3 * n
    moved, noise, active = _SHARED + 4 * n, _SHARED + 5 * n, _SHARED + 6 * n
    seen, passed, pull = _SHARED + 7 * n, _SHARED + 9 * n, _SHARED + (9 + NUM_POINTS) * n
    rng = cars[_SHARED + (_PER_ROW - 1) * n :].view(np.uint64)
    out_seen = outputs[t, : 8 * n].view(np.float32)
    out_reward = outputs[t, 8 * n : 16 * n].view(np.float64)
    out_cell = outputs[t, 16 * n : 24 * n].view(np.int64)
    out_flags = outputs[t, 24 * n : 27 * n].view(np.bool_)
    # The cosines in a loop of their own: calls between the other operations would keep them from overlapping.
    for i in range(n):
        angle = 3.0 * cars[position + i]
        if cars[moved + i] != 0.0:
            angle = float(np.float32(angle))
        cars[pull + i] = np.float32(0.0025 * math.cos(angle))
    num_done = 0
    for i in range(n):
        gain = 0.0
        terminated = False
        truncated = False
        if cars[active + i] != 0.0:
            cars[noise + i] = 0.0
            cars[steps + i] += 1.0
            if mode != PLAIN and actions[i, 1] > 0.0:
                if mode == NOISE:
                    cars[noise + i] = 1.0
                    for j in range(2):
                        rng[i] += _GOLDEN
                        cars[seen + j * n + i] = np.float32(2.0 * unit(rng[i]) - 1.0)
                else:
                    cars[seen + i] = np.float32(cars[position + i])
                    cars[seen + n + i] = cars[velocity + i]
            else:
                # Gymnasium keeps the start in double precision and every later state in single precision;
                # each rounding below is one of its own, which makes the trajectories equal to the last bit.
                old = cars[position + i]
                push = np.float32(actions[i, 0] * _POWER)
                v = np.float32(cars[velocity + i] + np.float32(push - np.float32(cars[pull + i])))
                v = min(max(v, -_MAX_SPEED), _MAX_SPEED)
                p = np.float32(old + v)
                p = min(max(p, _MIN_POSITION), _MAX_POSITION)
                if p == _MIN_POSITION and v < 0.0:
                    v = np.float32(0.0)
                cars[position + i] = cars[seen + i] = p
                cars[velocity + i] = cars[seen + n + i] = v
                cars[moved + i] = 1.0
                cars[cell + i] = cell_at(cars[position + i], cars[velocity + i])
                for j in range(NUM_POINTS):
                    if (old - cars[j]) * (p - cars[j]) <= 0.0 and cars[passed + j * n + i] == 0.0:
                        cars[passed + j * n + i] = 1.0
                        gain += 1.0
                terminated = bool(goal != 0.0 and p >= _GOAL and v >= 0.0)
            truncated = bool(cars[steps + i] >= limit)
            if terminated or truncated:
                num_done += 1
        out_seen[2 * i] = cars[seen + i]
        out_seen[2 * i + 1] = cars[seen + n + i]
        out_reward[i] = gain
        out_cell[i] = int(cars[cell + i])
        out_flags[i] = terminated
        out_flags[n + i] = truncated
        out_flags[2 * n + i] = cars[noise + i] != 0.0
    return num_done
