"""A vector environment whose every observation names its environment, episode and step; resets are marked."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

LENGTHS = (3, 5, 4)


class Counting(gym.Env[Any, Any]):
    """Observation (environment, episode, step). Episodes of LENGTHS[env] steps; even ones terminate, odd truncate."""

    def __init__(self, row: int) -> None:
        self.observation_space = Box(-1, 1e6, (3,), np.float32)
        self.action_space = Discrete(2)
        self.row, self.episode, self.t = row, -1, 0

    def _obs(self) -> Any:
        return np.array([self.row, self.episode, self.t], dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        done = self.t >= LENGTHS[self.row]
        even = self.episode % 2 == 0
        return self._obs(), float(100 * self.episode + self.t), done and even, done and not even, {}


def counting_envs(mode: AutoresetMode, rows: int = 3) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([lambda r=r: Counting(r) for r in range(rows)], autoreset_mode=mode)
