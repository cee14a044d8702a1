"""Prediction error as reward: the curiosity that a noisy TV captures for ever."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from lpm.bonuses._learner import MNIST, DynamicsConfig, Learner
from lpm.core.registry import register
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared, regression, successor


@dataclass(frozen=True)
class ForwardErrorConfig(DynamicsConfig):
    """Settings of the forward error: those of its dynamics model."""


@register("forward_error")
class ForwardError(Learner):
    """Prediction error: the mean squared error of f(o, a) on the next observation."""

    label = "Forward error"
    family = "error"
    use = "Plain prediction error: what the noisy-TV problem is about."
    Config = ForwardErrorConfig
    config: ForwardErrorConfig
    reference = 'Schmidhuber 1991; Stadie et al. 2015; "MSE" in Hou, An & Du 2026'
    variants = MappingProxyType({"mnist": MNIST})

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        self.dynamics = config.build(spaces)
        self.add_optimizer("dynamics", self.dynamics.parameters(), config.lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self._errors, batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"dynamics_loss": self.fit("dynamics", regression(self.dynamics, successor), generator)}

    def _errors(self, rows: Prepared) -> Tensor:
        return self.dynamics.errors(*successor(rows))
