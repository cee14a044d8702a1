"""From the task's reward and a raw bonus to what the agent learns from, both on one scale."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lpm.core.scale import KEPT, ReturnScale, RunningDeviation
from lpm.core.settings import check_types, expect, expect_choice
from lpm.storage.state_tree import check_like

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rewards = TypeVar("Rewards", Floats, Tensor)

CLIP = 10.0
"""Bound on a reward that is on the common scale: the first reward of a sparse task, a glitch of the bonus."""
BONUS_QUANTILE = 0.9
"""Of all segments so far: a bonus that fades as everything becomes known stays small."""
TASK_QUANTILE, TASK_SEGMENTS = 0.5, 128
"""Of the latest segments with a reward: the scale follows a task whose rewards grow or shrink."""


@dataclass(frozen=True)
class MixerConfig:
    """How the task's reward and the bonus are combined."""

    weight: float = 0.3
    """β: how much the bonus counts beside the task's reward. 0 trains exactly as without a bonus."""
    scale: Literal["unit", "task", "bonus", "none"] = "unit"
    """The common scale of both rewards. "unit": each is divided by the deviation of its own discounted return, so β has
    no unit. "task": only the bonus is divided, and multiplied by the task's deviation, so that a learner of another
    library sees its own reward unchanged. "bonus": only the bonus is divided, by its deviation over the whole run (RND,
    Burda et al. 2019); β has the unit of the task's reward. "none": as they come (the LPM paper)."""
    extrinsic_weight: float = 1.0
    """What the environment's reward is multiplied by; 0 trains on the bonus alone."""
    gamma: float = 0.99
    """Discount of the bonus: in its deviation, and in its advantages where it has a value head of its own."""
    clip: float | None = None
    """Bound on the absolute value of the divided bonus, before the weight. None: 10 if the scale is "unit" or "task",
    none otherwise."""
    clip_task: float | None = None
    """Bound on the absolute value of the environment's own reward. Atari as in Mnih et al. (2015): 1. With the scale
    "unit" the divided reward is bounded by 10 besides. Returns are reported unclipped."""

    def __post_init__(self) -> None:
        check_types(type(self), vars(self))
        for name in ("weight", "extrinsic_weight"):
            value = getattr(self, name)
            expect(self, name, 0 <= value < math.inf, "a finite number of at least 0")
        expect_choice(self, "scale", "unit", "task", "bonus", "none")
        expect(self, "gamma", 0.0 <= self.gamma <= 1.0, "a number in [0, 1]")
        expect(self, "clip", self.clip is None or self.clip > 0, "a number above 0 or None")
        expect(self, "clip_task", self.clip_task is None or self.clip_task > 0, "a number above 0 or None")

    @classmethod
    def of_bonus(cls, weight: float = 1.0, **more: Any) -> Self:
        """The bonus divided by its own deviation, the task as it comes: what most published work on bonuses does."""
        return cls(weight=weight, scale="bonus", **more)

    @property
    def common(self) -> bool:
        """Whether both rewards are on one scale."""
        return self.scale in ("unit", "task")


@dataclass(frozen=True)
class Mixed:
    """A block of rewards, (T, N) each, after mixing."""

    task: Floats
    """The weighted reward of the environment."""
    bonus: Floats
    """The weighted bonus."""

    @property
    def total(self) -> Floats:
        """What a learner with one value function learns from."""
        return self.task + self.bonus


class RewardMixer:
    """Brings both rewards to one scale and weighs them; its whole state is in `state_dict`."""

    def __init__(self, config: MixerConfig, num_envs: int) -> None:
        self.config, self.num_envs, gamma = config, num_envs, config.gamma
        assert TASK_SEGMENTS <= KEPT
        self.task_scale = ReturnScale(num_envs, gamma, quantile=TASK_QUANTILE, recent=TASK_SEGMENTS)
        self.bonus_scale: ReturnScale | RunningDeviation = (
            ReturnScale(num_envs, gamma, quantile=BONUS_QUANTILE)
            if config.common
            else RunningDeviation(num_envs, gamma)
        )

    def mix(self, task: NDArray[Any], bonus: Floats, valid: Mask) -> Mixed:
        """One (T, N) block of both rewards, once and in time order."""
        self.check("task", task)
        self.check("bonus", bonus)
        bonus = np.where(valid, bonus, np.float32(0))
        if self.config.common:
            self.task_scale.observe(self._clipped(task), valid)
        if self.config.scale != "none":
            self.bonus_scale.observe(bonus, valid)
        with np.errstate(over="ignore", invalid="ignore"):
            mixed = Mixed(self.task(task), self.bonus(bonus))
            fits = bool(np.isfinite(mixed.total).all())
        if not fits:
            raise ValueError(
                "rewards: expected a finite sum of task and bonus, got one beyond single precision from task rewards "
                f"up to {np.abs(task).max():.3g} and bonuses up to {np.abs(bonus).max():.3g} with {self.config}"
            )
        return mixed

    def task(self, reward: Rewards) -> Rewards:
        """The environment's reward as the learner sees it, by the scale as it is now."""
        reward = self._clipped(reward)
        if self.config.scale == "unit":
            reward = (reward / self.task_scale.value).clip(-CLIP, CLIP)
        return self.config.extrinsic_weight * reward

    def bonus(self, raw: Rewards) -> Rewards:
        """A raw bonus as the learner sees it, by the scale as it is now."""
        config = self.config
        bonus = raw if config.scale == "none" else raw / self.bonus_scale.value
        bound = CLIP if config.clip is None and config.common else config.clip
        if bound is not None:
            bonus = bonus.clip(-bound, bound)
        if config.scale == "task":
            bonus = bonus * self.task_scale.value
        return config.weight * bonus

    def _clipped(self, task: Rewards) -> Rewards:
        bound = self.config.clip_task
        return task if bound is None else task.clip(-bound, bound)

    def check(self, name: str, rewards: NDArray[Any]) -> None:
        """Refuse a block of rewards of another shape, or with values that are no finite numbers."""
        if rewards.ndim != 2 or rewards.shape[1] != self.num_envs:
            raise ValueError(f"{name}: expected rewards (T, {self.num_envs}), got shape {rewards.shape}")
        if rewards.dtype.kind not in "biuf":
            raise ValueError(f"{name}: expected real numbers, got {rewards.dtype}")
        fits = np.abs(rewards) <= np.finfo(np.float32).max
        if not fits.all():
            raise ValueError(f"{name}: expected finite rewards of single precision, got {rewards[~fits][0]}")

    @property
    def share(self) -> float:
        """The bonus's share in the deviation of the return that is learnt from, in the latest segment."""
        config = self.config
        if not isinstance(self.bonus_scale, ReturnScale):
            return math.nan
        bonus = config.weight * self.bonus_scale.latest / self.bonus_scale.value
        task = config.extrinsic_weight * self.task_scale.latest / self.task_scale.value
        return bonus / (bonus + task) if bonus + task > 0 else 0.0

    def metrics(self) -> dict[str, float]:
        """What there is to log: both scales, and the bonus's share in what is learnt from."""
        if not self.config.common:
            return {}
        return {"task_scale": self.task_scale.value, "bonus_scale": self.bonus_scale.value, "share": self.share}

    def state_dict(self) -> dict[str, Tensor]:
        """Both scales."""
        scales = {"task": self.task_scale.state_dict(), "bonus": self.bonus_scale.state_dict()}
        return {f"{name}.{key}": value for name, state in scales.items() for key, value in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` saved."""
        self.check_state(state)
        for name, scale in (("task", self.task_scale), ("bonus", self.bonus_scale)):
            part = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            scale.load_state_dict(part)

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Raise what `load_state_dict` would."""
        rows = state.get("task.rows") if isinstance(state, Mapping) else None
        if isinstance(rows, Tensor) and rows.ndim and len(rows) != self.num_envs:
            raise ValueError(f"mixer: expected a state of {self.num_envs} environments, got {len(rows)}")
        check_like(self.state_dict(), state, "mixer")
