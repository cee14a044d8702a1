"""No bonus: the reference."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.transitions import Transitions


@dataclass(frozen=True)
class NoBonusConfig:
    """No settings."""


@register("none")
class NoBonus(IntrinsicReward):
    """No bonus: reward 0, the agent learns from the extrinsic reward alone."""

    label = "No bonus"
    family = "floor"
    use = "Trains on the task's reward alone."
    Config = NoBonusConfig

    zero: Tensor

    def _build(self) -> None:
        # the only tensor: it tells on which device the bonus lives
        self.register_buffer("zero", torch.zeros(()))

    def _score(self, batch: Transitions) -> Tensor:
        return self.zero.expand(batch.shape)
