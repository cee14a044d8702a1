"""MountainCar with a noisy TV (the paper's appendix "Mountain Car"), stepped as one batch.

The dynamics are those of Gymnasium's MountainCarContinuous-v0, bit for bit. Its rewards are removed; three points
on the track, drawn once per seed and shared by all rows, pay 1 the first time the car passes them in an episode.
`noise=True` adds a second action: above 0 it freezes the car and the observation is uniform on [-1, 1].

What the paper leaves open, and is decided here: an episode lasts 999 steps (Gymnasium's limit) and does not end at
the old goal, because without its reward it is a place like any other; points lie at least 0.1 from the interval
where the car starts; `noise="idle"` freezes without noise, so the price of idling and that of noise can be told
apart.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.drawing import blank, disc, line, rectangle
from lpm.envs.numba_helpers import compiled
from lpm.envs.rng import GOLDEN, TO_UNIT, mix64
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, expect

LOW = np.array([-1.2, -0.07], dtype=np.float32)
HIGH = np.array([0.6, 0.07], dtype=np.float32)
START = (-0.6, -0.4)
GOAL = float(np.float32(0.45))
MARGIN = 0.1
BINS = 10
NUM_POINTS = 3
PLAIN, NOISE, IDLE = 0, 1, 2
NoiseMode = bool | Literal["idle"]

_MIN_POSITION, _MAX_POSITION, _MAX_SPEED = LOW[0], HIGH[0], HIGH[1]
_POWER = np.float32(0.0015)
_CAR = np.dtype(
    [
        ("position", np.float64),
        ("velocity", np.float64),
        ("observation", np.float32, (2,)),
        ("steps", np.int64),
        ("cell", np.int64),
        ("random", np.uint64),  # the row's stream of `noise_rng`
        ("passed", np.uint8, (NUM_POINTS,)),  # flags; numba has no nested bool
        ("moved", np.bool_),  # since the reset
        ("noise", np.bool_),
    ]
)
_STATE = ("position", "velocity", "passed", "steps", "cell", "observation", "moved", "noise")

_mix64 = compiled(mix64)


@compiled
def within_one(actions: Any) -> bool:
    """Whether all actions lie in [-1, 1]; false for nan."""
    return bool(np.all(np.abs(actions) <= 1.0))


@compiled
def cell_at(position: float, velocity: float) -> int:
    """The cell of the 10x10 grid over (position, velocity)."""
    column = min(max(int((position + 1.2) / 1.8 * BINS), 0), BINS - 1)
    return column * BINS + min(max(int((velocity + 0.07) / 0.14 * BINS), 0), BINS - 1)


@compiled
def drive(car: Any, force: Any, points: Any) -> float:
    """Push one car for one step; returns the reward of the points it passed.

    Gymnasium keeps the start in double precision and every later state in single precision; each rounding below is
    one of its own, which makes the trajectories equal to the last bit.
    """
    before = car["position"]
    angle = 3.0 * before
    if car["moved"]:
        angle = float(np.float32(angle))
    pull = np.float32(0.0025 * math.cos(angle))
    velocity = np.float32(car["velocity"] + np.float32(np.float32(force * _POWER) - pull))
    velocity = min(max(velocity, -_MAX_SPEED), _MAX_SPEED)
    position = np.float32(before + velocity)
    position = min(max(position, _MIN_POSITION), _MAX_POSITION)
    if position == _MIN_POSITION and velocity < 0.0:
        velocity = np.float32(0.0)
    car["position"], car["velocity"], car["moved"] = position, velocity, True
    car["cell"] = cell_at(car["position"], car["velocity"])
    pay = 0.0
    for j in range(NUM_POINTS):
        if (before - points[j]) * (position - points[j]) <= 0.0 and not car["passed"][j]:
            car["passed"][j] = 1
            pay += 1.0
    return pay


@compiled
def advance(cars: Any, active: Any, actions: Any, points: Any, mode: int, goal: float, limit: int) -> Any:
    """One step of the active rows, in place; returns reward, terminated, truncated, and whether any row is done."""
    reward = np.zeros(len(cars))
    terminated = np.zeros(len(cars), dtype=np.bool_)
    truncated = np.zeros(len(cars), dtype=np.bool_)
    any_done = False
    for i in range(len(cars)):
        if not active[i]:
            continue
        car = cars[i]
        car["steps"] += 1
        idle = mode != PLAIN and actions[i, 1] > 0.0
        car["noise"] = idle and mode == NOISE
        if not idle:
            reward[i] = drive(car, actions[i, 0], points)
            terminated[i] = car["position"] >= goal and car["velocity"] >= 0.0
        truncated[i] = car["steps"] >= limit
        any_done = any_done or terminated[i] or truncated[i]
        if car["noise"]:
            for j in range(2):
                car["random"] += GOLDEN
                unit = (_mix64(car["random"]) >> np.uint64(11)) * TO_UNIT
                car["observation"][j] = np.float32(2.0 * unit - 1.0)
        else:
            car["observation"][0] = np.float32(car["position"])
            car["observation"][1] = np.float32(car["velocity"])
    return reward, terminated, truncated, any_done


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
        """`points`: three places on the track with a reward (default: drawn from the seed)."""
        expect(noise in (False, True, "idle"), 'noise must be False, True or "idle"', noise)
        noise = noise if noise == "idle" else bool(noise)
        expect(max_episode_steps >= 1, "max_episode_steps must be at least 1", max_episode_steps)
        on_track = points is None or (len(points) == NUM_POINTS and all(LOW[0] <= p <= HIGH[0] for p in points))
        expect(on_track, f"points must be {NUM_POINTS} places in [-1.2, 0.6]", points)
        low, high = (np.minimum(LOW, -1), np.maximum(HIGH, 1)) if noise is True else (LOW, HIGH)
        actions = 1 if noise is False else 2
        super().__init__(num_envs, Box(low, high), Box(-1.0, 1.0, (actions,), np.float32), autoreset_mode, render_mode)
        self._chosen_points = points
        self._points = np.zeros(NUM_POINTS)
        self._mode = {False: PLAIN, True: NOISE, "idle": IDLE}[noise]
        self._limit, self._goal = max_episode_steps, GOAL if terminate_at_goal else math.inf
        self._cars = np.zeros(num_envs, dtype=_CAR)
        self.noise_rng.state = self._cars["random"]
        self._everyone = np.ones(num_envs, dtype=np.bool_)
        self._action_shape = (num_envs, actions)

    @property
    def points(self) -> NDArray[np.float64]:
        return self._points.copy()

    def _seeded(self, seed: int) -> None:
        self._points[:] = draw_points(seed) if self._chosen_points is None else sorted(self._chosen_points)

    def _reset_rows(self, rows: Mask) -> None:
        cars = self._cars
        for i in np.flatnonzero(rows).tolist():
            position = self.rngs[i].uniform(*START)
            cars["position"][i], cars["observation"][i] = position, (np.float32(position), 0.0)
            cars["cell"][i] = cell_at(position, 0.0)
        for name in ("velocity", "passed", "steps", "moved", "noise"):
            cars[name][rows] = 0

    def _checked_actions(self, actions: Array) -> Array:
        # Gymnasium's own check takes longer than the step; it is left to what is not plainly right.
        usual = type(actions) is np.ndarray and actions.dtype == np.float32 and actions.shape == self._action_shape
        return actions if usual and within_one(actions) else super()._checked_actions(actions)

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        acting = self._everyone if active is None else active
        outcome: Outcome = advance(self._cars, acting, actions, self._points, self._mode, self._goal, self._limit)
        return outcome

    def _views(self, rows: Array | slice) -> Array:
        return self._cars["observation"][rows]

    def _info(self) -> dict[str, Array]:
        return {"cell": self._cars["cell"].copy(), "noise": self._cars["noise"].copy()}

    def _state(self) -> dict[str, Array]:
        return {"points": self._points, **{name: self._cars[name] for name in _STATE}}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        space: Any = self.single_observation_space
        track, counts = (LOW[0], HIGH[0]), {"passed": (0, 1), "steps": (0, 2**62), "cell": (0, self.num_cells - 1)}
        seen = {"velocity": (LOW[1], HIGH[1]), "observation": (space.low, space.high)}
        return {"points": track, "position": track, **counts, **seen}

    def _shared_state(self) -> Sequence[str]:
        return ("points",)

    def _render_row(self, row: int) -> Array:
        return _draw(self._cars[row], self._points)


class MountainCar(SingleEnv):
    """One car; `gymnasium.make("lpm/MountainCar-v0", ...)` gives this. The options are those of `MountainCarVector`."""

    vector = MountainCarVector


def draw_points(seed: int) -> NDArray[np.float64]:
    """Three places on the track, uniform over all that lie at least `MARGIN` from the starting interval."""
    left = START[0] - MARGIN - float(LOW[0])
    right = float(HIGH[0]) - START[1] - MARGIN
    draws = np.random.default_rng([seed, 0x6C706D]).uniform(0.0, left + right, NUM_POINTS)
    places = np.where(draws < left, float(LOW[0]) + draws, START[1] + MARGIN + draws - left)
    return np.sort(places)


def _draw(car: Any, points: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The hill with the true car on the left, what the agent observes on the right."""
    picture = blank(200, 480, (255, 255, 255))
    track = np.linspace(-1.2, 0.6, 260)
    xs, ys = 10 + (track + 1.2) / 1.8 * 259, 180 - 150 * (np.sin(3 * track) * 0.45 + 0.55)
    for index in range(len(track) - 1):
        line(picture, xs[index], ys[index], xs[index + 1], ys[index + 1], (60, 60, 60))
    for j, point in enumerate(points):
        x, y = 10 + (point + 1.2) / 1.8 * 259, 180 - 150 * (math.sin(3 * point) * 0.45 + 0.55)
        colour = (190, 190, 190) if car["passed"][j] else (230, 160, 0)
        line(picture, x, y, x, y - 22, colour)
        rectangle(picture, x, y - 22, x + 9, y - 15, colour)
    position = car["position"]
    x, y = 10 + (position + 1.2) / 1.8 * 259, 174 - 150 * (math.sin(3 * position) * 0.45 + 0.55)
    disc(picture, x, y, 6, (40, 90, 200))
    for k in range(BINS + 1):
        line(picture, 290 + 18 * k, 10, 290 + 18 * k, 190, (225, 225, 225))
        line(picture, 290, 10 + 18 * k, 470, 10 + 18 * k, (225, 225, 225))
    noise, seen = car["noise"], car["observation"].astype(np.float64)
    seen = 0.5 + 0.5 * seen if noise else (seen - LOW) / (HIGH - LOW)
    colour = (210, 40, 40) if noise else (40, 90, 200)
    disc(picture, 290 + 180 * seen[0], 190 - 180 * seen[1], 6, colour)
    return picture
