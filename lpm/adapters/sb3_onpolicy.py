"""A bonus in Stable-Baselines3's on-policy algorithms."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from lpm.adapters import sb3_model
from lpm.adapters._common import Returns, Steps, check_settings, check_type, choose, make_mixer, mix_block
from lpm.adapters._state import load_parts, parts
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import MixerConfig, RewardMixer
from lpm.core.monitor import BonusMonitor


class IntrinsicCallback(BaseCallback):
    """Adds a bonus to every rollout of PPO, A2C, TRPO, RecurrentPPO or MaskablePPO before the model learns from it.

    The bonus sees raw observations (before VecNormalize), executed actions and true successors: at the end of an
    episode the final observation, never the one after the reset. When a rollout is complete, it is scored whole, the
    mixed rewards replace those in the rollout buffer, and returns and advantages are computed again. Monitor is not
    touched: `rollout/ep_rew_mean` stays the task's own return; `intrinsic/task_return` and `intrinsic/shaped_return`
    log both side by side.
    """

    bonus: IntrinsicReward
    mixer: RewardMixer
    returns: Returns
    _steps: Steps

    def __init__(
        self,
        bonus: str | IntrinsicReward = "lgn",
        weight: float | None = None,
        *,
        mixer: MixerConfig | None = None,
        obs_key: str | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        """`bonus`: a name with its `settings`, or one that `make_bonus` made. `weight`: how much it counts beside the
        task, 0.3 if left out. `mixer`: all settings of the mixing in place of the weight. `obs_key`: the entry of Dict
        observations that the bonus sees. It learns after each rollout, or when `rollout_steps` steps, one of its
        settings, are full: A2C's rollouts are short.
        """
        super().__init__(verbose)
        self.obs_key = obs_key
        self.rollouts = 0
        """Rollouts that the bonus has seen."""
        self.monitor = BonusMonitor()
        self._given = bonus, weight, mixer, settings
        make_mixer(1, weight, mixer)  # settings that do not fit are refused here, as is a name that is not known
        check_type(bonus)
        if isinstance(bonus, IntrinsicReward):
            self._use(bonus)
        elif isinstance(bonus, str):
            check_settings(bonus, settings)
        self._rewards: list[NDArray[Any]] = []  # what the model is given, perhaps normalised
        self._added: list[NDArray[np.float32]] = []
        self._obs: Any = None

    # ---- what Stable-Baselines3 calls ---------------------------------------------------------------------
    def _init_callback(self) -> None:
        self.prepare(self.model)

    def prepare(self, model: BaseAlgorithm) -> None:
        """Make the bonus for this model, if that has not been done. `learn`, `save` and `load_bonus` call it."""
        check_on_policy(model)
        bonus, _, _, settings = self._given
        made = hasattr(self, "bonus")
        of_name = made and isinstance(bonus, str)  # whose settings are in it already
        attached = sb3_model.attach_bonus(
            self.bonus if made else bonus, model, self.obs_key, {} if of_name else settings
        )
        if not made:
            self._use(attached)

    def _use(self, bonus: IntrinsicReward) -> None:
        _, weight, mixer, _ = self._given
        self.bonus, self.mixer = bonus, make_mixer(bonus.num_envs, weight, mixer)
        self.returns, self._steps = Returns(bonus.num_envs), Steps(bonus.spaces)

    def _on_rollout_start(self) -> None:
        self._steps.clear()
        self._rewards.clear()
        self._added.clear()
        # learn() may have reset the environments in the middle of their episodes
        starts = np.array(self.model._last_episode_starts, dtype=np.bool_)
        self.returns.restart(starts)
        self.bonus.end_episodes(torch.from_numpy(starts))
        self._obs = np.array(choose(sb3_model.raw_obs(self.model, self.model._last_obs), self.obs_key))

    def _on_step(self) -> bool:
        model, step = self._on_policy, self.locals
        dones, infos = np.asarray(step["dones"], dtype=np.bool_), step["infos"]
        following = np.array(choose(sb3_model.raw_obs(model, step["new_obs"]), self.obs_key))
        successor = following.copy()
        for row in np.flatnonzero(dones):
            successor[row] = choose(sb3_model.final_obs(model, infos[row]), self.obs_key)
        cut = dones & sb3_model.time_limits(infos)
        action = step.get("clipped_actions", step["actions"])
        reward = np.array(step["rewards"])
        self._steps.append(self._obs, action, successor, sb3_model.raw_reward(model, reward), dones & ~cut, cut)
        self._rewards.append(reward)
        self._added.append(sb3_model.time_limit_value(model, dones, infos, step.get("lstm_states")))
        self._obs = following
        return True

    def _on_rollout_end(self) -> None:
        model = self._on_policy
        if len(self._steps) != model.rollout_buffer.buffer_size:
            raise ValueError(
                f"IntrinsicCallback: expected to see all {model.rollout_buffer.buffer_size} steps of a rollout, got "
                f"{len(self._steps)}; pass it to learn() directly or in a list, not inside another callback"
            )
        block, _ = self._steps.take(self.bonus)
        rewards = np.stack(self._rewards)
        raw, mixed = mix_block(self.bonus, self.mixer, block, rewards, model.num_timesteps)
        buffer = model.rollout_buffer
        buffer.rewards = (mixed.total + self._time_limit_part(rewards, buffer.rewards)).astype(np.float32)
        buffer.compute_returns_and_advantage(sb3_model.last_values(model), np.asarray(model._last_episode_starts))
        assert block.reward is not None
        task = block.reward.cpu().numpy()
        self.returns.add(task, sb3_model.in_task_units(model, self.mixer, task, mixed), block.done.cpu().numpy())
        self.rollouts += 1
        learns = self.rollouts % (self.bonus.rollout_steps // model.n_steps) == 0
        sb3_model.record(model, raw, mixed, self.bonus.update() if learns else {}, self)

    def _time_limit_part(self, rewards: NDArray[Any], stored: NDArray[np.float32]) -> NDArray[Any]:
        """(T, N): what the model itself has added to the rewards in its buffer."""
        added = np.stack(self._added)
        known = (rewards + added).astype(np.float32) == stored
        # an algorithm or callback that adds something else: the difference, right to one rounding
        return np.where(known, added, stored - rewards)

    @property
    def _on_policy(self) -> OnPolicyAlgorithm:
        assert isinstance(self.model, OnPolicyAlgorithm)
        return self.model

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Bonus, mixer and accounts, between two rollouts."""
        return {**parts(self), "rollouts": self.rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, rollouts=0)
        self.rollouts = state["rollouts"]


def check_on_policy(model: BaseAlgorithm) -> None:
    """Refuse algorithms that do not learn from a rollout buffer, saying what to use."""
    if not isinstance(model, OnPolicyAlgorithm):
        replays = isinstance(model, OffPolicyAlgorithm)
        use = "IntrinsicReplayBuffer.attach(model)" if replays else "PPO, A2C, TRPO, RecurrentPPO or MaskablePPO"
        raise ValueError(
            f"IntrinsicCallback: expected an on-policy algorithm, got {type(model).__name__}, which keeps no rollouts "
            f"to add a bonus to; use {use}"
        )
