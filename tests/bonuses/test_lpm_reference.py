"""LPM against Algorithm 1, written from the paper alone with lists and loops."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces, Transitions, make
from lpm.bonuses.lpm import LPM

FLOOR = 1e-6


class AlgorithmOne:
    """One transition at a time; B is a list, D a list cut to its last d entries; full-batch Adam every N steps."""

    def __init__(self, f: torch.nn.Module, g: torch.nn.Module, d: int, actions: int) -> None:
        self.f, self.g = copy.deepcopy(f), copy.deepcopy(g)
        self.d, self.actions = d, actions
        self.buffer: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.queue: list[tuple[torch.Tensor, torch.Tensor, float]] = []
        self.optim_f = torch.optim.Adam(self.f.parameters(), lr=1e-3)
        self.optim_g = torch.optim.Adam(self.g.parameters(), lr=1e-3)

    def transition(self, o: torch.Tensor, a: int, o_next: torch.Tensor) -> float:
        one_hot = torch.zeros(self.actions)
        one_hot[a] = 1.0
        with torch.no_grad():
            predicted = self.f(o[None], one_hot[None])[0]
            eps = float(torch.log(((o_next - predicted) ** 2).mean() + FLOOR))
            self.buffer.append((o, one_hot, o_next))
            self.queue = [*self.queue, (o, one_hot, eps)][-self.d :]
            if len(self.queue) < self.d:
                return 0.0
            return float(self.g(o[None], one_hot[None])) - eps

    def update(self) -> None:
        o, a, o_next = (torch.stack(column) for column in zip(*self.buffer, strict=True))
        self.optim_f.zero_grad()
        ((self.f(o, a) - o_next) ** 2).mean().backward()
        self.optim_f.step()
        o, a = (torch.stack([entry[i] for entry in self.queue]) for i in (0, 1))
        eps = torch.tensor([entry[2] for entry in self.queue])
        self.optim_g.zero_grad()
        ((self.g(o, a)[:, 0] - eps) ** 2).mean().backward()
        self.optim_g.step()


@pytest.mark.parametrize(("envs", "d"), [(1, 50), (4, 64), (4, 150)])
def test_equals_algorithm_one_for_500_steps(envs: int, d: int) -> None:
    steps, rollout, actions, dim = 500, 20, 3, 4
    rng = np.random.default_rng(0)
    spaces = Spaces(Box(-np.inf, np.inf, (dim,)), Discrete(actions))
    bonus = make("lpm", spaces, num_envs=envs, rollout_steps=rollout, variant="paper", queue_size=d, error_floor=FLOOR,
                 dynamics_steps=1, error_steps=1, batch_size=10**9, error_batch_size=10**9)  # fmt: skip
    assert isinstance(bonus, LPM)
    reference = AlgorithmOne(bonus.dynamics, bonus.error_model, d, actions)
    mixing = rng.normal(size=(actions, dim, dim)) / 2
    state = rng.normal(size=(envs, dim))
    paid = 0
    for _ in range(steps // rollout):
        obs, action, successor, expected = [], [], [], []
        for _ in range(rollout):
            chosen = rng.integers(actions, size=envs)
            following = np.tanh(np.einsum("nij,nj->ni", mixing[chosen], state)) + rng.normal(size=(envs, dim)) * 0.1
            row = [torch.as_tensor(x, dtype=torch.float32) for x in (state, following)]
            expected.append([reference.transition(row[0][i], int(chosen[i]), row[1][i]) for i in range(envs)])
            obs.append(row[0])
            action.append(torch.as_tensor(chosen))
            successor.append(row[1])
            state = following
        got = bonus.step(Transitions.build(torch.stack(obs), torch.stack(action), torch.stack(successor)))
        torch.testing.assert_close(got, torch.tensor(expected), atol=2e-4, rtol=1e-4)
        paid += int((got != 0).sum())
        bonus.update()
        reference.update()
    assert paid == steps * envs - (d - 1)
