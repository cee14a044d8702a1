"""Prediction error as reward: the curiosity that a noisy TV captures for ever."""

from dataclasses import dataclass

from torch import Tensor

from lpm.bonuses._learner import MNIST, DynamicsConfig, DynamicsLearner
from lpm.core.registry import register
from lpm.core.transitions import Transitions


@dataclass(frozen=True)
class ForwardErrorConfig(DynamicsConfig):
    """Settings of the forward error: those of its dynamics model."""


@register("forward_error")
class ForwardError(DynamicsLearner):
    """Prediction error: the mean squared error of f(o, a) on the next observation."""

    label = "Forward error"
    family = "error"
    use = "Plain prediction error: what the noisy-TV problem is about."
    Config = ForwardErrorConfig
    config: ForwardErrorConfig
    reference = 'Schmidhuber 1991; Stadie et al. 2015; "MSE" in Hou, An & Du 2026'
    variants = {"mnist": MNIST}

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self._errors, batch)
