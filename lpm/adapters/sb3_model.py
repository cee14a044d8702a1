"""What a bonus needs to know of a Stable-Baselines3 model, and what it tells its log."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

from lpm.adapters._common import Returns, check_no_policy, choose_spaces, log, make_or_check
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import Mixed, RewardMixer
from lpm.core.monitor import BonusMonitor
from lpm.core.registry import make
from lpm.core.spaces import Spaces


def spaces_of(model: BaseAlgorithm, obs_key: str | None = None) -> Spaces:
    """The spaces of a model's environment; `obs_key` names the entry of Dict observations that the bonus sees."""
    return choose_spaces(model.observation_space, model.action_space, obs_key)


def make_bonus(name: str, model: BaseAlgorithm, *, obs_key: str | None = None, **settings: Any) -> IntrinsicReward:
    """`lpm.make` with the spaces, environments and, if it is on-policy, the block size of a model."""
    settings.setdefault("num_envs", model.n_envs)
    if isinstance(model, OnPolicyAlgorithm):
        settings.setdefault("rollout_steps", model.n_steps)
    return make(name, spaces_of(model, obs_key), **settings)


def attach_bonus(
    bonus: str | IntrinsicReward, model: BaseAlgorithm, obs_key: str | None, settings: dict[str, Any]
) -> IntrinsicReward:
    """The bonus for this model, made or checked; refused where its raw observations are out of reach."""
    on_policy = {"rollout_steps": model.n_steps} if isinstance(model, OnPolicyAlgorithm) else {}
    made = make_or_check(bonus, spaces_of(model, obs_key), model.n_envs, {**on_policy, **settings})
    if made.rollout_steps < (least := on_policy.get("rollout_steps", 0)):
        raise ValueError(
            f"bonus: expected rollout_steps of at least {least}, the model's n_steps, got {made.rollout_steps}: it "
            "would forget the first steps of a rollout before it learns"
        )
    check_no_policy(made, "Stable-Baselines3 does not keep")
    normalise = _normalises_obs(model)
    if normalise is not None:
        raw = choose_spaces(normalise.observation_space, model.action_space, obs_key).observation
        if raw.shape != made.spaces.observation.shape:
            raise ValueError(
                f"VecNormalize: expected it around all wrappers that change observations, got {raw.shape} in it and "
                f"{made.spaces.observation.shape} at the model"
            )
    return made


def time_limits(infos: list[dict[str, Any]]) -> NDArray[np.bool_]:
    """(N,): which episodes were cut by a time limit."""
    return np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])


def raw_obs(model: BaseAlgorithm, obs: Any) -> Any:
    """The observations that a step or reset has just returned, as they were before VecNormalize."""
    normalise = _normalises_obs(model)
    return obs if normalise is None else normalise.get_original_obs()


def raw_reward(model: BaseAlgorithm, reward: NDArray[Any]) -> NDArray[Any]:
    """The rewards of the last step, as they were before VecNormalize."""
    normalise = model.get_vec_normalize_env()
    return reward if normalise is None else normalise.get_original_reward()


def in_task_units(model: BaseAlgorithm, mixer: RewardMixer, task: NDArray[Any], mixed: Mixed) -> NDArray[Any]:
    """What the model learns from, in units of the raw `task` rewards, which VecNormalize divides."""
    normalise, unit = model.get_vec_normalize_env(), 1.0
    if normalise is not None and normalise.norm_reward:
        unit = float(np.sqrt(normalise.ret_rms.var + normalise.epsilon))
    shaped: NDArray[Any] = mixer.config.extrinsic_weight * task + unit * mixed.bonus
    return shaped


def final_obs(model: BaseAlgorithm, info: dict[str, Any]) -> Any:
    """The last observation of an episode, as it was before VecNormalize."""
    final = info.get("terminal_observation")
    if final is None:
        raise ValueError(
            "expected info['terminal_observation'] at the end of an episode, as Stable-Baselines3's vector "
            f"environments give it, got {sorted(info)}"
        )
    normalise = _normalises_obs(model)
    return final if normalise is None else normalise.unnormalize_obs(final)


def _normalises_obs(model: BaseAlgorithm) -> VecNormalize | None:
    """The wrapper that changes observations, if there is one; VecNormalize may change rewards only."""
    normalise = model.get_vec_normalize_env()
    return normalise if normalise is not None and normalise.norm_obs else None


# ---- the critic -------------------------------------------------------------------------------------------
# Asked exactly as collect_rollouts asks it, one row for a final observation and all rows for the last ones, so that
# what comes out is bit for bit what the model computed itself.
@torch.no_grad()
def time_limit_value(
    model: OnPolicyAlgorithm, dones: NDArray[np.bool_], infos: list[dict[str, Any]], states: Any
) -> NDArray[np.float32]:
    """(N,): what `collect_rollouts` adds to the rewards of episodes cut by a time limit, γ V(final observation).

    `states` are the recurrent states after the step, None without any.
    """
    added = np.zeros(len(dones), dtype=np.float32)
    for row in np.flatnonzero(dones & time_limits(infos)):
        obs = model.policy.obs_to_tensor(infos[row]["terminal_observation"])[0]
        if states is None:
            value = model.policy.predict_values(obs)[0]
        else:
            hidden, cell = (state[:, row : row + 1, :].contiguous() for state in states.vf)
            going_on = torch.zeros(1, device=model.device)
            value = _recurrent_values(model, obs, (hidden, cell), going_on)[0]
        added[row] = (model.gamma * value).item()
    return added


@torch.no_grad()
def last_values(model: OnPolicyAlgorithm) -> Tensor:
    """(N, 1): the values of the observations that follow a rollout."""
    obs = obs_as_tensor(model._last_obs, model.device)  # type: ignore[arg-type]
    states = getattr(model, "_last_lstm_states", None)
    if states is None:
        return model.policy.predict_values(obs)
    starts = torch.tensor(model._last_episode_starts, dtype=torch.float32, device=model.device)
    return _recurrent_values(model, obs, states.vf, starts)


def _recurrent_values(model: Any, obs: Any, states: Any, starts: Tensor) -> Tensor:
    values: Tensor = model.policy.predict_values(obs, states, starts)
    return values


class Recorded(Protocol):
    """What `record` reads of an adapter."""

    mixer: RewardMixer
    monitor: BonusMonitor
    returns: Returns


def record(
    model: BaseAlgorithm, raw: NDArray[np.float32], mixed: Mixed, metrics: dict[str, Any], adapter: Recorded
) -> None:
    """Log the bonus before and after mixing, its own metrics, the mixer's and both returns; warn where needed."""
    if not hasattr(model, "_logger"):
        return  # steps put into a buffer by hand, before `learn` has made a logger
    learnt = {name: float(value) for name, value in metrics.items()}
    returns = adapter.returns.means()
    values = {
        "bonus_mean": float(raw.mean()),
        "bonus_std": float(raw.std()),
        "weighted_mean": float(mixed.bonus.mean()),
        **learnt,
        **adapter.mixer.metrics(),
        **returns,
    }
    for name, value in values.items():
        model.logger.record(f"intrinsic/{name}", value)
    for message in adapter.monitor.observe(adapter.mixer, learnt, returns.get("task_return"), _clipped_share(model)):
        log.warning(message)


def _clipped_share(model: BaseAlgorithm) -> float | None:
    """The share of the last observations' numbers that VecNormalize has clipped."""
    normalise, obs = _normalises_obs(model), model._last_obs
    if normalise is None or not isinstance(obs, np.ndarray):
        return None
    return float((np.abs(obs) >= normalise.clip_obs).mean())
