"""From the task's reward and a raw bonus to what the agent learns from, both on one scale."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
        scales = {"task": self.task_scale.state_dict(), "bonus": self.bonus_scale.state_dict()}
        return {f"{name}.{key}": value for name, state in scales.items() for key, value in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
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


# ---- how large each stream of rewards is ----------------------------------------------------------------------
SEGMENT = 128
"""Steps of a segment: a horizon of 1/(1 - 0.99) and a little more."""
KEPT = 512
"""Sizes that are kept. A scale of the whole run thins them out evenly when there are more."""
ENOUGH, FLOOR = 64, 0.25
"""A scale of the whole run that was measured on this many segments never falls below this share of its highest value:
what is left of a bonus when everything is known is not scaled up again, however long that lasts."""
GROWTH = 71.0
"""Steps in which R of equal rewards (γ = 0.99) grows in proportion to time: n have n/71 of the deviation of a whole
segment."""
TINY = 1e-12
"""Of the mean |R| of a segment: a deviation of less is rounding, not variation."""
MIN_DEVIATION = 1e-30
"""A smaller deviation is none: single precision cannot divide by it."""


def discounted_filter(
    rewards: NDArray[Any], carry: NDArray[np.float64], gamma: float, valid: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """R_t = γ R_{t-1} + r_t along time in each environment, from the `carry` (N,) of the block before.

    Never reset at the end of an episode; steps that are not valid leave R as it was. Returns R (T, N) and the new
    carry.

    >>> filtered, _ = discounted_filter(np.array([[1.0], [1.0], [1.0], [0.0], [0.0]]), np.zeros(1), 0.99)
    >>> [round(float(x), 6) for x in filtered[:, 0]]
    [1.0, 1.99, 2.9701, 2.940399, 2.910995]
    """
    filtered = np.empty(rewards.shape, dtype=np.float64)
    carry = carry.copy()
    for t, reward in enumerate(rewards):
        following = gamma * carry + reward
        carry = following if valid is None else np.where(valid[t], following, carry)
        filtered[t] = carry
    return filtered, carry


def segment_size(deviations: NDArray[np.float64]) -> float:
    """The median deviation of the environments in which the sum varied; 0 if it varied in none.

    >>> segment_size(np.array([0.0, 0.0, 2.0, 4.0, 100.0]))
    4.0
    """
    varied = deviations[deviations > 0]
    return float(np.median(varied)) if len(varied) else 0.0


def lower_quantile(sizes: NDArray[np.float64], share: float) -> float:
    """The largest of the lowest `share` of the sizes: of two or more, the highest one never counts.

    >>> lower_quantile(np.array([1.0, 1e7]), 0.9), lower_quantile(np.array([3.0, 1.0, 2.0]), 0.5)
    (1.0, 2.0)
    """
    return float(np.quantile(sizes, share, method="lower"))


class ReturnScale:
    """How large a stream of rewards is: one number that neither a quiet start, nor a spike, nor a long rest can set.

    The discounted sum R_t = γ R_{t-1} + r_t is followed for 128 steps at a time, each time from R = 0. The size of such
    a segment is the standard deviation of R along it, the median over the environments in which it varied. The scale is
    a quantile of the segments' sizes. One segment is one number, so whatever happens in it has the weight of 128 steps.
    """

    def __init__(self, num_envs: int, gamma: float, *, quantile: float, recent: int | None = None) -> None:
        """`quantile` of the sizes of the `recent` segments, of all segments if that is None."""
        self.gamma, self.quantile, self.recent = gamma, quantile, recent
        self._sums = np.zeros((4, num_envs))  # of the open segment: R, steps, mean of R, squared distances from it
        self._steps = 0  # of the open segment
        self._stride, self._seen = 1, 0  # one of so many segments is kept, and segments since the last that was
        self._sizes = np.zeros(0)
        self._highest = 0.0  # quantile so far, once it is that of ENOUGH segments
        self.segments = 0
        """Whole segments since this was made or loaded."""
        self.latest = 0.0
        """Size of the latest segment; before the first one is whole, of what there is of it."""

    @property
    def value(self) -> float:
        """The scale; 1 while nothing has varied."""
        if not len(self._sizes):
            return self.latest or 1.0
        quantile = lower_quantile(self._sizes, self.quantile)
        return quantile if self.recent is not None else max(quantile, FLOOR * self._highest)

    def observe(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """A (T, N) block of rewards, once and in time order."""
        start = 0
        while start < len(rewards):
            stop = min(start + SEGMENT - self._steps, len(rewards))
            self._add(rewards[start:stop], valid[start:stop])
            if self._steps == SEGMENT:
                self.latest = self._size()
                self.segments += 1
                self._keep(self.latest)
                self._sums[...] = 0.0
                self._steps = 0
            start = stop
        if self._steps and not len(self._sizes):  # R has only begun to grow: what a whole segment would have
            self.latest = self._size() * max(1.0, GROWTH / self._steps)

    def _add(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """Steps into the moments of the open segment (Chan's update)."""
        filtered, carry = discounted_filter(rewards, self._sums[0], self.gamma, valid)
        _, count, mean, squares = self._sums
        new = valid.sum(0)
        here = np.divide(np.where(valid, filtered, 0.0).sum(0), new, out=mean.copy(), where=new > 0)
        spread = np.where(valid, np.square(filtered - here), 0.0).sum(0)
        total, shift = count + new, here - mean
        share = np.divide(new, total, out=np.zeros_like(mean), where=total > 0)
        self._sums = np.stack((carry, total, mean + shift * share, squares + spread + shift**2 * count * share))
        self._steps += len(rewards)

    def _size(self) -> float:
        """Of the open segment."""
        _, count, mean, squares = self._sums
        deviation = np.sqrt(squares / np.maximum(count, 1))
        deviation[deviation <= np.maximum(TINY * np.abs(mean), MIN_DEVIATION)] = 0.0
        return segment_size(deviation)

    def _keep(self, size: float) -> None:
        if size <= 0:
            return
        self._seen += 1
        if self._seen < self._stride:
            return
        self._seen = 0
        self._sizes = np.append(self._sizes, size)
        if self.recent is not None:
            self._sizes = self._sizes[-self.recent :]
            return
        if len(self._sizes) >= ENOUGH:
            self._highest = max(self._highest, lower_quantile(self._sizes, self.quantile))
        if len(self._sizes) >= KEPT:
            self._sizes, self._stride = self._sizes[1::2], self._stride * 2

    def state_dict(self) -> dict[str, Tensor]:
        """The open segment ("rows": an entry per environment), and the sizes of those before."""
        counters = torch.tensor([self._steps, self._stride, self._seen])
        sizes = torch.zeros(KEPT, dtype=torch.float64)  # of one shape, so that a state can be checked against another
        sizes[: len(self._sizes)] = torch.from_numpy(self._sizes)
        levels = torch.tensor([self.latest, self._highest], dtype=torch.float64)
        return {"rows": torch.from_numpy(self._sums.T.copy()), "counters": counters, "sizes": sizes, "levels": levels}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._sums = state["rows"].numpy().T.copy()
        self._steps, self._stride, self._seen = state["counters"].tolist()
        sizes = state["sizes"].numpy()
        self._sizes = sizes[sizes > 0].copy()
        self.latest, self._highest = state["levels"].tolist()


class RunningDeviation:
    """The standard deviation of the discounted sum over the whole run, as RND has it (Burda et al. 2019).

    One extreme block sets it for good: for experiments that compare with published ones.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self._carry = np.zeros(num_envs)
        self._count = self._mean = self._squares = 0.0  # the last: sum of squared distances from the mean

    @property
    def value(self) -> float:
        """The scale; 1 while nothing has varied."""
        variance = self._squares / self._count if self._count else 0.0
        return math.sqrt(variance) if variance > 1e-16 else 1.0

    def observe(self, rewards: NDArray[Any], valid: NDArray[np.bool_]) -> None:
        """A (T, N) block of rewards, once and in time order."""
        filtered, self._carry = discounted_filter(rewards, self._carry, self.gamma, valid)
        seen = filtered[valid]
        if not seen.size:
            return
        total, shift = self._count + seen.size, seen.mean() - self._mean
        self._squares += seen.var() * seen.size + shift**2 * self._count * seen.size / total
        self._mean += shift * seen.size / total
        self._count = total

    def state_dict(self) -> dict[str, Tensor]:
        moments = torch.tensor([self._count, self._mean, self._squares], dtype=torch.float64)
        return {"rows": torch.from_numpy(self._carry.copy()), "moments": moments}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._carry = state["rows"].numpy().copy()
        self._count, self._mean, self._squares = state["moments"].tolist()
