"""Weights that change while the agent learns, for benchmarks/defaults.py: `bonus@FIRST-RULE`.

linear: from FIRST to 0 at the end of the run.

maxinfo: MaxInfoRL's rule (Sukhija et al. 2024). The weight rises while the policy is paid less than a slow copy of it
would be, and falls while it is paid more. There both are asked at the same states of a replay buffer, from a model of
the bonus. PPO keeps no replay and a bonus of what comes next cannot be asked about other actions, so here the bonus of
the slow copy is that of the block's own transitions, weighted by how much likelier the slow copy takes their actions.

eipo: EIPO's multiplier (Chen et al. 2022). A second policy learns from the task alone; the weight is FIRST / (1 + α),
and α rises while the task's return with the bonus is below that without it. There the two take turns and both learn
from all data, by importance weights. Here they act side by side, each learns from its own steps, and the steps of both
count.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lpm.agents import Agent

STEP = 0.012
"""Of the logarithm of MaxInfoRL's weight in a cycle: 3e-4 for each of 40 gradient steps."""
SLOW = 1 - (1 - 0.005) ** 40
"""Share of the policy that the slow copy takes over in a cycle: 0.005 for each of 40 gradient steps."""
RATE, LEAST = 0.01, -0.99
"""Of EIPO's α: its step per cycle for a return that differs by its own scale or more, and its lowest value."""


class Fixed:
    """The weight stays as it is."""

    share = 1.0
    """Of the run's steps, those of the agent."""

    def __init__(self, made: Callable[[str, float], Agent], bonus: str) -> None:
        """`made`: the agent with a bonus, for a share of the run's steps."""
        self.agent = made(bonus, self.share)
        self.first = self.agent.mixer.config.weight

    @property
    def steps(self) -> int:
        """So far."""
        return self.agent.steps

    def cycle(self) -> dict[str, float]:
        """A rollout and what follows."""
        return self.agent.cycle()

    def weigh(self, weight: float) -> None:
        """From now on."""
        self.agent.mixer.config = replace(self.agent.mixer.config, weight=weight)


class Linear(Fixed):
    """The weight falls to 0."""

    def cycle(self) -> dict[str, float]:
        """With the weight of this moment."""
        self.weigh(self.first * (1 - self.agent.progress))
        return super().cycle()


class MaxInfo(Fixed):
    """The bonus of the policy is compared with that of its slow copy."""

    def __init__(self, made: Callable[[str, float], Agent], bonus: str) -> None:
        super().__init__(made, bonus)
        self.slow = [parameter.detach().clone() for parameter in self.agent.policy.parameters()]
        self.logarithm = torch.tensor(self.first).log().requires_grad_()
        self.optimizer = torch.optim.Adam([self.logarithm], lr=STEP)
        self.score = self.agent.raw_bonus
        setattr(self.agent, "raw_bonus", self._raw_bonus)  # noqa: B010  (a method of this one agent)

    def cycle(self) -> dict[str, float]:
        """The slow copy follows."""
        metrics = super().cycle()
        with torch.no_grad():
            for slow, parameter in zip(self.slow, self.agent.policy.parameters(), strict=True):
                slow.lerp_(parameter, SLOW)
        return metrics

    def _raw_bonus(self, block: Any) -> Any:
        raw = self.score(block)
        bonus, valid = torch.from_numpy(raw).flatten(), torch.from_numpy(block.valid).flatten()
        actions, log_prob = block.raw_action.flatten(0, 1), self.agent.policy.actions.log_prob
        slow = deepcopy(self.agent.policy)
        with torch.no_grad():
            for mine, kept in zip(slow.parameters(), self.slow, strict=True):
                mine.copy_(kept)
            theirs = slow.policy(block.transitions.obs.flatten(0, 1))
            ratio = (log_prob(theirs, actions)[0] - log_prob(block.policy.flatten(0, 1), actions)[0]).exp()[valid]
            apart = bonus[valid].mean() - (ratio * bonus[valid]).sum() / ratio.sum()
        self.optimizer.zero_grad()
        (self.logarithm * apart / bonus[valid].mean().clamp_min(1e-8)).backward()
        self.optimizer.step()
        self.weigh(float(self.logarithm.detach().exp()))
        return raw


class Eipo(Fixed):
    """The task's return is compared with that of an agent without a bonus."""

    share = 0.5

    def __init__(self, made: Callable[[str, float], Agent], bonus: str) -> None:
        super().__init__(made, bonus)
        self.alone, self.multiplier = made("none", self.share), 0.0

    @property
    def steps(self) -> int:
        """Of both agents."""
        return self.agent.steps + self.alone.steps

    def cycle(self) -> dict[str, float]:
        """A rollout of each; what is told is of the agent with the bonus."""
        metrics, others = self.agent.cycle(), self.alone.cycle()
        gap = (metrics.get("return", 0.0) - others.get("return", 0.0)) / self.agent.mixer.task_scale.value
        self.multiplier = max(self.multiplier - RATE * float(np.clip(gap, -1, 1)), LEAST)
        self.weigh(self.first / (1 + self.multiplier))
        return metrics


RULES = {"": Fixed, "linear": Linear, "maxinfo": MaxInfo, "eipo": Eipo}
