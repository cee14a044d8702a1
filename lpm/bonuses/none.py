"""The reference that pays nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.group import ALONE, Group
from lpm.core.registry import register
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions


@dataclass(frozen=True)
class NoBonusConfig:
    """A bonus that pays nothing has no settings."""


@register("none")
class NoBonus(IntrinsicReward):
    """No bonus: pays 0, the agent learns from the extrinsic reward alone."""

    Config = NoBonusConfig
    distributed = True

    zero: Tensor

    def __init__(
        self,
        spaces: Spaces,
        config: NoBonusConfig,
        *,
        num_envs: int = 1,
        rollout_steps: int = 128,
        seed: int = 0,
        group: Group = ALONE,
    ) -> None:
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed, group=group)
        self.config = config
        # the only tensor: it tells on which device the bonus lives
        self.register_buffer("zero", torch.zeros(()))

    def _score(self, batch: Transitions) -> Tensor:
        return self.zero.expand(batch.shape)
