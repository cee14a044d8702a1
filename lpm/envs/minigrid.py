"""MiniGrid and BabyAI for networks: codes as codes, the agent's direction included, many environments at once.

`MiniGridVector` steps minigrid's own environments (its rules, its layouts, its random numbers) and computes what all of
them see in one go, which is most of minigrid's time otherwise. `MiniGridObservation` gives the same observations around
one environment, for other libraries. The mission, a text, is left out.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from operator import itemgetter
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from lpm.envs.rng import check_generators, generators_from_array, generators_to_array
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, State, expect

View = Literal["onehot", "flat", "image"]
"""onehot: a vector of 0 and 1, for each place of the view 11 objects, 6 colours and 3 states, then 4 directions; flat:
the codes as numbers and the direction one-hot, one vector; image: the codes alone, as minigrid gives them."""
Noise = Literal["none", "action", "gaussian"]
"""action: one more action, which does nothing but pass time and shows random codes in place of the view; gaussian:
added to every number of every observation."""

OBJECTS, COLOURS, STATES, DIRECTIONS = 11, 6, 3, 4
_CODES = np.indices((STATES, COLOURS, OBJECTS)).reshape(3, -1)[::-1].T.astype(np.uint8)
"""Object, colour and state of each place by one number, object + 11 colour + 66 state."""
_EYES = (np.eye(size, dtype=np.uint8) for size in (OBJECTS, COLOURS, STATES))
_ONEHOT = np.concatenate([eye[codes] for eye, codes in zip(_EYES, _CODES.T, strict=True)], axis=1)
_NUMBER = {tuple(codes): number for number, codes in enumerate(_CODES.tolist())}
_UNSEEN, _EMPTY = _NUMBER[0, 0, 0], _NUMBER[1, 0, 0]
_OPAQUE = (_CODES[:, 0] == 2) | ((_CODES[:, 0] == 4) & (_CODES[:, 2] > 0))  # walls, and doors that are not open
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
LARGEST_STD = 1e30
"""Of Gaussian noise: observations with it are still numbers of single precision."""
_WIDEST_TABLE = 9  # of views whose lines of sight are looked up


class MiniGridObservation(gym.ObservationWrapper[Array, Any, Any]):
    """One MiniGrid environment, or a wrapper of one, with observations that are one array.

    For Stable-Baselines3: `make_vec_env("MiniGrid-DoorKey-8x8-v0", wrapper_class=MiniGridObservation)`.
    """

    def __init__(self, env: gym.Env[Any, Any], observation: View = "onehot") -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Dict) or not {"image", "direction"} <= set(space):
            raise ValueError(f"MiniGridObservation: expected a Dict with image and direction, got {space}")
        expect(observation in get_args(View), f"observation: expected one of {', '.join(get_args(View))}", observation)
        self._kind = observation
        self.observation_space = _space(self._kind, space["image"].shape or ())

    def observation(self, observation: Any) -> Array:
        numbers = observation["image"].astype(np.int64) @ (1, OBJECTS, OBJECTS * COLOURS)
        view: Array = _present(self._kind, numbers[None], np.array([observation["direction"]]))[0]
        return view


class MiniGridVector(BatchedEnv):
    """Any MiniGrid or BabyAI environment as one batch: the same episodes as minigrid's own for the same seeds."""

    _saved = ("start", "actions", "count", "watching", "noisy", "screen", "added")

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        observation: View = "onehot",
        noise: Noise = "none",
        noise_std: float = 0.1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are those of the environment, such as `agent_view_size` or `max_steps`."""
        expect(observation in get_args(View), f"observation: expected one of {', '.join(get_args(View))}", observation)
        expect(noise in get_args(Noise), f"noise: expected one of {', '.join(get_args(Noise))}", noise)
        fits = isinstance(noise_std, (int, float)) and 0 <= noise_std <= LARGEST_STD
        expect(fits, f"noise_std: expected a finite number from 0 to {LARGEST_STD:g}", noise_std)
        self._kind, self.noise = observation, noise
        spec = gym.spec(env_id)
        create = grid_class(spec)
        if create is None:
            raise ValueError(f"MiniGridVector: expected a MiniGrid environment with minigrid's own view, got {env_id}")
        arguments = {**spec.kwargs, "render_mode": render_mode, **settings}
        try:
            self.envs: list[Any] = [create(**arguments) for _ in range(num_envs)]
        except (TypeError, AssertionError) as error:
            raise ValueError(f"{env_id}: {error or 'minigrid refuses these settings'}; got {settings}") from error
        size = self.envs[0].agent_view_size if self.envs else 3
        self._size, self._std = size, noise_std
        space = _space(self._kind, (size, size, 3))
        if noise == "gaussian":
            reach = np.float32(10 * noise_std)  # Box and Muller's numbers end at 8.6 deviations
            space = Box(space.low - reach, space.high + reach, dtype=np.float32)
        actions = int(self.envs[0].action_space.n) if self.envs else 1
        super().__init__(num_envs, space, Discrete(actions + (noise == "action")), autoreset_mode, render_mode)
        self._idle = actions
        self._limit = max_episode_steps or spec.max_episode_steps or 2**62
        self._lookers: dict[tuple[int, int, int], Callable[[Any], tuple[Any, ...]]] = {}
        self._wall = import_module("minigrid.core.world_object").Wall()
        self._sight: Array | None = None
        if size <= _WIDEST_TABLE:
            reached, blocked = np.mgrid[: 1 << size, : 1 << size]
            self._sight = np.stack(_sight_of_line(reached, blocked, size))
        for env in self.envs:
            env.gen_obs = partial(_Unmade, env.gen_obs)
        self._start = np.zeros((num_envs, 6), dtype=np.uint64)
        self._actions = np.zeros((num_envs, 1024), dtype=np.uint8)
        self._count = np.zeros(num_envs, dtype=np.int64)
        self._watching, self._noisy = np.zeros((2, num_envs), dtype=np.bool_)
        self._screen = np.zeros((num_envs, size, size), dtype=np.uint8)
        self._added = np.zeros((num_envs, *(space.shape if noise == "gaussian" else (0,))), dtype=np.float32)
        self._rows = np.arange(num_envs)

    # ---- simulation -----------------------------------------------------------------------------------------
    def _reset_rows(self, rows: Mask) -> None:
        for row in np.flatnonzero(rows).tolist():
            env = self.envs[row]
            env._np_random, env._np_random_seed = self.rngs[row], -1
            self._start[row] = generators_to_array([self.rngs[row]])[0]
            env.reset()
        self._count[rows] = 0
        self._watching[rows] = False
        self._noisy[rows] = self.noise == "gaussian"
        self._draw_gaussian(np.flatnonzero(rows))

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        reward = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        rows = self._rows if active is None else np.flatnonzero(active)
        if len(rows) and int(self._count[rows].max()) >= self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[rows, self._count[rows]] = actions[rows]
        self._count[rows] += 1
        chosen = actions.tolist()
        for row in rows.tolist():
            reward[row], terminated[row], truncated[row], self._noisy[row] = self._step_one(row, chosen[row])
        truncated[rows] |= self._count[rows] >= self._limit
        if self.noise == "action":
            self._watching[rows] = actions[rows] == self._idle
            self._draw_screen(rows[self._watching[rows]])
        elif self.noise == "gaussian":
            self._noisy[rows] = True
            self._draw_gaussian(rows)
        return reward, terminated, truncated, bool((terminated | truncated).any())

    def _step_one(self, row: int, action: int) -> tuple[float, bool, bool, bool]:
        """Reward, the two ends, and whether the step shows noise of the environment's own or of the added action."""
        env = self.envs[row]
        if action == self._idle:
            env.step_count += 1
            return 0.0, False, env.step_count >= env.max_steps, True
        _, reward, terminated, truncated, info = env.step(action)
        return float(reward), terminated, truncated, bool(info.get("noise", False))

    def _draw_screen(self, rows: Array) -> None:
        """Object, colour and state of each place, each uniform."""
        if len(rows):
            numbers = self.noise_rng.uniform(rows, self._size**2) * len(_CODES)
            self._screen[rows] = numbers.astype(np.uint8).reshape(-1, self._size, self._size)

    def _draw_gaussian(self, rows: Array) -> None:
        """By Box and Muller, from each row's own stream."""
        if self.noise != "gaussian":
            return
        width = int(np.prod(self._added.shape[1:]))
        first, second = np.split(self.noise_rng.uniform(rows, width + width % 2), 2, axis=1)
        radius, angle = self._std * np.sqrt(-2 * np.log1p(-first)), 2 * np.pi * second
        normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        self._added[rows] = normal[:, :width].reshape(len(rows), *self._added.shape[1:])

    # ---- observations ---------------------------------------------------------------------------------------
    def _observe(self, rows: Mask | None = None, out: Array | None = None) -> Array:
        chosen = self._rows if rows is None else np.flatnonzero(rows)
        envs = self.envs if rows is None else [self.envs[row] for row in chosen]
        numbers = np.where(self._watching[chosen, None, None], self._screen[chosen], self._look(envs))
        views = _present(self._kind, numbers, np.array([env.agent_dir for env in envs]))
        if self.noise == "gaussian":
            views = views + self._added[chosen]
        if out is None:
            return views
        out[chosen] = views
        return out

    def _look(self, envs: Sequence[Any]) -> Array:
        """The views of environments, one number for each place, as minigrid's `gen_obs` has them."""
        size, wall = self._size, self._wall
        numbers = np.empty((len(envs), size * size), dtype=np.uint8)
        for view, env in zip(numbers, envs, strict=True):
            (x, y), direction = env.agent_pos, env.agent_dir
            look = self._lookers.get((x, y, direction))
            if look is None:
                look = self._lookers[x, y, direction] = _looker(env.width, env.height, x, y, direction, size)
            places = look([*env.grid.grid, wall])
            view[:] = [_EMPTY if place is None else _NUMBER[place.encode()] for place in places]
        numbers = numbers.reshape(len(envs), size, size)
        if not envs[0].see_through_walls:
            numbers[~self._visible(_OPAQUE[numbers])] = _UNSEEN
        held = [env.carrying for env in envs]
        numbers[:, size // 2, -1] = [_EMPTY if item is None else _NUMBER[item.encode()] for item in held]
        return numbers

    def _visible(self, opaque: Mask) -> Mask:
        """Line of sight, from the agent's line of the view (the last) to the farthest: each line is a number."""
        size = self._size
        bits = 1 << np.arange(size)
        blocked = bits @ opaque  # (N, lines)
        lines = np.empty((size, len(opaque)), dtype=np.int64)
        reached = np.full(len(opaque), 1 << size // 2)
        for line in reversed(range(size)):
            if self._sight is None:
                lines[line], reached = _sight_of_line(reached, blocked[:, line], size)
            else:
                lines[line], reached = self._sight[:, reached, blocked[:, line]]
        seen: Mask = (lines.T[:, None, :] & bits[:, None]) > 0
        return seen

    # ---- what the batch shares ------------------------------------------------------------------------------
    def _info(self) -> dict[str, Array]:
        return {"cell": np.full(self.num_envs, -1), "noise": self._noisy.copy()}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        space: Any = self.single_action_space
        return {"actions": (0, space.n - 1), "count": (0, self._actions.shape[1]), "screen": (0, len(_CODES) - 1)}

    def set_state(self, state: State) -> None:
        """Put back what `get_state` gave: episodes are played again from their start, which needs no copy of a grid."""
        saved = np.asarray(state.get("actions", self._actions))
        if saved.ndim == 2 and saved.shape[1] != self._actions.shape[1]:
            longest = max(saved.shape[1], self._actions.shape[1])
            self._actions = np.pad(self._actions, ((0, 0), (0, longest - self._actions.shape[1])))
            state = {**state, "actions": np.pad(saved, ((0, 0), (0, longest - saved.shape[1])))}
        if "start" in state:
            check_generators(np.asarray(state["start"]), self.num_envs)
        super().set_state(state)
        after = generators_to_array(self.rngs)
        self.rngs = generators_from_array(self._start)
        for row, env in enumerate(self.envs):
            env._np_random, env._np_random_seed = self.rngs[row], -1
            env.reset()
            for action in self._actions[row, : self._count[row]].tolist():
                self._step_one(row, action)
        if (generators_to_array(self.rngs) != after).any():
            raise ValueError("state: its actions lead elsewhere; expected one of the same environment and minigrid")

    def _render_row(self, row: int) -> Array:
        picture: Array = self.envs[row].get_frame(self.envs[row].highlight, self.envs[row].tile_size)
        return picture

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()


def grid_class(spec: gym.envs.registration.EnvSpec) -> Any:
    """The class of a MiniGrid environment whose views are minigrid's own; None for any other environment."""
    creator: Any = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    package: Any = sys.modules.get("minigrid.minigrid_env")  # loaded by the line above, if this is one
    if package is None or not isinstance(creator, type) or not issubclass(creator, package.MiniGridEnv):
        return None
    own = ("gen_obs", "gen_obs_grid", "get_view_exts")
    plain = all(getattr(creator, name) is getattr(package.MiniGridEnv, name) for name in own)
    return creator if plain and not spec.additional_wrappers else None


def _space(kind: View, shape: tuple[int, ...]) -> Box:
    places = shape[0] * shape[1]
    if kind == "onehot":
        return Box(0, 1, (places * _ONEHOT.shape[1] + DIRECTIONS,), np.uint8)
    if kind == "flat":
        return Box(0, OBJECTS - 1, (places * 3 + DIRECTIONS,), np.uint8)
    return Box(0, 255, shape, np.uint8)


def _present(kind: View, numbers: Array, directions: Array) -> Array:
    """Views (N, W, H), one number for each place, and directions (N,) as observations."""
    if kind == "image":
        return _CODES[numbers]
    table = _ONEHOT if kind == "onehot" else _CODES
    width = numbers[0].size * table.shape[1]
    rows = np.zeros((len(numbers), width + DIRECTIONS), dtype=np.uint8)
    rows[:, :width] = table[numbers.reshape(len(numbers), -1)].reshape(len(numbers), width)
    rows[np.arange(len(numbers)), width + directions] = 1
    return rows


def _looker(width: int, height: int, x: int, y: int, direction: int, size: int) -> Callable[[Any], tuple[Any, ...]]:
    """Picks what lies in the view of an agent, first by columns from left to right, then from far to near; beyond the
    grid the entry after its last."""
    (ahead_x, ahead_y), half = _AHEAD[direction], size // 2
    places = []
    for side in range(-half, half + 1):
        for far in reversed(range(size)):
            i, j = x + far * ahead_x - side * ahead_y, y + far * ahead_y + side * ahead_x
            places.append(int(j * width + i) if 0 <= i < width and 0 <= j < height else width * height)
    return itemgetter(*places)


def _sight_of_line(reached: Array, blocked: Array, size: int) -> tuple[Array, Array]:
    """Minigrid's rule for one line of the view: what is seen of it, and of the line behind it. Bits are places."""
    seen, behind = reached.copy(), np.zeros_like(reached)
    for place, step in [(i, 1) for i in range(size - 1)] + [(i, -1) for i in reversed(range(1, size))]:
        lit = (seen >> place) & ~(blocked >> place) & 1
        seen |= lit << (place + step)
        behind |= (lit << place) | (lit << (place + step))
    return seen, behind


class _Unmade(dict[str, Any]):
    """An observation of minigrid's own that is computed when somebody looks at it."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Any:
        self.update(self._make())
        return dict(self)[key]
