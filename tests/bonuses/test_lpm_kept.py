"""Numbers of the four LPMs from before they were four: a change of any of them is a change of the method.

Rewards summed with signs over a rollout, after 2, 5, 10 and 20 updates, recorded when `lpm` was one bonus. Convolutions
round otherwise on every kind of processor, and Adam makes much of it: images are compared by the size of the rewards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

VECTOR = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(3))
IMAGE = Spaces(Box(0, 255, (1, 8, 8), np.uint8), Discrete(3))
STEPS, ENVS, UPDATES = 8, 4, (2, 5, 10, 20)
SMALL: dict[str, Any] = {
    "dynamics_hidden": (16,),
    "features": 16,
    "dynamics_steps": 4,
    "batch_size": 24,
    "buffer_size": 200,
}
NETWORK = {**SMALL, "error_hidden": (16,), "error_steps": 3, "error_batch_size": 16}
CASES: dict[str, tuple[str, Spaces, dict[str, Any]]] = {
    "default": ("lpm", VECTOR, NETWORK),
    "paper": ("lpm", VECTOR, {**NETWORK, "variant": "paper"}),
    "reservoir": ("lpm", VECTOR, {**NETWORK, "queue": "reservoir", "queue_size": 12}),
    "image": ("lpm", IMAGE, NETWORK),
    "exp": ("lpm_release", VECTOR, NETWORK),
    "miniworld": ("lpm_release", IMAGE, {**NETWORK, "variant": "release-miniworld"}),
    "slow": ("lpm_slow", VECTOR, SMALL),
    "slow image": ("lpm_slow", IMAGE, SMALL),
    "anchored": ("lpm_anchored", VECTOR, {**SMALL, "anchor_features": 40}),
    "anchored image": ("lpm_anchored", IMAGE, {**SMALL, "anchor_features": 40}),
}
KEPT: dict[str, list[float]] = {
    "default": [-6.903714, 1.647426, -7.976456, -0.9097697],
    "paper": [0.0, 1.693908, -9.178493, -1.171876],
    "reservoir": [-6.918616, 1.588396, -8.069509, -1.05818],
    "image": [1.16223, -1.448055, -1.13943, 0.6108279],
    "exp": [-3.065727, 0.2026036, -2.597811, -0.2138487],
    "miniworld": [0.0, -0.01122798, 0.008853704, 0.01557699],
    "slow": [0.05852109, 0.1855755, 0.1736763, -0.6174467],
    "slow image": [0.02764273, 0.110569, -0.1511307, -0.08111906],
    "anchored": [-5.44602, 1.819971, -3.353756, 0.4124987],
    "anchored image": [1.551106, -1.782935, -1.194153, 0.5519495],
}


def rollout(spaces: Spaces, rng: np.random.Generator) -> Transitions:
    obs = rng.normal(size=(STEPS, ENVS, *spaces.obs_shape))
    following = np.tanh(0.7 * obs) + 0.1 * rng.normal(size=obs.shape)
    if spaces is IMAGE:
        obs, following = (np.clip(40 * x + 128, 0, 255).astype(np.uint8) for x in (obs, following))
    action = torch.as_tensor(rng.integers(3, size=(STEPS, ENVS)))
    dtype = spaces.obs_dtype
    return Transitions.build(torch.as_tensor(obs).to(dtype), action, torch.as_tensor(following).to(dtype))


def trace(case: str) -> tuple[list[float], list[float]]:
    """Sums with signs, and of sizes."""
    name, spaces, fields = CASES[case]
    bonus = lpm.make(name, spaces, num_envs=ENVS, rollout_steps=STEPS, seed=5, **fields)
    rng, sums, sizes = np.random.default_rng(3), [], []
    for update in range(UPDATES[-1] + 1):
        reward = bonus.step(rollout(spaces, rng))
        if update in UPDATES:
            signs = torch.tensor([1.0, -1.0]).repeat(STEPS * ENVS // 2).view(STEPS, ENVS)
            sums.append(float((signs * reward).sum()))
            sizes.append(float(reward.abs().sum()))
        bonus.update()
    return sums, sizes


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_one_bonus(case: str) -> None:
    sums, sizes = trace(case)
    if CASES[case][1] is VECTOR:
        assert sums == pytest.approx(KEPT[case], rel=2e-3, abs=5e-4)
        return
    for found, kept, size in list(zip(sums, KEPT[case], sizes, strict=True))[:3]:
        assert found == pytest.approx(kept, abs=0.01 * size)
