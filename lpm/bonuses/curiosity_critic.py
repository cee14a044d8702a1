"""Curiosity-Critic: the error now minus a learnt estimate of the error that training leaves."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import DynamicsConfig, DynamicsLearner
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import ErrorModel
from lpm.nn.experience import Prepared, regression


@dataclass(frozen=True)
class CuriosityCriticConfig(DynamicsConfig):
    """Settings of Curiosity-Critic: those of its dynamics model, and of the critic h(o, a)."""

    error: Literal["mse", "norm"] = "mse"
    """What is called the error: the mean square, as in the other methods, or the L2 norm (paper)."""
    critic_hidden: tuple[int, ...] | None = None
    """Hidden layers of h (paper: (128,)). None: as LPM's error model, (128, 64) for vectors, (256, 128) for images."""
    critic_lr: NonNegative = 1e-3
    """Adam learning rate of h (paper: 1e-3)."""
    critic_epochs: Count = 3
    """Passes of h over the transitions of a rollout per update (paper: one step per step of f)."""


@register("curiosity_critic")
class CuriosityCritic(DynamicsLearner):
    """Reducible error: the error of f now minus a critic's estimate of the error left after training."""

    label = "Curiosity-Critic"
    family = "progress"
    use = "Prediction error minus a learnt estimate of what stays unpredictable."
    Config = CuriosityCriticConfig
    config: CuriosityCriticConfig
    reference = "Bhaskara & Wang 2026, Curiosity-Critic (arXiv 2604.18701)"

    def _build(self) -> None:
        super()._build()
        c = self.config
        self.critic = ErrorModel(self.spaces, hidden=c.critic_hidden, features=c.features, act=c.activation)
        self.add_optimizer("critic", self.critic.parameters(), c.critic_lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(lambda rows: self._errors(rows) - self.baseline(rows), batch)

    def baseline(self, rows: Prepared) -> Tensor:
        """h(o, a), the error expected to remain: never negative, and 0 before the first update."""
        return self._critic(rows).clamp_min(0)

    def _critic(self, rows: Prepared) -> Tensor:
        h: Tensor = self.critic(rows.x, rows.code)
        return h.squeeze(1)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        metrics = super()._learn(generator)
        after = self.experience.at_fresh(self._errors)
        self.critic.calibrate(after, self.experience.at_fresh(self._critic))
        errors = regression(self.critic, lambda rows: (rows.x, rows.code, after[rows.index]))
        critic_loss = self.fit("critic", errors, generator, epochs=self.config.critic_epochs)
        return {**metrics, "critic_loss": critic_loss, "remaining_error": after.mean()}

    def _errors(self, rows: Prepared) -> Tensor:
        square = super()._errors(rows)
        # the norm of all differences, from their mean square
        return square if self.config.error == "mse" else (square * math.prod(self.spaces.input_shape)).sqrt()
