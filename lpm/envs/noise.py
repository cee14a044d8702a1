"""A noisy TV for other people's environments: wrappers for any Gymnasium environment, single or vector.

The environments of this project carry the paper's noise themselves; these wrappers put such noise, described by one
frozen `NoiseConfig`, around any other.

>>> import gymnasium
>>> config = NoiseConfig(trigger="action", source="uniform", added_actions=1, low=-1.0, high=1.0)
>>> env = NoisyEnv(gymnasium.make("CartPole-v1"), config)
>>> env.action_space
Discrete(3)
>>> _ = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(2)
>>> info["noise"]
True

Wrappers compose: one around another adds its noise to that of the first. `info["noise"]` says whether any of them
showed noise in this step. The agent's view is copied at most once a step, and only if it shows noise.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lpm.envs.noise_sources import Array, NoiseConfig, Screen, Source
from lpm.envs.rng import RowRandom
from lpm.envs.vector import Mask, Rewards, State, invalid_action, row_seeds

__all__ = ["Condition", "NoiseConfig", "NoisyEnv", "NoisyVectorEnv"]

Rows = NDArray[np.int64]
Condition = Callable[[Array, dict[str, Any]], Mask]
"""Given true observations and their info, one entry each, which of them have the TV on."""

_NO = np.zeros(1, dtype=np.bool_)
_ROW = np.zeros(1, dtype=np.int64)


class IdleActions:
    """Which actions are idle, and what the environment receives instead of them."""

    def __init__(self, config: NoiseConfig, space: gym.Space[Any]) -> None:
        self.added = config.added_actions
        self.noop = config.noop
        if isinstance(space, Discrete) and space.start == 0:
            wrong = [action for action in (*config.actions, config.noop) if not space.contains(np.int64(action))]
            if wrong:
                raise ValueError(f"actions and noop must lie in {space}, got {wrong}")
            self.size = int(space.n)
            self.idle = np.zeros(self.size + self.added, dtype=np.bool_)
            self.idle[[*config.actions, *range(self.size, self.size + self.added)]] = True
            self.space: gym.Space[Any] = Discrete(self.size + self.added)
        elif isinstance(space, Box) and len(space.shape) == 1 and not config.actions:
            self.size = space.shape[0]
            ones = np.ones(self.added, dtype=space.dtype)
            self.space = Box(np.append(space.low, -ones), np.append(space.high, ones), dtype=space.dtype.type)
        else:
            raise ValueError(
                "idle actions need a Discrete action space from 0, or (added ones only) a one-dimensional Box, "
                f"got {space}"
            )
        self.discrete = isinstance(space, Discrete)

    def split(self, actions: Array) -> tuple[Array, Mask]:
        """What the environment receives, and the idle rows."""
        if self.discrete:
            idle: Mask = self.idle[actions]
            return np.where(idle, self.noop, actions), idle
        inner, extra = actions[:, : self.size], actions[:, self.size :]
        idle = np.asarray((extra > 0).any(axis=1))
        return np.where(idle[:, None], 0, inner).astype(actions.dtype), idle


class Noise:
    """What both wrappers share: the spaces, and row by row whether noise is shown, and showing it.

    Each row draws from a stream of its own, seeded apart from that of other wrappers around the same environment.
    """

    def __init__(
        self,
        env: Any,
        config: NoiseConfig,
        spaces: tuple[gym.Space[Any], gym.Space[Any]],
        num_rows: int,
        source: Source | None,
        condition: Condition | None,
    ) -> None:
        """`spaces`: those of one row's observations and actions."""
        if config.trigger == "state" and condition is None and not config.cells:
            raise ValueError('trigger="state" needs `cells` in the config or a `condition`, got neither')
        self.config = config
        self.screen = Screen(config, spaces[0], source)
        self.idle = IdleActions(config, spaces[1]) if config.has_idle_actions else None
        self.action_space = spaces[1] if self.idle is None else self.idle.space
        self.rng = RowRandom(num_rows)
        # Equal wrappers around one another draw different noise.
        depth = 0
        while isinstance(env, (gym.Wrapper, VectorWrapper)):
            depth += isinstance(env, (NoisyEnv, NoisyVectorEnv))
            env = env.env
        self._salt = zlib.crc32(f"{config!r} {depth}".encode()) << 32
        self._condition = condition
        self._cells = np.array(config.cells, dtype=np.int64)

    def seed(self, row: int, seed: int) -> None:
        """Start a row's noise again."""
        self.rng.seed(row, seed ^ self._salt)

    def received(self, actions: Array, pending: Mask, ids: Rows) -> tuple[Array, Mask]:
        """What the environment receives of a batch of actions, and in which rows an idle one switches the TV on."""
        if self.idle is None:
            return actions, np.zeros_like(pending)
        actions, idle = self.idle.split(np.asarray(actions))
        idle = idle & ~pending
        return actions, self.responding(idle, ids) if self.config.trigger == "action" else idle

    def responding(self, on: Mask, ids: Rows) -> Mask:
        """Those of the TVs that are on that show noise this time."""
        if self.config.probability == 1.0 or not on.any():
            return on
        responding = on.copy()
        responding[on] = self.rng.uniform(ids[on], 1)[:, 0] < self.config.probability
        return responding

    def shown(self, batch: Array, info: dict[str, Any], idle: Mask, ids: Rows) -> tuple[Array, Mask]:
        """A batch as the agent sees it, copied if any of it shows fresh noise, and which of it does.

        `ids` are the rows that the observations belong to; `idle` have responded.
        """
        noisy = self._noisy(batch, info, idle, ids)
        where = np.flatnonzero(noisy)
        if len(where):
            batch = batch.copy()
            self.screen.paint(batch, where, self.rng, ids[where])
        return batch, noisy

    def _noisy(self, batch: Array, info: dict[str, Any], idle: Mask, ids: Rows) -> Mask:
        if self.config.trigger == "action":
            return idle
        if self.config.trigger == "never":
            return np.zeros_like(idle)
        if self.config.trigger == "always":
            return self.responding(np.ones_like(idle), ids)
        if self._condition is not None:
            return self.responding(self._condition(batch, info), ids)
        if "cell" not in info:
            raise ValueError('cells in a noise config need an environment that gives info["cell"], got none')
        return self.responding(np.isin(info["cell"], self._cells), ids)


class NoisyEnv(gym.Wrapper[Array, Any, Array, Any]):
    """A noisy TV around a single environment."""

    def __init__(
        self,
        env: gym.Env[Array, Any],
        config: NoiseConfig,
        source: Source | None = None,
        condition: Condition | None = None,
    ) -> None:
        """`source` replaces the one the config names, `condition` its cells; both work on batches."""
        super().__init__(env)
        self.config = config
        self._noise = Noise(env, config, (env.observation_space, env.action_space), 1, source, condition)
        self.observation_space = self._noise.screen.observation_space
        self.action_space = self._noise.action_space
        self.images_source = self._noise.screen.images_source
        self.num_cells = int(env.get_wrapper_attr("num_cells")) if env.has_wrapper_attr("num_cells") else 0
        self._true: tuple[Array, dict[str, Any]] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None or self._true is None:
            self._noise.seed(0, self.unwrapped.np_random_seed or 0)
        return self._show(observation, info, _NO)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Advance by one step; an idle action advances by noop, or not at all if the config says frozen."""
        if self._true is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        idle = _NO
        if self._noise.idle is not None:
            if not self.action_space.contains(action):
                raise invalid_action(action, self.action_space)
            inner, idle = self._noise.received(np.asarray(action)[None], _NO, _ROW)
            action = inner[0]
        if idle[0] and self.config.frozen:
            observation, info = self._show(*self._true, idle)
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._show(observation, info, idle)
        return observation, float(reward), terminated, truncated, info

    def _show(self, observation: Array, info: dict[str, Any], idle: Mask) -> tuple[Array, dict[str, Any]]:
        """Keep the true observation and return the one the agent sees."""
        self._true = observation, info
        rows = {key: np.asarray([value]) for key, value in info.items() if not isinstance(value, dict)}
        seen, noisy = self._noise.shown(observation[None], rows, idle, _ROW)
        return seen[0], {**info, "noise": bool(info.get("noise", False)) or bool(noisy[0])}


class NoisyVectorEnv(VectorWrapper):
    """A noisy TV around a vector environment, in any autoreset mode."""

    def __init__(
        self,
        env: VectorEnv[Array, Any, Array],
        config: NoiseConfig,
        source: Source | None = None,
        condition: Condition | None = None,
    ) -> None:
        """`source` replaces the one the config names, `condition` its cells; both work on batches."""
        super().__init__(env)
        self.config = config
        spaces = (env.single_observation_space, env.single_action_space)
        self._noise = Noise(env, config, spaces, self.num_envs, source, condition)
        self.single_observation_space = self._noise.screen.observation_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = self._noise.action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.images_source = self._noise.screen.images_source
        if config.frozen:
            raise ValueError("frozen=True: expected single environments, each in NoisyEnv before they are batched")
        self.num_cells = int(getattr(env, "num_cells", 0))
        self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        self._ids = np.arange(self.num_envs)
        self._pending = np.zeros(self.num_envs, dtype=np.bool_)
        self._seen: Array | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        rows = np.ones(self.num_envs, dtype=np.bool_)
        if options is not None and "reset_mask" in options:
            rows = np.array(options["reset_mask"])
        observation, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._seed_rows(rows, seed)
        self._pending[rows] = False
        if rows.all() or self._seen is None:
            return self._show(observation, info, np.zeros_like(rows))
        return self._show_restarted(observation, info, rows)

    def step(self, actions: Any) -> tuple[Array, Rewards, Mask, Mask, dict[str, Any]]:
        """Advance by one step; idle rows advance by noop."""
        if self._seen is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self._noise.idle is not None and not self.action_space.contains(np.asarray(actions)):
            raise invalid_action(actions, self.action_space)
        actions, idle = self._noise.received(actions, self._pending, self._ids)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        done = terminated | truncated
        if self._mode is AutoresetMode.SAME_STEP and done.any():
            info = self._show_finals(info, idle, done)
            idle = idle & ~done
        self._pending = done & (self._mode is AutoresetMode.NEXT_STEP)
        observation, info = self._show(observation, info, idle)
        return observation, reward, terminated, truncated, info

    def _show(self, observation: Array, info: dict[str, Any], idle: Mask) -> tuple[Array, dict[str, Any]]:
        """The observations the agent sees."""
        self._seen, noisy = self._noise.shown(observation, info, idle, self._ids)
        return self._seen, {**info, "noise": noisy | info.get("noise", False)}

    def _show_restarted(self, observation: Array, info: dict[str, Any], rows: Mask) -> tuple[Array, dict[str, Any]]:
        """The observations after a reset of some rows; the others keep what they showed and draw nothing."""
        ids = np.flatnonzero(rows)
        own = {key: value[ids] for key, value in info.items() if isinstance(value, np.ndarray)}
        restarted, noisy = self._noise.shown(observation[ids], own, np.zeros(len(ids), dtype=np.bool_), ids)
        self._seen = np.array(self._seen)
        self._seen[ids] = restarted
        noise = np.array(info.get("noise", np.zeros(self.num_envs, dtype=np.bool_)))
        noise[ids] |= noisy
        return self._seen, {**info, "noise": noise}

    def _show_finals(self, info: dict[str, Any], idle: Mask, done: Mask) -> dict[str, Any]:
        """The last observations of rows that ended and were restarted in the same step, as the agent sees them."""
        ids = np.flatnonzero(done)
        finals = np.stack([info["final_obs"][row] for row in ids])
        final_info = dict(info.get("final_info", {}))
        own = {key: value[ids] for key, value in final_info.items() if isinstance(value, np.ndarray)}
        finals, noisy = self._noise.shown(finals, own, idle[ids], ids)
        final_obs = info["final_obs"].copy()
        for row, final in zip(ids, finals, strict=True):
            final_obs[row] = final
        noise = np.zeros(self.num_envs, dtype=np.bool_)
        noise[ids] = noisy | own.get("noise", False)
        final_info.update({"noise": noise, "_noise": done})
        return {**info, "final_obs": final_obs, "final_info": final_info, "_final_info": done}

    def _seed_rows(self, rows: Mask, seed: int | Sequence[int | None] | None) -> None:
        if seed is None and self._seen is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        seeds = row_seeds(seed, self.num_envs)
        for row in np.flatnonzero(rows).tolist():
            own = seeds[row]
            if own is not None:
                self._noise.seed(row, int(own))

    def get_state(self) -> State:
        """The environment's own state with the noise's beside it (the environment must offer `get_state`)."""
        if self._seen is None:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        state = {f"env.{key}": value for key, value in self.env.get_state().items()}  # type: ignore[attr-defined]
        own = {"noise_rng": self._noise.rng.state, "pending": self._pending, "seen": self._seen}
        return {**state, **{key: value.copy() for key, value in own.items()}}

    def set_state(self, state: State) -> None:
        shapes: dict[str, Any] = {"seen": self.observation_space.shape, "pending": self._pending.shape}
        for name, shape in {**shapes, "noise_rng": self._noise.rng.state.shape}.items():
            if name not in state or np.shape(state[name]) != shape:
                raise ValueError(f"state[{name!r}]: expected shape {shape}, got {np.shape(state.get(name, ()))}")
        inner = {key.removeprefix("env."): value for key, value in state.items() if key.startswith("env.")}
        self.env.set_state(inner)  # type: ignore[attr-defined]
        self._seen = np.array(state["seen"], dtype=self.single_observation_space.dtype)
        self._noise.rng.state[...] = state["noise_rng"]
        self._pending[...] = state["pending"]
