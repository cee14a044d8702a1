"""Work that must give the same numbers on every device: each bonus, and the learners."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch

import lpm
from lpm.agents import A2C, PPO, A2CConfig, PPOConfig
from lpm.core.check import DEFAULT_SPACES
from lpm.core.check._case import random_block

sys.path.insert(0, str(Path(__file__).parent / "core"))
from test_contract_registry import cheap

SPACES = {"vector": "vector/discrete", "image": "image/discrete", "continuous": "vector/continuous"}


def bonus(name: str, space: str, device: torch.device, move: bool = False) -> None:
    """Three rollouts on the CPU and on the device.

    After the first, the bonus on the device goes on from its own state; with `move` it has learnt on the CPU before.
    """
    spaces = DEFAULT_SPACES[SPACES[space]]
    build = partial(lpm.make, name, spaces, num_envs=2, rollout_steps=16, **cheap(name))
    here, there = build(), build(device="cpu" if move else device)
    for cycle in range(3):
        block = random_block(spaces, steps=16, envs=2, seed=cycle)
        expected, found = here.step(block), there.step(block.to(there.device))
        assert found.device.type == there.device.type, f"rewards on {found.device}"
        torch.testing.assert_close(found.to("cpu"), expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))
        here.update()
        there.update()
        if cycle == 0 and move:
            there.to(device)
        elif cycle == 0:
            again = build(device=device)
            again.load_state_dict(there.state_dict())
            there = again
    assert {x.device.type for x in there.state_dict().values() if isinstance(x, torch.Tensor)} <= {device.type}


def learner(kind: type, env_id: str, device: torch.device) -> None:
    """Two cycles of an agent on the CPU and on the device."""

    def metrics(where: str | torch.device) -> dict[str, float]:
        envs = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode="sync")
        bonus = lpm.make("rnd", lpm.Spaces.of(envs), num_envs=2, rollout_steps=16, device=where)
        config = CONFIGS[kind](num_envs=2, rollout_steps=16)
        agent = kind(envs, bonus, config, total_steps=64, seed=0, device=where)
        agent.cycle()
        return dict(agent.cycle())

    expected, found = metrics("cpu"), metrics(device)
    for name in ("learn/value_loss", "learn/entropy", "bonus/raw_mean", "reward/task"):
        assert abs(found[name] - expected[name]) <= 0.05 * abs(expected[name]) + 1e-3, (name, found, expected)


CONFIGS: dict[type, type] = {PPO: PPOConfig, A2C: A2CConfig}
TASKS = {"discrete": "CartPole-v1", "continuous": "Pendulum-v1"}
CASES: dict[str, Callable[[torch.device], None]] = {
    **{f"{name}/{space}": partial(bonus, name, space) for space in SPACES for name in lpm.names()},
    **{f"{name}/moved": partial(bonus, name, "vector", move=True) for name in lpm.names()},
    **{f"{kind.__name__}/{task}": partial(learner, kind, TASKS[task]) for kind in CONFIGS for task in TASKS},
}
BREACHES: dict[str, Callable[[torch.device], Any]] = {
    "breach/mixed": lambda device: torch.zeros(3, device=device) + torch.zeros(3),
    "breach/generator": lambda device: torch.randn(3, device=device, generator=torch.Generator()),
    "breach/copy": lambda device: torch.zeros(3, device=device).cpu(),
}
"""What must not go unnoticed."""
