"""The shared half of every environment simulated here: seeding, autoreset, saving and restoring.

A simulation subclasses `BatchedEnv` and writes only its own physics; `SingleEnv` turns a batch of one row
into an ordinary `gymnasium.Env`. Row `i` of a batch seeded with `s` behaves like row 0 of a batch seeded with
`s + i`, whatever the number of rows, and all three autoreset modes give the same real transitions.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lpm.envs.rng import RowRandom, check_generators, generators_from_array, generators_to_array

Array = NDArray[Any]
Mask = NDArray[np.bool_]
State = dict[str, Any]
Rewards = NDArray[np.float64]
Outcome = tuple[Rewards, Mask, Mask, bool]
"""What `_step_rows` returns: reward, terminated, truncated (fresh arrays, one entry per row), any done?"""


class BatchedEnv(VectorEnv[Array, Array, Array]):
    """A vector environment stepped as one batch.

    A subclass sets its spaces and settings, then writes:
      `_reset_rows(rows)`            begin a new episode in the rows of the mask, drawing from `self.rngs[i]`
      `_step_rows(actions, active)`  advance the rows of the mask (None: all), leave the others untouched
      `_views(rows)`                 the observations of some rows (indices, or a slice of all); must not draw: noise
                                     is drawn by the step that shows it
      `_info()`                      fresh arrays, one entry per row; at least "cell" and "noise"
      `_saved`                       the names of the live arrays that hold the whole simulation: "pose" is `self._pose`
      `_limits()`                    what their numbers may be

    `self.rngs` holds one `np.random.Generator` per row (the one Gymnasium would make from the row's seed);
    `self.noise_rng` draws for many rows at once.
    """

    num_cells: int = 0
    _saved: ClassVar[tuple[str, ...]]
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        expect(num_envs >= 1, "num_envs must be at least 1", num_envs)
        self.num_envs = num_envs
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.rngs: list[np.random.Generator] = []
        self.noise_rng = RowRandom(num_envs)
        self._pending = np.zeros(num_envs, dtype=np.bool_)
        self._any_pending = True  # nothing may be stepped before the first reset

    @abstractmethod
    def _reset_rows(self, rows: Mask) -> None: ...

    @abstractmethod
    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome: ...

    def _views(self, rows: Array | slice) -> Array:
        raise NotImplementedError

    @abstractmethod
    def _info(self) -> dict[str, Array]: ...

    def _state(self) -> dict[str, Array]:
        return {name: getattr(self, f"_{name}") for name in self._saved}

    def _seeded(self, seed: int) -> None:
        """Called with the first row's seed whenever rows are seeded, before they are reset."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin new episodes in all rows, or only in those of `options={"reset_mask": mask}`."""
        rows = np.ones(self.num_envs, dtype=np.bool_)
        if options is not None and "reset_mask" in options:
            if not self.rngs:
                raise ValueError("the first reset must be of all rows, got options={'reset_mask': ...}")
            rows = checked_mask(options["reset_mask"], self.num_envs)
        self._seed_rows(rows, seed)
        self._reset_rows(rows)
        self._pending[rows] = False
        self._any_pending = bool(self._pending.any())
        return self._observe(), self._info()

    def step(self, actions: Array) -> tuple[Array, Rewards, Mask, Mask, dict[str, Any]]:
        """Advance every row by one step under the rules of the autoreset mode."""
        if self._any_pending:
            return self._step_with_pending(actions)
        reward, terminated, truncated, any_done = self._step_rows(self._checked_actions(actions), None)
        observation, info = self._observe(), self._info()
        if any_done:
            info = self._end_episodes(terminated | truncated, observation, info)
        return observation, reward, terminated, truncated, info

    def _observe(self, rows: Mask | None = None, out: Array | None = None) -> Array:
        """The observations of the rows of a mask (None: all), in `out` or else a fresh array."""
        chosen = slice(None) if rows is None else np.flatnonzero(rows)
        if out is None:
            return np.array(self._views(chosen))
        out[chosen] = self._views(chosen)
        return out

    def _end_episodes(self, done: Mask, observation: Array, info: dict[str, Array]) -> dict[str, Any]:
        """Restart the ended rows now (SAME_STEP, changing `observation`) or leave them to the next step."""
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._pending, self._any_pending = done, True
            return info
        # the true last observations move into `info`, as in Gymnasium
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(done):
            final_obs[row] = observation[row].copy()
        final_info = {**info, **{f"_{key}": done for key in info}}
        self._reset_rows(done)
        self._observe(done, observation)
        finals = {"final_obs": final_obs, "_final_obs": done, "final_info": final_info, "_final_info": done}
        return {**self._info(), **finals}

    def _step_with_pending(self, actions: Array) -> tuple[Array, Rewards, Mask, Mask, dict[str, Any]]:
        """A step of NEXT_STEP autoreset in which some rows begin a new episode instead of acting."""
        if not self.rngs:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise ValueError(
                f"rows {np.flatnonzero(self._pending).tolist()} have ended: with autoreset disabled call "
                "reset(options={'reset_mask': mask}) before the next step"
            )
        starting = self._pending
        reward, terminated, truncated, _ = self._step_rows(self._checked_actions(actions), ~starting)
        reward[starting], terminated[starting], truncated[starting] = 0.0, False, False
        self._reset_rows(starting)
        self._pending = terminated | truncated
        self._any_pending = bool(self._pending.any())
        return self._observe(), reward, terminated, truncated, self._info()

    def get_state(self) -> State:
        """Everything the future depends on, as a flat dict of copied arrays."""
        if not self.rngs:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        state: State = {name: array.copy() for name, array in self._state().items()}
        state["rngs"] = generators_to_array(self.rngs)
        state["noise_rng"] = self.noise_rng.state.copy()
        state["pending"] = self._pending.copy()
        return state

    def set_state(self, state: State) -> None:
        live = {**self._state(), "noise_rng": self.noise_rng.state, "pending": self._pending}
        self._check_state(state, live)
        for name, array in live.items():
            array[...] = state[name]
        self.rngs = generators_from_array(np.asarray(state["rngs"]))
        self._any_pending = bool(self._pending.any())

    def _check_state(self, state: State, live: dict[str, Array]) -> None:
        """Refuse what the simulation could not go on from: compiled code looks at no bounds."""
        if set(state) != {*live, "rngs"}:
            raise ValueError(f"expected a state with the keys {sorted({*live, 'rngs'})}, got {sorted(state)}")
        for name, array in live.items():
            saved = np.asarray(state[name])
            if saved.shape != array.shape or not np.can_cast(saved.dtype, array.dtype, "same_kind"):
                expected_here, came = (f"{a.dtype} of shape {a.shape}" for a in (array, saved))
                raise ValueError(f"state[{name!r}]: expected {expected_here}, got {came}")
        for name, (low, high) in self._limits().items():
            saved = np.asarray(state[name])
            if not (np.all(saved >= low) and np.all(saved <= high)):  # nan is in no interval
                raise ValueError(f"state[{name!r}]: expected numbers from {low} to {high}, got others")
        check_generators(np.asarray(state["rngs"]), self.num_envs)

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        """Names in `_state()` to the least and the largest number that the simulation can go on from."""
        return {}

    def _shared_state(self) -> Sequence[str]:
        """Names in `_state()` of arrays that belong to all rows together: no entry per row."""
        return ()

    def _seed_rows(self, rows: Mask, seed: int | Sequence[int | None] | None) -> None:
        seeds = row_seeds(seed, self.num_envs)
        first = not self.rngs
        if first:
            self.rngs = [np.random.default_rng(0) for _ in range(self.num_envs)]
        for row in np.flatnonzero(rows).tolist():
            if seeds[row] is None and not first:
                continue
            self.rngs[row], used = seeding.np_random(seeds[row])
            self.noise_rng.seed(row, used)
            if row == 0:
                self._np_random, self._np_random_seed = self.rngs[0], used
                self._seeded(used)

    def _checked_actions(self, actions: Array) -> Array:
        """The actions, after an error that says what was expected if they are not in the action space."""
        array = np.asarray(actions)
        if not self.action_space.contains(array):
            raise invalid_action(array, self.action_space)
        return array

    def render(self) -> tuple[Array, ...]:
        """One RGB picture per row (render_mode="rgb_array")."""
        return tuple(self._render_row(row) for row in range(self.num_envs))

    def _render_row(self, row: int) -> Array:
        raise NotImplementedError(f"{type(self).__name__} has no picture of its own")


class SingleEnv(gym.Env[Array, Any]):
    """One row of a `BatchedEnv` as an ordinary Gymnasium environment."""

    vector: ClassVar[Callable[..., BatchedEnv]]
    """Builds the batch; the options are its own."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}  # type: ignore[misc]

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        mode = AutoresetMode.DISABLED
        batch = type(self).vector(num_envs=1, autoreset_mode=mode, render_mode=render_mode, **settings)
        self.batch = batch
        self.observation_space = batch.single_observation_space
        self.action_space = batch.single_action_space
        self.render_mode = batch.render_mode
        self.num_cells = batch.num_cells

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        observation, info = self.batch.reset(seed=seed)
        self._np_random = self.batch.rngs[0]
        return observation[0], self._row_info(info)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise invalid_action(action, self.action_space)
        # Gymnasium leaves a step after the end of an episode undefined; its own environments carry on.
        self.batch._pending[0], self.batch._any_pending = False, not self.batch.rngs
        actions = np.asarray(action, dtype=self.batch.action_space.dtype)[None]
        observation, reward, terminated, truncated, info = self.batch.step(actions)
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._row_info(info)

    def render(self) -> Any:
        return self.batch._render_row(0)

    def close(self) -> None:
        self.batch.close()

    def get_state(self) -> State:
        return self.batch.get_state()

    def set_state(self, state: State) -> None:
        self.batch.set_state(state)

    @staticmethod
    def _row_info(info: dict[str, Any]) -> dict[str, Any]:
        return {key: value[0].item() if value.ndim == 1 else value[0] for key, value in info.items()}


def expect(holds: bool, wanted: str, given: object) -> None:
    """Refuse a setting: what was expected, and what came."""
    if not holds:
        raise ValueError(f"{wanted}, got {given!r}")


def invalid_action(action: Any, space: gym.Space[Any]) -> ValueError:
    """The error for an action outside its space: what was expected and what came."""
    array = np.asarray(action)
    came = f"{array.tolist()!r}" if array.size <= 8 else f"values from {array.min()} to {array.max()}"
    expected = f"expected an action in {space} (shape {space.shape}, dtype {space.dtype})"
    return ValueError(f"{expected}, got {came} (shape {array.shape}, dtype {array.dtype})")


def row_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> Sequence[int | None]:
    """The seed of each row: `seed + row` for a number, None where there is none."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + row for row in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(f"expected one seed for each of the {num_envs} rows, got {len(seed)}")
    return seed


def checked_mask(mask: Any, num_envs: int) -> Mask:
    """The mask of rows to reset, after an error that says what was expected if it is not one."""
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        came = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise ValueError(f"expected reset_mask as a boolean array of shape ({num_envs},), got {came}")
    if not mask.any():
        raise ValueError("expected reset_mask with at least one True entry, got none")
    return mask
