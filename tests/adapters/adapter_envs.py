"""Environments whose observations tell where they come from, and bonuses whose value is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

LENGTHS = (3, 5, 4)
_rng = np.random.default_rng(0)
TASK = _rng.normal(size=(8, 2)).astype(np.float32)
PAY = _rng.normal(size=(8, 2)).astype(np.float32)


class Tracing(gym.Env[Any, Any]):
    """Observation (row, episode, step); episodes of LENGTHS[row] steps, even ones terminate, odd ones are cut.

    The reward is TASK[step, action], plus PAY[step, action] if `pays`; both are single-precision numbers whose sums
    round. A continuous action counts as 1 above 0. With `keyed`, observations are a Dict.
    """

    def __init__(self, row: int = 0, *, continuous: bool = False, pays: bool = False, keyed: bool = False) -> None:
        here = Box(-1, 1e6, (3,), np.float32)
        self.observation_space: Any = Dict({"here": here, "junk": Box(0, 1, (1,))}) if keyed else here
        self.action_space: Any = Box(-2.0, 2.0, (1,), np.float32) if continuous else Discrete(2)
        self.row, self.pays, self.keyed = row, pays, keyed
        self.episode, self.t = -1, 0

    def _obs(self) -> Any:
        here = np.array([self.row, self.episode, self.t], dtype=np.float32)
        return {"here": here, "junk": np.zeros(1, np.float32)} if self.keyed else here

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.t += 1
        choice = int(np.asarray(action).ravel()[0] > 0)
        reward = TASK[self.t, choice]
        if self.pays:
            reward = reward + PAY[self.t, choice]
        done, even = self.t >= LENGTHS[self.row], self.episode % 2 == 0
        return self._obs(), reward, done and even, done and not even, {}

    def action_masks(self) -> Any:
        return np.ones(2, dtype=bool)


@dataclass(frozen=True)
class NoSettings:
    """Nothing to set."""


class Paying(IntrinsicReward):
    """PAY[step of the successor, action]: what Tracing(pays=True) pays itself. Keeps the blocks it is shown."""

    Config = NoSettings
    scale: Tensor

    def __init__(self, spaces: Spaces, config: Any = None, **sizes: Any) -> None:
        super().__init__(spaces, **sizes)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("table", torch.from_numpy(PAY.copy()))
        self.seen: list[Transitions] = []
        self.updates = 0

    def _score(self, batch: Transitions) -> Tensor:
        choice = (batch.action.reshape(*batch.shape) > 0).long()
        return self.scale * self.table[batch.next_obs[..., 2].round().long().clamp(0, 7), choice]

    def _observe(self, batch: Transitions) -> None:
        self.seen.append(batch)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        self.updates += 1
        return {"updates": torch.tensor(float(self.updates))}


class Constant(Paying):
    """1 for every transition."""

    def _score(self, batch: Transitions) -> Tensor:
        return self.scale.expand(batch.shape)


def assert_true_successors(block: Transitions) -> int:
    """Every successor is one step later in the same row and episode; says how many episodes end."""
    valid = block.valid
    assert torch.equal(block.next_obs[valid][:, :2], block.obs[valid][:, :2])
    assert torch.equal(block.next_obs[valid][:, 2], block.obs[valid][:, 2] + 1)
    lengths = torch.tensor(LENGTHS, dtype=torch.float32)[block.obs[valid][:, 0].long()]
    assert torch.equal(block.next_obs[valid][:, 2] == lengths, block.done[valid])
    even = block.obs[valid][:, 1] % 2 == 0
    assert torch.equal(block.terminated[valid], block.done[valid] & even)
    assert torch.equal(block.truncated[valid], block.done[valid] & ~even)
    return int(block.done[valid].sum())
