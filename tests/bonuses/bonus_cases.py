"""Data that the tests of several bonuses share: more spaces, and transitions of known nature."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from lpm.core.bonus import IntrinsicReward
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

DIM = 4
VECTOR = Spaces(Box(-np.inf, np.inf, (DIM,)), Discrete(2))
IMAGE = Spaces(Box(0, 255, (1, 36, 36), np.uint8), Discrete(2))

MORE_SPACES = {
    "vector/multi-discrete": Spaces(Box(-1.0, 1.0, (5,)), MultiDiscrete([3, 2])),
    "vector/continuous-1-D": Spaces(Box(-1.0, 1.0, (5,)), Box(-1.0, 1.0, (1,))),
    "grid/discrete": Spaces(Box(0, 255, (7, 7, 3), np.uint8), Discrete(4)),
}


def arm(sigma: float, seed: int, *, steps: int = 32, envs: int = 4, start: float = 1.0) -> Transitions:
    """One kind of transition: from a fixed observation to a fixed mean plus Gaussian noise of size `sigma`."""
    rng = np.random.default_rng(seed)
    obs = torch.full((steps, envs, DIM), start)
    noise = torch.as_tensor(rng.normal(size=(steps, envs, DIM)), dtype=torch.float32)
    return Transitions.build(obs, torch.zeros(steps, envs, dtype=torch.int64), 0.5 * start + sigma * noise)


def train(bonus: IntrinsicReward, sigma: float, updates: int, *, first: int = 0, start: float = 1.0) -> list[float]:
    """Step and update on fresh draws of an arm; the mean reward of every block."""
    means = []
    for seed in range(first, first + updates):
        means.append(float(bonus.step(arm(sigma, seed, start=start)).mean()))
        bonus.update()
    return means
