"""A bonus in any loop over a Gymnasium vector environment."""

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray
from torch import Tensor

from lpm.adapters._common import (
    Returns,
    Steps,
    check_count,
    check_no_policy,
    choose,
    choose_spaces,
    log,
    make_mixer,
    make_or_check,
    mix_block,
)
from lpm.adapters._state import load_parts, parts, read_state, write_state
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import MixerConfig
from lpm.core.monitor import BonusMonitor
from lpm.core.transitions import autoreset_mode, use_final_obs, valid_steps

Array = NDArray[Any]
Rewards = TypeVar("Rewards", NDArray[Any], Tensor)


class Intrinsic(VectorWrapper):  # type: ignore[type-arg, unused-ignore]  # generic since gymnasium 1.4 only
    """Adds a bonus to the rewards of a training loop, a rollout at a time.

    It steps the environments as they are, and remembers the true successor of every step, in each of Gymnasium's
    autoreset modes. `add_bonus` then scores the rollout, lets the bonus learn from it, and returns the rewards to learn
    from: the task's, unchanged, plus the bonus on the task's scale.

    >>> import gymnasium
    >>> envs = Intrinsic(gymnasium.make_vec("CartPole-v1", num_envs=2), "lgn", rollout_steps=16)
    >>> _ = envs.reset(seed=0)
    >>> task = np.stack([envs.step(envs.action_space.sample())[1] for _ in range(16)])
    >>> rewards = envs.add_bonus(task)
    >>> rewards.shape
    (16, 2)
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        bonus: str | IntrinsicReward = "lgn",
        weight: float | None = None,
        *,
        rollout_steps: int = 128,
        mixer: MixerConfig | None = None,
        obs_key: str | None = None,
        **settings: Any,
    ) -> None:
        """`bonus`: a name with its `settings`, or one that `lpm.make` made. `weight`: how much it counts beside the
        task, 0.3 if left out. `rollout_steps`: steps of each environment between two updates. `mixer`: all settings of
        the mixing in place of the weight. `obs_key`: the entry of Dict observations that the bonus sees.
        """
        advice = "a single environment becomes one with gymnasium.vector.SyncVectorEnv([lambda: env])"
        if any(kind.__module__.startswith("stable_baselines3.") for kind in type(env).__mro__):
            advice = "for Stable-Baselines3 there is lpm.adapters.sb3.IntrinsicCallback"
        if not isinstance(env, VectorEnv):
            raise ValueError(f"env: expected a gymnasium.vector.VectorEnv, got {type(env).__name__}; {advice}")
        super().__init__(env)
        self._mode = autoreset_mode(env)
        spaces = choose_spaces(env.single_observation_space, env.single_action_space, obs_key)
        sizes = {"rollout_steps": check_count("rollout_steps", rollout_steps)}
        self.bonus = make_or_check(bonus, spaces, env.num_envs, {**sizes, **settings})
        check_no_policy(self.bonus, "an environment does not see")
        self.mixer = make_mixer(self.bonus.num_envs, weight, mixer)
        self.monitor = BonusMonitor()
        self.returns = Returns(env.num_envs)
        self.obs_key = obs_key
        self.steps = 0
        """Steps so far, summed over environments."""
        self.metrics: dict[str, float] = {}
        """Of the last update: what the bonus and the mixer log, and the mean returns of recent episodes."""
        self._steps = Steps(spaces)
        self._loaded = 0  # of the steps that wait
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
        rows = np.ones(self.num_envs, dtype=np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)
        if self._obs is not None:
            fresh[~rows] = self._obs[~rows]
        self._obs = fresh
        left = rows & ~self._ended
        if len(self._steps):
            self._steps.leave(left)
        else:
            self.returns.restart(left)
            self.bonus.end_episodes(torch.from_numpy(left))
        self._ended &= ~rows
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """One step of all environments, returned as they gave it."""
        if self._obs is None:
            raise ValueError(f"{type(self).__name__}.step: expected reset() before the first step")
        if len(self._steps) == self.bonus.rollout_steps:  # a longer rollout would not fit into what the bonus keeps
            raise ValueError(
                f"{type(self).__name__}.step: expected add_bonus after at most rollout_steps="
                f"{self.bonus.rollout_steps} steps; for longer rollouts pass rollout_steps, to evaluate step .env"
            )
        actions = actions.detach().cpu().numpy() if isinstance(actions, Tensor) else actions
        outcome = obs, reward, terminated, truncated, info = self.env.step(actions)
        following = np.array(choose(obs, self.obs_key))
        done = np.logical_or(terminated, truncated)
        successor = following.copy()
        use_final_obs(self._mode, successor, done, info, self.obs_key)
        valid = valid_steps(self._mode, self._ended)
        before, self._obs, self._ended = self._obs, following, np.array(done)
        self.mixer.check("reward", np.asarray(reward)[None])  # refused here, it is in no rollout
        self._steps.append(before, actions, successor, reward, terminated, truncated, valid)
        self.steps += self.num_envs
        return outcome

    def add_bonus(self, rewards: Rewards) -> Rewards:
        """Rewards (T, N) of all steps since the last call, plus the bonus: a tensor or an array, of the dtype given.

        The bonus is computed with its models as they were while the steps were taken; then it learns from them.
        """
        given: Any = rewards
        if not isinstance(given, (np.ndarray, Tensor)):
            raise ValueError(f"add_bonus: expected a NumPy array or a tensor, got {type(given).__name__}")
        waiting, shape = len(self._steps), tuple(rewards.shape)
        before = self._loaded if shape[:1] == (waiting - self._loaded,) else 0  # their rewards went with the old loop
        expected = (waiting - before, self.num_envs)
        if shape != expected or not waiting:
            raise ValueError(
                f"add_bonus: expected rewards of shape {expected if waiting else '(T, N) with T of at least 1'}, those "
                f"of all steps since the last call, got {shape} after {waiting} steps"
            )
        if isinstance(rewards, Tensor):  # NumPy has no bfloat16
            task = (rewards.float() if rewards.dtype == torch.bfloat16 else rewards).detach().cpu().numpy()
        else:
            task = rewards
        mixed = self._mix(np.concatenate((self._steps.rewards(before), task)) if before else task)[before:]
        self._update()
        if isinstance(rewards, Tensor):
            dtype = rewards.dtype if rewards.is_floating_point() else torch.float32
            return torch.as_tensor(mixed, dtype=dtype, device=rewards.device)
        return mixed.astype(rewards.dtype if rewards.dtype.kind == "f" else np.float32, copy=False)

    def _mix(self, task: Array) -> Array:
        """Score the steps that wait; the rewards (T, N) to learn from."""
        self.mixer.check("rewards", task)
        block, left = self._steps.take(self.bonus)
        self._loaded = 0
        self.raw, mixed = mix_block(self.bonus, self.mixer, block, task, self.steps)
        self.returns.add(task, mixed.total, block.done.cpu().numpy(), left)
        return mixed.total

    def _update(self) -> None:
        """Let the bonus learn, and note what there is to log."""
        learnt = {name: float(value) for name, value in self.bonus.update().items()}
        self.metrics = {"bonus_mean": float(self.raw.mean()), **learnt, **self.mixer.metrics(), **self.returns.means()}
        for message in self.monitor.observe(self.mixer, learnt, self.metrics.get("task_return")):
            log.warning(message)

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Bonus, mixer, returns and the steps that wait; the environments are not part of it."""
        return {**parts(self), "waiting": self._steps.state_dict(), "steps": self.steps, **self._more_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved; a new wrapper needs `reset` before its first step.

        Of a state in the middle of a rollout, `add_bonus` then takes the rewards of the whole rollout, or of what came
        after it was loaded.
        """
        load_parts(self, state, waiting={}, steps=0, **self._more_state())
        self._steps.load_state_dict(state["waiting"])
        self._loaded = len(self._steps)
        self.steps = state["steps"]

    def _more_state(self) -> dict[str, int]:
        return {}

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all."""
        write_state(path, self, steps=self.steps)

    def load(self, path: str | Path) -> None:
        read_state(path, self)


class IntrinsicVectorReward(Intrinsic):
    """For loops that take rewards from `step` alone: each step returns the task's reward plus the bonus.

    The same as `Intrinsic`, scored step by step, which costs more; `MixerConfig(extrinsic_weight=0)` returns the bonus
    alone. The bonus learns every `rollout_steps` steps. `info["extrinsic_reward"]` and `info["intrinsic_reward"]` hold
    both rewards as they came, before mixing.

    >>> import gymnasium
    >>> envs = IntrinsicVectorReward(gymnasium.make_vec("CartPole-v1", num_envs=2), "lpm", rollout_steps=16)
    >>> _ = envs.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = envs.step(np.array([0, 1]))
    >>> info["extrinsic_reward"].tolist(), reward.shape
    ([1.0, 1.0], (2,))
    """

    _since_update = 0

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """One step of all environments; the reward is the mixed one."""
        obs, reward, terminated, truncated, info = super().step(actions)
        reward = np.asarray(reward)
        mixed = self._mix(reward[None])[0]
        self._since_update += 1
        if self._since_update == self.bonus.rollout_steps:
            self._update()
            self._since_update = 0
        for name, came in (("extrinsic_reward", reward.copy()), ("intrinsic_reward", self.raw[0])):
            info = {**info, name: came, f"_{name}": np.ones(self.num_envs, dtype=np.bool_)}
        return obs, mixed, terminated, truncated, info

    def add_bonus(self, rewards: Rewards) -> Rewards:
        """Refused: the rewards of `step` have the bonus in them."""
        raise ValueError("IntrinsicVectorReward.step returns rewards with the bonus in them; use lpm.Intrinsic instead")

    def _more_state(self) -> dict[str, int]:
        return {"since_update": self._since_update}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved; a new wrapper needs `reset` before its first step."""
        super().load_state_dict(state)
        self._since_update = state["since_update"]
