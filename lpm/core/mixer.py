"""From raw bonuses to what the agent learns from: weight, normalisation, clip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lpm.core.group import ALONE, Group
from lpm.core.settings import Schedule, expect, expect_choice, expect_schedule

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rewards = TypeVar("Rewards", Floats, Tensor)


@dataclass(frozen=True)
class MixerConfig:
    """How extrinsic and intrinsic rewards are combined."""

    weight: float = 1.0
    """β, what the (normalised, clipped) bonus is multiplied by. 0 trains exactly as without a bonus."""
    schedule: Schedule = "constant"
    """How the weight moves to `final_weight` over the run."""
    final_weight: float = 0.0
    """The weight at the end of the run, unless the schedule is "constant"."""
    extrinsic_weight: float = 1.0
    """What the environment's reward is multiplied by; 0 trains on the bonus alone."""
    normalise: Literal["return_std", "none"] = "return_std"
    """"return_std" divides the bonus by the running standard deviation of its discounted return, filtered along time
    (RND, Burda et al. 2019); no mean is subtracted, so signs stay. The LPM paper: "none"."""
    gamma: float = 0.99
    """Discount of the bonus: in the filter, and in its own advantages where it has a value head of its own."""
    clip: float | None = None
    """Bound on the absolute value of the bonus after normalisation, before the weight."""
    clip_task: float | None = None
    """Bound on the absolute value of the environment's reward, before its weight; returns are reported unclipped.
    Atari as in Mnih et al. (2015): 1. The LPM release: none."""

    def __post_init__(self) -> None:
        expect_schedule(self, "schedule", "weight", "final_weight")
        expect_choice(self, "normalise", "return_std", "none")
        expect(self, "gamma", 0.0 <= self.gamma <= 1.0, "a number in [0, 1]")
        expect(self, "clip", self.clip is None or self.clip > 0, "a number above 0 or None")
        expect(self, "clip_task", self.clip_task is None or self.clip_task > 0, "a number above 0 or None")


@dataclass(frozen=True)
class Mixed:
    """A block of rewards, (T, N) each, after mixing."""

    task: Floats
    """The weighted reward of the environment."""
    bonus: Floats
    """The weighted bonus."""
    weight: float
    """What the bonus was multiplied by."""

    @property
    def total(self) -> Floats:
        """What a learner with one value function learns from."""
        return self.task + self.bonus


def scheduled(schedule: Schedule, start: float, end: float, progress: float) -> float:
    """A value on its way from `start` to `end`, at a `progress` between 0 and 1.

    >>> [scheduled("linear", 1.0, 0.0, p) for p in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "constant":
        return start
    if schedule == "exponential":
        return start * math.pow(end / start, progress)
    if schedule == "cosine":
        progress = 0.5 - 0.5 * math.cos(math.pi * progress)
    return start + (end - start) * progress


def discounted_filter(
    rewards: NDArray[Any], carry: NDArray[np.float64], gamma: float, valid: Mask | None = None
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
        moved = gamma * carry + reward
        carry = moved if valid is None else np.where(valid[t], moved, carry)
        filtered[t] = carry
    return filtered, carry


class RewardMixer:
    """Weights, normalises and clips the bonus; its whole state is in `state_dict`."""

    def __init__(self, config: MixerConfig, num_envs: int, group: Group = ALONE) -> None:
        """In a `group` of several processes `num_envs` are those of this one, and `mix` is collective."""
        self.config, self.group = config, group
        self._carry = np.zeros(num_envs)
        self._count = 0.0
        self._mean = 0.0
        self._squares = 0.0  # sum of squared distances from the mean

    @property
    def std(self) -> float:
        """Running standard deviation of the discounted return; 1 while it has not varied."""
        variance = self._squares / self._count if self._count else 0.0
        return math.sqrt(variance) if variance > 1e-16 else 1.0

    def mix(self, extrinsic: Floats, intrinsic: Floats, valid: Mask, progress: float) -> Mixed:
        """One (T, N) block, once and in time order; `progress` is the share of the run that is done."""
        bonus = np.where(valid, intrinsic, np.float32(0))
        if self.config.normalise == "return_std":
            self._observe(bonus, valid)
            bonus = bonus / np.float32(self.std)
        if self.config.clip is not None:
            bonus = bonus.clip(-self.config.clip, self.config.clip)
        weight = self.weight(progress)
        return Mixed(self.task(extrinsic), np.float32(weight) * bonus, weight)

    def task(self, reward: Rewards) -> Rewards:
        """The environment's reward, clipped and weighted."""
        bound = self.config.clip_task
        clipped = reward if bound is None else reward.clip(-bound, bound)
        return self.config.extrinsic_weight * clipped  # type: ignore[return-value]

    def replay(self, raw: Tensor, progress: float) -> Tensor:
        """The same for bonuses of transitions that were mixed before: the statistics stay as they are."""
        bonus = raw / self.std if self.config.normalise == "return_std" else raw
        if self.config.clip is not None:
            bonus = bonus.clamp(-self.config.clip, self.config.clip)
        return bonus * self.weight(progress)

    def weight(self, progress: float) -> float:
        """What the bonus is multiplied by when this share of the run is done."""
        c = self.config
        return scheduled(c.schedule, c.weight, c.final_weight, progress)

    def _observe(self, bonus: Floats, valid: Mask) -> None:
        filtered, self._carry = discounted_filter(bonus, self._carry, self.config.gamma, valid)
        seen = filtered[valid]
        if self.group.alone:
            self._take(seen.size, seen.mean() if seen.size else 0.0, seen.var() if seen.size else 0.0)
            return
        count, mean = (
            float(x) for x in self.group.sum(*torch.tensor([[seen.size], [seen.sum()]], dtype=torch.float64))
        )
        mean /= max(count, 1.0)
        (squares,) = self.group.sum(torch.tensor([((seen - mean) ** 2).sum()], dtype=torch.float64))
        self._take(count, mean, float(squares) / max(count, 1.0))

    def _take(self, count: float, mean: float, variance: float) -> None:
        """So many new returns, with their mean and variance, into the running ones."""
        if not count:
            return
        total, shift = self._count + count, mean - self._mean
        self._squares += variance * count + shift**2 * self._count * count / total
        self._mean += shift * count / total
        self._count = total

    def state_dict(self) -> dict[str, Tensor]:
        """Filter and statistics."""
        moments = torch.tensor([self._count, self._mean, self._squares], dtype=torch.float64)
        return {"carry": torch.from_numpy(self._carry.copy()), "moments": moments}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` saved."""
        if state["carry"].shape != self._carry.shape:
            raise ValueError(
                f"RewardMixer: expected a state of {len(self._carry)} environments, got {len(state['carry'])}"
            )
        self._carry = state["carry"].numpy().copy()
        self._count, self._mean, self._squares = state["moments"].tolist()
