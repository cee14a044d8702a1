"""MountainCar with a noisy TV (the paper's appendix "Mountain Car"), stepped as one batch.

The dynamics are those of Gymnasium's MountainCarContinuous-v0, bit for bit. Its rewards are removed; three points
on the track, drawn once per seed and shared by all rows, pay 1 the first time the car passes them in an episode.
`noise=True` adds a second action: above 0 it freezes the car and the observation is uniform on [-1, 1].

What the paper leaves open, and is decided here: an episode lasts 999 steps (Gymnasium's limit) and does not end at
the old goal, because without its reward it is a place like any other; points lie at least 0.1 from the interval
where the car starts; `noise="idle"` freezes without noise, so the price of idling and that of noise can be told
apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.drawing import blank, disc, line, rectangle
from lpm.envs.mountain_car_kernel import BINS, IDLE, NOISE, NUM_POINTS, PLAIN, Cars, Outputs, Slot, advance, cell_at
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, Rewards, SingleEnv, invalid_action

LOW = np.array([-1.2, -0.07], dtype=np.float32)
HIGH = np.array([0.6, 0.07], dtype=np.float32)
START = (-0.6, -0.4)
MARGIN = 0.1
NoiseMode = bool | Literal["idle"]

_FLOAT32 = np.dtype(np.float32)
_STATE = ("position", "velocity", "points", "passed", "steps", "cell", "observation", "moved", "noise")


class MountainCarVector(BatchedEnv):
    """A batch of noisy-TV mountain cars; `gymnasium.make_vec("lpm/MountainCar-v0", ...)` gives this."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}  # type: ignore[misc]
    num_cells = BINS * BINS

    def __init__(
        self,
        num_envs: int = 1,
        noise: NoiseMode = False,
        points: Sequence[float] | None = None,
        terminate_at_goal: bool = False,
        max_episode_steps: int = 999,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """`points`: three places on the track that pay (default: drawn from the seed)."""
        if noise not in (False, True, "idle"):
            raise ValueError(f'noise must be False, True or "idle", got {noise!r}')
        noise = noise if noise == "idle" else bool(noise)
        if max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be at least 1, got {max_episode_steps}")
        if points is not None and (
            len(points) != NUM_POINTS or not all(LOW[0] <= point <= HIGH[0] for point in points)
        ):
            raise ValueError(f"points must be {NUM_POINTS} places in [-1.2, 0.6], got {points!r}")
        low, high = (np.minimum(LOW, -1), np.maximum(HIGH, 1)) if noise is True else (LOW, HIGH)
        actions = 1 if noise is False else 2
        super().__init__(num_envs, Box(low, high), Box(-1.0, 1.0, (actions,), np.float32), autoreset_mode, render_mode)
        self._points = points
        mode = {False: PLAIN, True: NOISE, "idle": IDLE}[noise]
        self._cars = Cars(num_envs, mode, max_episode_steps, terminate_at_goal)
        self._memory = self._cars.memory
        self.noise_rng.state = self._cars.rng
        self._next_block()
        self._action_shape = (num_envs, actions)

    @property
    def points(self) -> NDArray[np.float64]:
        """The three places that pay."""
        return self._cars.points.copy()

    def _seeded(self, seed: int) -> None:
        self._cars.points[:] = draw_points(seed) if self._points is None else sorted(self._points)

    def _reset_rows(self, rows: Mask) -> None:
        cars = self._cars
        for i in np.flatnonzero(rows).tolist():
            position = self.rngs[i].uniform(*START)
            cars.position[i], cars.observation[i] = position, (np.float32(position), 0.0)
            cars.cell[i] = cell_at(position, 0.0)
        for array in (cars.velocity, cars.passed, cars.steps, cars.moved, cars.noise):
            array[rows] = 0

    def step(self, actions: Array) -> tuple[Array, Rewards, Mask, Mask, dict[str, Any]]:
        """Advance every row by one step under the rules of the autoreset mode."""
        if (
            self._any_pending
            or type(actions) is not np.ndarray
            or actions.dtype is not _FLOAT32
            or actions.shape != self._action_shape
        ):
            return super().step(actions)
        # The common case of BatchedEnv.step in one frame: at this speed it is Python calls that cost.
        try:
            t, observation, reward, terminated, truncated, noise, cell = self._next_slot()
        except StopIteration:
            t, observation, reward, terminated, truncated, noise, cell = self._next_block()
        num_done = advance(self._memory, actions, self._buffer, t)
        info = {"cell": cell, "noise": noise}
        if num_done:
            if num_done < 0:
                raise invalid_action(actions, self.action_space)
            info = self._end_episodes(terminated | truncated, observation, info)
        return observation, reward, terminated, truncated, info

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        try:
            t, _, reward, terminated, truncated, _, _ = self._next_slot()
        except StopIteration:
            t, _, reward, terminated, truncated, _, _ = self._next_block()
        self._cars.active[:] = True if active is None else active
        num_done = advance(self._memory, actions, self._buffer, t)
        self._cars.active[:] = True
        return reward, terminated, truncated, num_done > 0

    def _next_block(self) -> Slot:
        outputs = Outputs(self.num_envs)
        self._buffer, self._next_slot = outputs.buffer, outputs.next_slot
        return self._next_slot()

    def _observe(self, rows: Mask | None = None, out: Array | None = None) -> Array:
        seen = self._cars.observation
        if out is None:
            return np.array(seen, dtype=np.float32, order="C")
        selection = slice(None) if rows is None else rows
        out[selection] = seen[selection]
        return out

    def _info(self) -> dict[str, Array]:
        return {"cell": self._cars.cell.astype(np.int64), "noise": self._cars.noise != 0.0}

    def _state(self) -> dict[str, Array]:
        return {name: getattr(self._cars, name) for name in _STATE}

    def _shared_state(self) -> Sequence[str]:
        return ("points",)

    def _render_row(self, row: int) -> Array:
        return _draw(self._cars, row)


class MountainCar(SingleEnv):
    """One noisy-TV mountain car; `gymnasium.make("lpm/MountainCar-v0", ...)` gives this."""

    def __init__(
        self,
        noise: NoiseMode = False,
        points: Sequence[float] | None = None,
        terminate_at_goal: bool = False,
        max_episode_steps: int = 999,
        render_mode: str | None = None,
    ) -> None:
        mode = AutoresetMode.DISABLED
        super().__init__(MountainCarVector(1, noise, points, terminate_at_goal, max_episode_steps, mode, render_mode))


def draw_points(seed: int) -> NDArray[np.float64]:
    """Three places on the track, uniform over all that lie at least `MARGIN` from the starting interval."""
    left = START[0] - MARGIN - float(LOW[0])
    right = float(HIGH[0]) - START[1] - MARGIN
    draws = np.random.default_rng([seed, 0x6C706D]).uniform(0.0, left + right, NUM_POINTS)
    places = np.where(draws < left, float(LOW[0]) + draws, START[1] + MARGIN + draws - left)
    return np.sort(places)


def _draw(cars: Cars, row: int) -> NDArray[np.uint8]:
    """The hill with the true car on the left, what the agent observes on the right."""
    picture = blank(200, 480, (255, 255, 255))
    track = np.linspace(-1.2, 0.6, 260)
    xs, ys = 10 + (track + 1.2) / 1.8 * 259, 180 - 150 * (np.sin(3 * track) * 0.45 + 0.55)
    for index in range(len(track) - 1):
        line(picture, xs[index], ys[index], xs[index + 1], ys[index + 1], (60, 60, 60))
    for j, point in enumerate(cars.points):
        x, y = 10 + (point + 1.2) / 1.8 * 259, 180 - 150 * (math.sin(3 * point) * 0.45 + 0.55)
        colour = (190, 190, 190) if cars.passed[row, j] else (230, 160, 0)
        line(picture, x, y, x, y - 22, colour)
        rectangle(picture, x, y - 22, x + 9, y - 15, colour)
    position = cars.position[row]
    x, y = 10 + (position + 1.2) / 1.8 * 259, 174 - 150 * (math.sin(3 * position) * 0.45 + 0.55)
    disc(picture, x, y, 6, (40, 90, 200))
    for k in range(BINS + 1):
        line(picture, 290 + 18 * k, 10, 290 + 18 * k, 190, (225, 225, 225))
        line(picture, 290, 10 + 18 * k, 470, 10 + 18 * k, (225, 225, 225))
    noise, seen = cars.noise[row], cars.observation[row]
    seen = 0.5 + 0.5 * seen if noise else (seen - LOW) / (HIGH - LOW)
    colour = (210, 40, 40) if noise else (40, 90, 200)
    disc(picture, 290 + 180 * seen[0], 190 - 180 * seen[1], 6, colour)
    return picture
