"""Episodic bonuses against plain lists: one environment and one transition at a time, straight from the formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

import lpm
from lpm.core.check import random_block
from lpm.core.spaces import Spaces

SPACES = Spaces(Box(-1.0, 1.0, (3,)), Discrete(3))
STEPS, ENVS = 40, 3
Bonus = Any
Memory = list[Any]


def e3b(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    h = bonus.model(bonus.experience.input(o_next))[0].double()
    matrix = 0.1 * torch.eye(len(h), dtype=torch.float64) + sum(torch.outer(m, m) for m in memory)
    memory.append(h)
    return float(h @ torch.linalg.solve(matrix, h))


def etd(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    y = bonus.model.embed(bonus.experience.input(o_next))[0]
    half = len(y) // 2
    distances = [
        max(float((x[:half] - y[:half]).max()), 0.0) + math.sqrt(float((x[half:] - y[half:]).square().sum()) + 1e-8)
        for x in memory
    ]
    memory.append(y)
    return min(distances)


def visits(bonus: Bonus, memory: Memory, o_next: Tensor) -> int:
    memory.append(int(bonus.keys(o_next)))
    return memory.count(memory[-1])


def episodic_count(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    return 1 / math.sqrt(visits(bonus, memory, o_next))


def noveld(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    def novelty(obs: Tensor) -> float:
        x = bonus.experience.input(obs)
        return float((bonus.model.predictor(x) - bonus.model.target(x)).norm())

    return max(novelty(o_next) - 0.5 * novelty(o), 0.0) * (visits(bonus, memory, o_next) == 1)


def ride(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    impact = (bonus.features(bonus.experience.input(o_next)) - bonus.features(bonus.experience.input(o))).norm()
    return float(impact) / math.sqrt(visits(bonus, memory, o_next))


def ngu(bonus: Bonus, memory: Memory, o: Tensor, o_next: Tensor) -> float:
    """One environment at a time: the running mean is kept in the first row of `bonus.plain`."""
    f = bonus.model(bonus.experience.input(o_next))[0]
    squares = sorted(float((f - m).square().sum()) for m in memory)[:10]
    memory.append(f)
    bonus.plain[0] += sum(squares)
    bonus.plain[1] += len(squares)
    mean = bonus.plain[0] / bonus.plain[1]
    similarity = math.sqrt(sum(1e-4 / (max(d / mean - 0.008, 0.0) + 1e-4) for d in squares)) + 1e-3
    error = float(bonus.lifelong.gap(bonus.experience.input(o_next)).square().mean())
    factor = min(max(1 + (error - float(bonus.errors.mean)) / float(bonus.errors.std), 1.0), 5.0)
    return factor * (0.0 if similarity > 8 else 1 / similarity)


def first(bonus: Bonus, name: str, o: Tensor) -> Any:
    """What an episode remembers of its first observation."""
    if name == "etd":
        return bonus.model.embed(bonus.experience.input(o))[0]
    if name in ("e3b", "ngu"):
        phi = bonus.model(bonus.experience.input(o))[0]
        return phi.double() if name == "e3b" else phi
    return int(bonus.keys(o))


KEYS = {"bins": 3}
METHODS: list[tuple[Callable[..., float], dict[str, Any], int]] = [
    (e3b, {"features": 16}, ENVS),
    (etd, {"epochs": 1}, ENVS),
    (episodic_count, KEYS, ENVS),
    (noveld, KEYS, ENVS),
    (ride, KEYS, ENVS),
    (ngu, {}, 1),  # several environments share the mean of distances, step by step
]


@pytest.mark.parametrize(("plain", "fields", "envs"), METHODS, ids=[plain.__name__ for plain, *_ in METHODS])
@torch.no_grad()
def test_equals_plain_lists(plain: Callable[..., float], fields: dict[str, Any], envs: int) -> None:
    name = plain.__name__
    bonus: Bonus = lpm.make(name, SPACES, num_envs=envs, rollout_steps=8, **fields)
    for seed in range(2):
        bonus.step(random_block(SPACES, envs=envs, seed=seed, filler=True))
        bonus.update()
    last = random_block(SPACES, steps=1, envs=envs, seed=9)
    bonus.step(replace(last, terminated=torch.ones(1, envs, dtype=torch.bool)))
    if name == "ngu":
        bonus.plain = bonus.distances.tolist()

    block = random_block(SPACES, steps=STEPS, envs=envs, seed=11, filler=True)
    assert int(block.done.sum()) >= 3
    expected = torch.zeros(STEPS, envs)
    memories: list[Memory] = [[] for _ in range(envs)]
    for t in range(STEPS):
        for env in range(envs):
            if not block.valid[t, env]:
                continue
            o, o_next = block.obs[t, env : env + 1], block.next_obs[t, env : env + 1]
            if not memories[env]:
                memories[env].append(first(bonus, name, o))
            expected[t, env] = plain(bonus, memories[env], o, o_next)
            if block.done[t, env]:
                memories[env] = []
    torch.testing.assert_close(bonus.step(block), expected, rtol=1e-4, atol=1e-5)
