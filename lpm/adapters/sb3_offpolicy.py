"""A bonus in Stable-Baselines3's off-policy algorithms."""

import math
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import Tensor

from lpm.adapters._common import Returns, Steps, choose, log, make_block, make_mixer, mix_block
from lpm.adapters._state import load_parts, parts
from lpm.adapters.sb3_model import attach_bonus, in_task_units, record, time_limits
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import MixerConfig, RewardMixer
from lpm.core.monitor import BonusMonitor, finite
from lpm.core.registry import names

Samples = ReplayBufferSamples | DictReplayBufferSamples


class IntrinsicReplayBuffer:
    """Around the replay buffer of SAC, TD3, DDPG, DQN, TQC or QR-DQN: adds the bonus when transitions are sampled.

    Stored transitions keep the task's reward; each sample is scored with the bonus as it is now, on raw observations,
    and the critic sees (normalised) reward + β · bonus. New transitions are shown to the bonus once, in order, in
    blocks of its `rollout_steps`, each followed by an update.

    `save_replay_buffer` saves the buffer inside, as Stable-Baselines3 alone would.
    """

    def __init__(
        self,
        model: OffPolicyAlgorithm,
        inner: ReplayBuffer,
        bonus: IntrinsicReward,
        mixer: RewardMixer,
        obs_key: str | None,
    ) -> None:
        """Made by `attach`."""
        self.model = model
        self.inner = inner
        self.bonus = bonus
        self.mixer = mixer
        self.obs_key = obs_key
        self.returns = Returns(bonus.num_envs)
        self.monitor = BonusMonitor()
        self.updates = 0
        """Updates of the bonus so far."""
        self._steps = Steps(bonus.spaces)
        self._since_update = 0
        self._seen = False
        self._began = model._last_episode_starts  # another array after each time that learn() resets the environments

    @classmethod
    def attach(
        cls,
        model: BaseAlgorithm,
        bonus: str | IntrinsicReward = "lgn",
        weight: float | None = None,
        *,
        mixer: MixerConfig | None = None,
        obs_key: str | None = None,
        **settings: Any,
    ) -> Self:
        """Put a bonus into a model, which keeps it until `detach`.

        `bonus`: a name with its `settings`, or one that `make_bonus` made; of a name with a form for replayed
        transitions, such as lgn, that form is taken. `weight`: how much it counts beside the task, 0.3 if left out.
        `mixer`: all settings of the mixing in place of the weight. `obs_key`: the entry of Dict observations that the
        bonus sees. It learns every `rollout_steps` steps, one of its settings. SAC's entropy starts lower than at 1.
        """
        if not isinstance(model, OffPolicyAlgorithm):
            raise ValueError(
                f"IntrinsicReplayBuffer: expected an off-policy algorithm, got {type(model).__name__}; use "
                "model.learn(..., callback=IntrinsicCallback()) instead"
            )
        if isinstance(model.replay_buffer, cls):
            raise ValueError("IntrinsicReplayBuffer: this model has a bonus already; detach() that one first")
        if isinstance(bonus, str) and f"{bonus}_lifelong" in names():
            log.warning(f"{bonus} remembers episodes, which replayed transitions do not have: using {bonus}_lifelong")
            bonus = f"{bonus}_lifelong"
        made = attach_bonus(bonus, model, obs_key, settings)
        inner = check_replay(model.replay_buffer, made)
        buffer = cls(model, inner, made, make_mixer(made.num_envs, weight, mixer), obs_key)
        model.replay_buffer = buffer  # type: ignore[assignment]
        start_entropy(model, buffer.mixer.config)
        return buffer

    def detach(self) -> None:
        """Give the model back its own buffer."""
        self.model.replay_buffer = self.inner

    def __call__(self, *_: Any) -> bool:
        """What Stable-Baselines3 would call if this were a callback."""
        raise ValueError("IntrinsicReplayBuffer: it is no callback; the model has it already, call learn() without it")

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Refuse to be made by Stable-Baselines3, which knows of no bonus."""
        if "device" in options:
            raise ValueError(
                "IntrinsicReplayBuffer: it is no replay_buffer_class; make the model without it, then "
                "IntrinsicReplayBuffer.attach(model)"
            )
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __reduce__(self) -> Any:
        return copy, (self.inner,)

    # ---- what Stable-Baselines3 calls ---------------------------------------------------------------------
    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one step of all environments: raw observations, true successors, the task's reward."""
        self.inner.add(obs, next_obs, action, reward, done, infos)
        ended = np.asarray(done, dtype=np.bool_)
        if self.model._last_episode_starts is not self._began:
            self._restart()
        cut = ended & time_limits(infos)
        seen, successor = choose(obs, self.obs_key), choose(next_obs, self.obs_key)
        executed = self._executed(torch.as_tensor(action)).numpy()
        self._steps.append(seen, executed, successor, reward, ended & ~cut, cut)
        self._since_update += 1
        if self._since_update == self.bonus.rollout_steps:
            self._observe(update=True)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Samples:
        """A batch whose rewards are those of the task, normalised if `env` does so, plus the weighted bonus."""
        if not self._seen and len(self._steps):  # the scale of the bonus is known from the first sample on
            self._observe(update=False)
        samples: Samples = self.inner.sample(batch_size, env=None)
        ended = samples.dones.view(1, -1) > 0
        block = make_block(
            self.bonus,
            choose(samples.observations, self.obs_key).unsqueeze(0),
            self._executed(samples.actions).unsqueeze(0),
            choose(samples.next_observations, self.obs_key).unsqueeze(0),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            # a buffer that saves memory has the observation after the reset in the place of a final one
            valid=~ended if self.inner.optimize_memory_usage else None,
            reward=samples.rewards.view(1, -1),
        )
        raw = self.bonus.score(block)
        finite(raw.cpu().numpy(), f"bonus {type(self.bonus).__name__}", self.model.num_timesteps)
        weighted = self.mixer.bonus(raw).view(-1, 1)
        task = samples.rewards
        if env is not None:
            task = _through(env.normalize_reward, task)
            samples = samples._replace(
                observations=_through(env.normalize_obs, samples.observations),
                next_observations=_through(env.normalize_obs, samples.next_observations),
            )
        return samples._replace(rewards=self.mixer.task(task) + weighted.to(task.device))

    # ---- the bonus ----------------------------------------------------------------------------------------
    def _observe(self, *, update: bool) -> None:
        """Show the steps that wait to the bonus and its mixer; learn from all since the last update if asked."""
        block, _ = self._steps.take(self.bonus)
        assert block.reward is not None
        reward = block.reward.cpu().numpy()
        normalise = self.model.get_vec_normalize_env()
        task = reward if normalise is None else normalise.normalize_reward(reward)
        raw, mixed = mix_block(self.bonus, self.mixer, block, task, self.model.num_timesteps)
        self.returns.add(reward, in_task_units(self.model, self.mixer, reward, mixed), block.done.cpu().numpy())
        self._seen = True
        if update:
            metrics = self.bonus.update()
            self.updates += 1
            self._since_update = 0
            record(self.model, raw, mixed, metrics, self)

    def _restart(self) -> None:
        """The environments were reset, perhaps in the middle of their episodes."""
        if len(self._steps):
            self._observe(update=False)
        self.returns.restart(np.ones(self.bonus.num_envs, dtype=np.bool_))
        self._began = self.model._last_episode_starts

    def _executed(self, stored: Tensor) -> Tensor:
        """What the environment was given: buffers keep continuous actions scaled to [-1, 1]."""
        space = self.inner.action_space
        if not isinstance(space, Box):
            return stored
        low, high = (torch.as_tensor(x, device=stored.device).float().ravel() for x in (space.low, space.high))
        return low + 0.5 * (stored.reshape(-1, len(low)) + 1.0) * (high - low)

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Bonus, mixer, accounts and the steps that wait for the next update; not the stored transitions."""
        return {
            **parts(self),
            "steps": self._steps.state_dict(),
            "counters": [self.updates, self._since_update, int(self._seen)],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, steps={}, counters=[0, 0, 0])
        self._steps.load_state_dict(state["steps"])
        self.updates, self._since_update, seen = state["counters"]
        self._seen = bool(seen)


def check_replay(buffer: ReplayBuffer | None, bonus: IntrinsicReward) -> ReplayBuffer:
    """Refuse buffers whose samples are not single stored transitions, and bonuses that cannot score those."""
    if buffer is None:
        raise ValueError("IntrinsicReplayBuffer: expected a model with a replay buffer, got one that is not set up yet")
    if isinstance(buffer, (HerReplayBuffer, NStepReplayBuffer)):  # of invented goals, and of sums over several steps
        raise ValueError(
            f"IntrinsicReplayBuffer: samples of {type(buffer).__name__} are no stored transitions, which a bonus could "
            "score; use the default replay buffer with n_steps=1"
        )
    if bonus.episodic:
        raise ValueError(
            f"bonus: {type(bonus).__name__} keeps a memory per environment, where a sampled transition has no place; "
            "use 'lgn_lifelong', 'rnd' or another bonus without one, or an on-policy algorithm with IntrinsicCallback"
        )
    return buffer


def start_entropy(model: Any, config: MixerConfig) -> None:
    """Let the entropy coefficient that SAC and TQC learn by default start on the common scale instead of at 1.

    One nat at every step is a return of α/(1 - γ): at α = 1 and γ = 0.99 a hundred times that scale. It stays in the
    critic long after α has fallen, so that to reach a goal is a loss. A coefficient that was chosen or learnt stays.
    """
    start, default = 1 - model.gamma, getattr(model, "ent_coef", None) == "auto" and model.num_timesteps == 0
    if default and 0 < start < 1 and config.common and config.weight > 0:
        log.warning(f"the entropy coefficient starts at {start:.2g}, on the scale of the bonus, instead of 1")
        with torch.no_grad():
            model.log_ent_coef.fill_(math.log(start))


def _through(function: Any, values: Any) -> Any:
    """A NumPy function on a tensor, or on a dict of them."""
    if isinstance(values, dict):
        result = function({key: value.cpu().numpy() for key, value in values.items()})
        return {key: torch.as_tensor(value, device=values[key].device) for key, value in result.items()}
    return torch.as_tensor(function(values.cpu().numpy()), device=values.device)
