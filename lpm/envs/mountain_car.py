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
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.compiled import compiled
from lpm.envs.drawing import blank, disc, line, rectangle
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, Rewards, SingleEnv, invalid_action

BINS = 10
NUM_POINTS = 3
LOW = np.array([-1.2, -0.07], dtype=np.float32)
HIGH = np.array([0.6, 0.07], dtype=np.float32)
START = (-0.6, -0.4)
MARGIN = 0.1
NoiseMode = bool | Literal["idle"]

_ROW = np.dtype(
    [
        ("position", "f8"),
        ("velocity", "f8"),
        ("points", "f8", (NUM_POINTS,)),
        ("passed", "i8"),
        ("steps", "i8"),
        ("rng", "u8"),
        ("cell", "i8"),
        ("observation", "f4", (2,)),
        ("moved", "?"),
        ("noise", "?"),
        ("active", "?"),
    ],
    align=True,
)
_Slot = tuple[int, Array, Array, Array, Array, Array, Array]
_FLOAT32 = np.dtype(np.float32)
_BLOCK = 256  # steps whose outputs are allocated together; a returned array is never written again
_PLAIN, _NOISE, _IDLE = 0, 1, 2
_MIN_POSITION, _MAX_POSITION = np.float32(-1.2), np.float32(0.6)
_MAX_SPEED = np.float32(0.07)
_GOAL = np.float32(0.45)
_POWER = np.float32(0.0015)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@compiled
def _unit(counter: Any) -> Any:
    """SplitMix64's output for a counter, in [0, 1): the same numbers as `RowRandom.uniform`."""
    word = (counter ^ (counter >> _S30)) * _MIX_1
    word = (word ^ (word >> _S27)) * _MIX_2
    return ((word ^ (word >> _S31)) >> _S11) * 1.1102230246251565e-16


@compiled
def _cell(position: float, velocity: float) -> int:
    column = min(max(int((position + 1.2) / 1.8 * BINS), 0), BINS - 1)
    return column * BINS + min(max(int((velocity + 0.07) / 0.14 * BINS), 0), BINS - 1)


@compiled
def _advance(rows: Any, actions: Any, outputs: Any, t: int, mode: int, limit: int, goal: bool) -> int:
    """One step of every active row into slot t of the outputs. Returns -1 for a bad action, else the done rows."""
    n = rows.shape[0]
    obs = outputs[t, : 8 * n].view(np.float32)
    reward = outputs[t, 8 * n : 16 * n].view(np.float64)
    cell = outputs[t, 16 * n : 24 * n].view(np.int64)
    flags = outputs[t, 24 * n :].view(np.bool_)
    for i in range(n):
        for j in range(actions.shape[1]):
            if not -1.0 <= actions[i, j] <= 1.0:
                return -1
    num_done = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        gain = 0.0
        terminated = False
        truncated = False
        if row["active"]:
            row["noise"] = False
            row["steps"] += 1
            if mode != _PLAIN and actions[i, 1] > 0.0:
                if mode == _NOISE:
                    row["noise"] = True
                    for j in range(2):
                        row["rng"] += _GOLDEN
                        row["observation"][j] = 2.0 * _unit(row["rng"]) - 1.0
                else:
                    row["observation"][0] = row["position"]
                    row["observation"][1] = row["velocity"]
            else:
                # Gymnasium keeps the start in double precision and every later state in single precision;
                # each rounding below is one of its own, which makes the trajectories equal to the last bit.
                old = row["position"]
                angle = 3.0 * old
                if row["moved"]:
                    angle = float(np.float32(angle))
                pull = np.float32(0.0025 * math.cos(angle))
                push = np.float32(actions[i, 0] * _POWER)
                velocity = np.float32(row["velocity"] + np.float32(push - pull))
                velocity = min(max(velocity, -_MAX_SPEED), _MAX_SPEED)
                position = np.float32(old + velocity)
                position = min(max(position, _MIN_POSITION), _MAX_POSITION)
                if position == _MIN_POSITION and velocity < 0.0:
                    velocity = np.float32(0.0)
                row["position"] = position
                row["velocity"] = velocity
                row["moved"] = True
                row["observation"][0] = position
                row["observation"][1] = velocity
                row["cell"] = _cell(row["position"], row["velocity"])
                for j in range(NUM_POINTS):
                    bit = 1 << j
                    if (
                        row["passed"] & bit == 0
                        and (old - row["points"][j]) * (row["position"] - row["points"][j]) <= 0.0
                    ):
                        row["passed"] |= bit
                        gain += 1.0
                terminated = bool(goal and position >= _GOAL and velocity >= 0.0)
            truncated = row["steps"] >= limit
            if terminated or truncated:
                num_done += 1
        obs[2 * i] = row["observation"][0]
        obs[2 * i + 1] = row["observation"][1]
        reward[i] = gain
        cell[i] = row["cell"]
        flags[i] = terminated
        flags[n + i] = truncated
        flags[2 * n + i] = row["noise"]
    return num_done


class _Outputs:
    """The outputs of many steps, allocated together: one argument for the kernel, no small arrays at each step."""

    def __init__(self, n: int) -> None:
        self.buffer = np.empty((_BLOCK, 32 * n), dtype=np.uint8)  # 27 bytes a row are used; 32 keep slots aligned
        observation = self.buffer[:, : 8 * n].view(np.float32).reshape(_BLOCK, n, 2)
        reward = self.buffer[:, 8 * n : 16 * n].view(np.float64)
        cell = self.buffer[:, 16 * n : 24 * n].view(np.int64)
        flags = self.buffer[:, 24 * n : 27 * n].view(np.bool_)
        terminated, truncated, noise = flags[:, :n], flags[:, n : 2 * n], flags[:, 2 * n :]
        views = (range(_BLOCK), observation, reward, terminated, truncated, noise, cell)
        self.slots: Iterator[_Slot] = iter(zip(*views, strict=True))


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
        self._mode = {False: _PLAIN, True: _NOISE, "idle": _IDLE}[noise]
        self._limit = max_episode_steps
        self._goal = terminate_at_goal
        self._rows = np.zeros(num_envs, dtype=_ROW)
        self._rows["active"] = True
        self.noise_rng.state = self._rows["rng"]
        self._outputs = _Outputs(num_envs)
        self._action_shape = (num_envs, actions)

    @property
    def points(self) -> NDArray[np.float64]:
        """The three places that pay."""
        return np.array(self._rows["points"][0])

    def _seeded(self, seed: int) -> None:
        if self._points is None:
            self._rows["points"] = draw_points(seed)
        else:
            self._rows["points"] = np.sort(np.asarray(self._points, dtype=np.float64))

    def _reset_rows(self, rows: Mask) -> None:
        state = self._rows
        for i in np.flatnonzero(rows).tolist():
            position = self.rngs[i].uniform(*START)
            state["position"][i], state["observation"][i] = position, (position, 0.0)
            state["cell"][i] = _cell(position, 0.0)
        state["velocity"][rows] = 0.0
        for name in ("passed", "steps", "moved", "noise"):
            state[name][rows] = 0

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
        slot = next(self._outputs.slots, None) or self._next_block()
        t, observation, reward, terminated, truncated, noise, cell = slot
        num_done = _advance(self._rows, actions, self._outputs.buffer, t, self._mode, self._limit, self._goal)
        info = {"cell": cell, "noise": noise}
        if num_done:
            if num_done < 0:
                raise invalid_action(actions, self.action_space)
            info = self._end_episodes(terminated | truncated, observation, info)
        return observation, reward, terminated, truncated, info

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        t, _, reward, terminated, truncated, _, _ = next(self._outputs.slots, None) or self._next_block()
        self._rows["active"] = True if active is None else active
        num_done = _advance(self._rows, actions, self._outputs.buffer, t, self._mode, self._limit, self._goal)
        self._rows["active"] = True
        return reward, terminated, truncated, num_done > 0

    def _next_block(self) -> _Slot:
        self._outputs = _Outputs(self.num_envs)
        return next(self._outputs.slots)

    def _observe(self, rows: Mask | None = None, out: Array | None = None) -> Array:
        seen = self._rows["observation"]
        if out is None:
            return seen.copy()
        selection = slice(None) if rows is None else rows
        out[selection] = seen[selection]
        return out

    def _info(self) -> dict[str, Array]:
        return {"cell": self._rows["cell"].copy(), "noise": self._rows["noise"].copy()}

    def _state(self) -> dict[str, Array]:
        return {name: self._rows[name] for name in _ROW.names or () if name not in ("rng", "active")}

    def _render_row(self, row: int) -> Array:
        return _draw(self._rows[row])


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


def _draw(row: Any) -> NDArray[np.uint8]:
    """The hill with the true car on the left, what the agent observes on the right."""
    picture = blank(200, 480, (255, 255, 255))
    track = np.linspace(-1.2, 0.6, 260)
    xs, ys = 10 + (track + 1.2) / 1.8 * 259, 180 - 150 * (np.sin(3 * track) * 0.45 + 0.55)
    for index in range(len(track) - 1):
        line(picture, xs[index], ys[index], xs[index + 1], ys[index + 1], (60, 60, 60))
    for j, point in enumerate(row["points"]):
        x, y = 10 + (point + 1.2) / 1.8 * 259, 180 - 150 * (math.sin(3 * point) * 0.45 + 0.55)
        colour = (190, 190, 190) if row["passed"] >> j & 1 else (230, 160, 0)
        line(picture, x, y, x, y - 22, colour)
        rectangle(picture, x, y - 22, x + 9, y - 15, colour)
    x = 10 + (row["position"] + 1.2) / 1.8 * 259
    disc(picture, x, 174 - 150 * (math.sin(3 * row["position"]) * 0.45 + 0.55), 6, (40, 90, 200))
    for k in range(BINS + 1):
        line(picture, 290 + 18 * k, 10, 290 + 18 * k, 190, (225, 225, 225))
        line(picture, 290, 10 + 18 * k, 470, 10 + 18 * k, (225, 225, 225))
    if row["noise"]:
        seen = 0.5 + 0.5 * np.asarray(row["observation"])
    else:
        seen = (np.asarray(row["observation"]) - LOW) / (HIGH - LOW)
    colour = (210, 40, 40) if row["noise"] else (40, 90, 200)
    disc(picture, 290 + 180 * seen[0], 190 - 180 * seen[1], 6, colour)
    return picture
