"""What every adapter does: check its parts, build blocks from arrays, weigh replayed bonuses, account for returns."""

import inspect
import logging
import math
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import Floats, Mixed, MixerConfig, RewardMixer
from lpm.core.monitor import finite
from lpm.core.registry import configure, make
from lpm.core.spaces import Spaces
from lpm.core.transitions import RECENT, EpisodeSums, Transitions
from lpm.storage.state_tree import check_like, require
from lpm.utils.versions import pip_install

Values = ArrayLike | Tensor
Flags = NDArray[np.bool_]
log = logging.getLogger("lpm")


def missing(package: str, extra: str) -> ImportError:
    """What to install before an adapter can be imported."""
    return ImportError(f"this adapter needs the package {package}, which is not installed: {pip_install(extra)}")


# ---- spaces -----------------------------------------------------------------------------------------------
def choose_spaces(
    observation: gymnasium.Space[Any], action: gymnasium.Space[Any], obs_key: str | None = None
) -> Spaces:
    """The spaces a bonus sees: those of the environment, with one entry chosen from a Dict observation."""
    if isinstance(observation, Dict):
        known = sorted(observation.spaces)
        if obs_key is None:
            raise ValueError(f"obs_key: the observations are a Dict, expected the entry the bonus sees, one of {known}")
        if obs_key not in observation.spaces:
            raise ValueError(f"obs_key: expected one of {known}, got {obs_key!r}")
        observation = observation.spaces[obs_key]
    elif obs_key is not None:
        raise ValueError(f"obs_key: expected None, because the observations are no Dict but {observation}")
    if isinstance(observation, MultiBinary):  # numbers already
        observation = Box(0.0, 1.0, observation.shape, np.float32)
    if isinstance(observation, (Discrete, MultiDiscrete, Tuple)):
        advice = "wrap the environment in gymnasium.wrappers.FlattenObservation, which makes a vector of it"
        if obs_key is not None:  # flattening would take the policy its Dict
            advice = (
                "choose another entry, or add a vector of it to the Dict with gymnasium.wrappers.TransformObservation"
            )
        raise ValueError(f"observations: expected a gymnasium Box, got {observation}; {advice}")
    return Spaces(observation, action)


def choose(obs: Any, obs_key: str | None) -> Any:
    """The part of an observation that the bonus sees."""
    return obs if obs_key is None else obs[obs_key]


# ---- checks -----------------------------------------------------------------------------------------------
def make_mixer(num_envs: int, weight: float | None, config: MixerConfig | None) -> RewardMixer:
    """A mixer: by the `weight` alone, which leaves the task's reward unchanged, or by all settings."""
    given: Any = config
    if isinstance(weight, MixerConfig):
        raise ValueError("weight: expected a number, got a MixerConfig; pass it as mixer=")
    if config is None:
        config = MixerConfig(scale="task") if weight is None else MixerConfig(weight=weight, scale="task")
    elif not isinstance(given, MixerConfig):
        raise ValueError(f"mixer: expected an lpm.MixerConfig, got {type(given).__name__}")
    elif weight is not None:
        raise ValueError(f"weight: expected it in the MixerConfig, which is given too, got {weight!r} beside it")
    if config.scale == "unit":  # that of our own agents; here the task's reward belongs to another library's learner
        config = replace(config, scale="task")
    return RewardMixer(config, num_envs)


def check_settings(bonus: str, settings: dict[str, Any]) -> None:
    """Refuse a name, or settings, that `lpm.make` would refuse, and what the environments say."""
    of_make = set(inspect.signature(make).parameters)
    if told := settings.keys() & {"name", "spaces", "num_envs"}:
        raise ValueError(f"bonus: expected no {' or '.join(sorted(told))}, which the environments say, got {settings}")
    configure(bonus, settings.get("variant"), **{name: x for name, x in settings.items() if name not in of_make})


def check_type(bonus: object) -> None:
    """Refuse what is neither a name nor a bonus."""
    if not isinstance(bonus, (str, IntrinsicReward)):
        raise ValueError(f"bonus: expected a name, see `lpm bonuses`, or an lpm.IntrinsicReward; got {bonus!r}")


def make_or_check(
    bonus: str | IntrinsicReward, spaces: Spaces, num_envs: int, settings: dict[str, Any]
) -> IntrinsicReward:
    """The bonus of this name, made for these spaces; or the one that was given, if it was made for them."""
    check_type(bonus)
    if isinstance(bonus, str):
        check_settings(bonus, settings)
        return make(bonus, spaces, num_envs=num_envs, **settings)
    unused = {name for name in settings if name != "rollout_steps"}
    if unused:
        raise ValueError(f"bonus: settings {sorted(unused)} are for a bonus given by its name, got {bonus}")
    check_bonus(bonus, spaces, num_envs)
    return bonus


def check_bonus(bonus: IntrinsicReward, spaces: Spaces, num_envs: int) -> None:
    """Refuse a bonus that was built for something else than what this adapter will give it."""
    for name in ("observation", "action"):
        built, here = getattr(bonus.spaces, name), getattr(spaces, name)
        # bounds may differ: wrappers that normalise change them, and the bonus keeps those it was built with
        fits = built == here if name == "action" else (built.shape, built.dtype) == (here.shape, here.dtype)
        if not fits:
            raise ValueError(f"bonus: expected one built for the {name} space {here}, got one for {built}")
    if bonus.num_envs != num_envs:  # its queues, filters and memories would be of the wrong length
        raise ValueError(f"bonus: expected one built with num_envs={num_envs}, got num_envs={bonus.num_envs}")


def check_no_policy(bonus: IntrinsicReward, why: str) -> None:
    """Refuse a bonus that needs the policy's parameters where there are none."""
    if "policy" in bonus.needs:
        raise ValueError(
            f"bonus: {type(bonus).__name__} needs the policy's parameters, which {why}; use lpm.agents.PPO"
        )


def check_count(name: str, value: Any, why: str = "") -> int:
    """An integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}: expected an integer of at least 1{why}, got {value!r}")
    return int(value)


# ---- blocks -----------------------------------------------------------------------------------------------
def make_block(
    bonus: IntrinsicReward,
    obs: Values,
    action: Values,
    next_obs: Values,
    *,
    terminated: Values,
    truncated: Values,
    valid: Values | None = None,
    reward: Values | None = None,
    policy: Values | None = None,
) -> Transitions:
    """(T, N, ...) arrays or tensors as a block of the types, and on the device, that the bonus expects.

    Actions may come flattened; a trailing axis of 1 after discrete ones is dropped.
    """
    spaces, as_tensor = bonus.spaces, partial(torch.as_tensor, device=bonus.device)
    ended = as_tensor(terminated, dtype=torch.bool)
    lead = tuple(ended.shape)

    def shaped(name: str, values: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        tensor = as_tensor(values, dtype=dtype)
        if tensor.numel() != math.prod((*lead, *shape)):
            came = tuple(tensor.shape[len(lead) :])
            raise ValueError(f"bonus: expected one built for an {name} of shape {came}, got one for {shape}")
        return tensor.reshape(*lead, *shape)

    return Transitions(
        obs=shaped("observation", obs, spaces.obs_shape, spaces.obs_dtype),
        action=shaped("action", action, spaces.action_shape, spaces.action_dtype),
        next_obs=shaped("observation", next_obs, spaces.obs_shape, spaces.obs_dtype),
        terminated=ended,
        truncated=as_tensor(truncated, dtype=torch.bool),
        valid=torch.ones_like(ended) if valid is None else as_tensor(valid, dtype=torch.bool),
        reward=None if reward is None else as_tensor(reward, dtype=torch.float32),
        policy=None if policy is None else as_tensor(policy, dtype=torch.float32),
    )


# ---- rewards ----------------------------------------------------------------------------------------------
def mix_block(
    bonus: IntrinsicReward, mixer: RewardMixer, block: Transitions, task: NDArray[Any], step: int
) -> tuple[Floats, Mixed]:
    """Show a block to the bonus: its raw rewards (T, N), and both rewards mixed; `step` is for error messages."""
    raw = finite(bonus.step(block).cpu().numpy(), f"bonus {type(bonus).__name__}", step)
    return raw, mixer.mix(task, raw, block.valid.cpu().numpy())


class Returns:
    """Recent returns of finished episodes, of the task's own reward and of the shaped one, kept apart."""

    def __init__(self, num_envs: int) -> None:
        self._sums = EpisodeSums(2, num_envs)

    def add(self, task: NDArray[Any], shaped: NDArray[Any], done: Flags, left: Flags | None = None) -> None:
        """A (T, N) block of both rewards; an episode that was `left` counts for nothing."""
        self._sums.add(np.stack((task, shaped)), done, left)

    def restart(self, rows: NDArray[np.bool_]) -> None:
        """In these environments an episode begins; one that was left without an end is forgotten."""
        self._sums.running[:, rows] = 0.0

    def means(self) -> dict[str, float]:
        """Mean over the recent episodes; empty before the first has ended."""
        if not self._sums.recent:
            return {}
        task, shaped = np.mean(self._sums.recent, axis=0)
        return {"task_return": float(task), "shaped_return": float(shaped)}

    def state_dict(self) -> dict[str, Tensor]:
        recent = torch.tensor(list(self._sums.recent), dtype=torch.float64).reshape(-1, 2)
        return {"running": torch.from_numpy(self._sums.running.copy()), "recent": recent}

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Raise what `load_state_dict` would; the number of recent episodes is any."""
        check_like({"running": torch.from_numpy(self._sums.running), "recent": state.get("recent")}, state, "returns")
        recent: Any = state["recent"]
        require(isinstance(recent, Tensor) and recent.shape[1:] == (2,), "returns.recent: a tensor (n, 2)", recent)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._sums.running = state["running"].numpy().copy()
        self._sums.recent = deque(map(tuple, state["recent"].tolist()), maxlen=RECENT)


# ---- steps ------------------------------------------------------------------------------------------------
class Steps:
    """Steps of N environments, one after the other, until they are taken as a block."""

    FIELDS = ("obs", "action", "next_obs", "reward", "terminated", "truncated", "valid", "left")

    def __init__(self, spaces: Spaces) -> None:
        seen = np.uint8 if spaces.obs_dtype == torch.uint8 else np.float32
        acted = np.float32 if spaces.action_kind == "continuous" else np.int64
        self._types: tuple[type, ...] = (seen, acted, seen, np.float64, *4 * (np.bool_,))
        self._rows: list[tuple[NDArray[Any], ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(
        self, obs: Any, action: Any, next_obs: Any, reward: Any, terminated: Any, truncated: Any, valid: Any = None
    ) -> None:
        """One step of all environments; arrays are copied. Rows that are not `valid` were only reset."""
        every = np.ones(np.shape(terminated)) if valid is None else valid
        values = (obs, action, next_obs, reward, terminated, truncated, every, np.zeros(np.shape(terminated)))
        with np.errstate(over="ignore"):  # what single precision does not hold is refused with its block
            self._rows.append(tuple(np.array(v, dtype=t) for v, t in zip(values, self._types, strict=True)))

    def leave(self, rows: NDArray[np.bool_]) -> None:
        """The episodes of these environments are over after the latest step, without an end: they were reset."""
        self._rows[-1][-1][...] |= rows

    def take(self, bonus: IntrinsicReward) -> tuple[Transitions, NDArray[np.bool_]]:
        """All steps since the last time, as a block, and which of them (T, N) were the last before a reset."""
        fields = dict(zip(self.FIELDS, map(np.stack, zip(*self._rows, strict=True)), strict=True))
        left = fields.pop("left")
        fields["truncated"] |= left
        self.clear()
        return make_block(bonus, **fields), left

    def rewards(self, count: int) -> NDArray[Any]:
        """(count, N): of the first steps that wait."""
        return np.array([row[self.FIELDS.index("reward")] for row in self._rows[:count]])

    def clear(self) -> None:
        self._rows.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """The steps that wait to be taken, as tensors."""
        if not self._rows:
            return {}
        columns = map(np.stack, zip(*self._rows, strict=True))
        return {name: torch.from_numpy(column) for name, column in zip(self.FIELDS, columns, strict=True)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        columns = [state[name].numpy() for name in self.FIELDS] if state else []
        self._rows = [tuple(row) for row in zip(*columns, strict=True)]
