"""A bonus in any loop over a Gymnasium vector environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from lpm.adapters._common import (
    check_bonus,
    check_count,
    check_no_policy,
    check_total,
    choose,
    choose_spaces,
    make_block,
    make_mixer,
    pay,
)
from lpm.adapters._state import read_state, write_state
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import MixerConfig

Array = NDArray[Any]


class IntrinsicVectorReward(VectorWrapper[Any, Any, Any, Any, Any]):
    """Returns the task's reward plus the weighted bonus; `MixerConfig(extrinsic_weight=0)` returns the bonus alone.

    Each transition is scored and shown to the bonus when it happens, with its true successor in all three autoreset
    modes; the step that only resets (NEXT_STEP) pays 0 and is not learnt from. The bonus updates every
    `update_every` steps. `info["extrinsic_reward"]` and `info["intrinsic_reward"]` hold both rewards as they came,
    before mixing.

    >>> import gymnasium, lpm
    >>> envs = gymnasium.make_vec("CartPole-v1", num_envs=2)
    >>> bonus = lpm.make("lpm", lpm.Spaces.of(envs), num_envs=2, rollout_steps=16)
    >>> envs = IntrinsicVectorReward(envs, bonus, MixerConfig(weight=0.1))
    >>> _ = envs.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = envs.step(np.array([0, 1]))
    >>> info["extrinsic_reward"].tolist(), reward.shape
    ([1.0, 1.0], (2,))
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        bonus: IntrinsicReward,
        mixer: MixerConfig | None = None,
        *,
        update_every: int | None = None,
        total_steps: int | None = None,
        obs_key: str | None = None,
    ) -> None:
        """`update_every`: steps between two updates of the bonus, its `rollout_steps` if left out.

        `total_steps`: the steps, summed over environments, over which a schedule of the weight runs; `obs_key`: the
        entry of Dict observations that the bonus sees.
        """
        if not isinstance(env, VectorEnv):
            raise ValueError(
                f"env: expected a gymnasium.vector.VectorEnv, got {type(env).__name__}; a single environment becomes "
                "one with gymnasium.vector.SyncVectorEnv([lambda: env])"
            )
        super().__init__(env)
        self.mixer = make_mixer(bonus, mixer)
        check_bonus(bonus, choose_spaces(env.single_observation_space, env.single_action_space, obs_key), env.num_envs)
        check_no_policy(bonus, "an environment does not see")
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ValueError(
                "env: expected metadata['autoreset_mode'], which says how to read the end of an episode, "
                f"got metadata {env.metadata}"
            )
        self.bonus = bonus
        self.update_every = bonus.rollout_steps if update_every is None else check_count("update_every", update_every)
        self.total_steps = check_total(total_steps, self.mixer.config)
        self.obs_key = obs_key
        self.steps = 0
        """Steps so far, summed over environments."""
        self.metrics: dict[str, float] = {}
        """What the bonus said at its last update."""
        self._mode = AutoresetMode(mode)
        self._since_update = 0
        self._obs: Array | None = None
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)

    # ---- what the loop calls ------------------------------------------------------------------------------
    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes: everywhere, or in the rows of `options["reset_mask"]`."""
        mask = None if options is None else options.get("reset_mask")
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        fresh = np.array(choose(obs, self.obs_key))
        if mask is None or self._obs is None:
            self._obs = fresh
            self._ended[:] = False
        else:
            chosen = np.asarray(mask, dtype=np.bool_)
            fresh[~chosen] = self._obs[~chosen]  # a new array: the bonus may have kept the old one
            self._obs = fresh
            self._ended &= ~chosen
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """One step of all environments; the reward is the mixed one."""
        if self._obs is None:
            raise ValueError("IntrinsicVectorReward.step: expected reset() before the first step")
        obs, reward, terminated, truncated, info = self.env.step(actions)
        seen = np.array(choose(obs, self.obs_key))
        done = np.logical_or(terminated, truncated)
        # in NEXT_STEP mode, rows whose episode ended have only been reset by this step
        valid = ~self._ended if self._mode is AutoresetMode.NEXT_STEP else np.ones_like(self._ended)
        block = make_block(
            self.bonus,
            self._obs[None],
            np.array(actions)[None],
            self._successors(seen, done, info)[None],
            terminated=np.asarray(terminated)[None],
            truncated=np.asarray(truncated)[None],
            valid=valid[None],
            reward=np.asarray(reward)[None],
        )
        self.steps += self.num_envs
        progress = 0.0 if self.total_steps is None else self.steps / self.total_steps
        raw, mixed = pay(self.bonus, self.mixer, block, np.asarray(reward)[None], progress, self.steps)
        self._obs, self._ended = seen, np.array(done)
        self._since_update += 1
        if self._since_update == self.update_every:
            self.metrics = {name: float(value) for name, value in self.bonus.update().items()}
            self._since_update = 0
        everywhere = np.ones_like(valid)
        info = {
            **info,
            "extrinsic_reward": np.array(reward),
            "_extrinsic_reward": everywhere,
            "intrinsic_reward": raw[0],
            "_intrinsic_reward": everywhere,
        }
        return obs, mixed.total[0], terminated, truncated, info

    def _successors(self, seen: Array, done: Array, info: dict[str, Any]) -> Array:
        """In SAME_STEP mode the returned rows of ended episodes follow a reset; the true ones are in `info`."""
        if self._mode is not AutoresetMode.SAME_STEP or not done.any():
            return seen
        if "final_obs" not in info:
            raise ValueError(f"expected info['final_obs'] from an environment in SAME_STEP mode, got {sorted(info)}")
        successors, final = seen.copy(), info["final_obs"]
        for row in np.flatnonzero(done):
            # one observation a row, as Gymnasium itself does, or a dict of arrays
            whole = isinstance(final, dict)
            successors[row] = choose(final, self.obs_key)[row] if whole else choose(final[row], self.obs_key)
        return successors

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Bonus, mixer and counters; the environment is not part of it."""
        return {
            "bonus": self.bonus.state_dict(),
            "mixer": self.mixer.state_dict(),
            "counters": [self.steps, self._since_update],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved; a new wrapper needs `reset` before its first step."""
        self.mixer.load_state_dict(state["mixer"])
        self.bonus.load_state_dict(state["bonus"])
        self.steps, self._since_update = state["counters"]

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all."""
        write_state(path, self, steps=self.steps)

    def load(self, path: str | Path) -> None:
        """Read what `save` wrote."""
        read_state(path, self)
