"""Prediction error as reward: the curiosity that a noisy TV captures for ever."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from lpm.bonuses._dynamics import MNIST, DynamicsConfig
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Rows
from lpm.nn.seeding import seeded


@dataclass(frozen=True)
class ForwardErrorConfig(DynamicsConfig):
    """Settings of the forward error: those of its dynamics model."""


@register("forward_error")
class ForwardError(IntrinsicReward):
    """Prediction error: the mean squared error of f(o, a) on the next observation."""

    Config = ForwardErrorConfig
    reference = 'Schmidhuber 1991; Stadie et al. 2015; "MSE" in Hou, An & Du 2026'
    variants = MappingProxyType({"mnist": MNIST})

    def __init__(
        self,
        spaces: Spaces,
        config: ForwardErrorConfig,
        *,
        num_envs: int = 1,
        rollout_steps: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
        self.config = config
        self.experience = config.experience(spaces, num_envs * rollout_steps)
        with seeded(self.generator):
            self.dynamics = config.build(spaces)
        self.add_optimizer("dynamics", self.dynamics.parameters(), config.lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self._errors, batch)

    def _observe(self, batch: Transitions) -> None:
        self.experience.observe(batch)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if not self.experience.begin_update():
            return {}
        loss = self.experience.fit_model(
            self.dynamics,
            lambda rows: rows.x_next,
            partial(self.descend, "dynamics"),
            partial(self.apply_gradients, "dynamics"),
            batch_size=self.config.batch_size,
            epochs=self.config.epochs,
            generator=generator,
        )
        self.experience.end_update()
        return {"dynamics_loss": loss}

    def _errors(self, rows: Rows) -> Tensor:
        return self.dynamics.errors(rows.x, rows.code, rows.x_next)
