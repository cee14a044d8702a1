"""RIDE (Raileanu & Rocktäschel 2020): how much an action changes the state, discounted by visits in the episode."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner, LearnerConfig, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import InverseFeatures
from lpm.nn.experience import Prepared
from lpm.nn.hashing import KeyConfig, ObservationKeys, episode_counts
from lpm.nn.memory import EpisodicMemory
from lpm.nn.networks import StackedForward


@dataclass(frozen=True)
class RIDEConfig(LearnerConfig, KeyConfig):
    """Settings of RIDE. "Code" is facebookresearch/impact-driven-exploration: RMSprop, once, on IMPALA batches."""

    features: Count = 128
    """Width of φ (code: 128 in MiniGrid)."""
    forward_weight: NonNegative = 10.0
    """Weight of the forward loss (code: 10)."""
    inverse_weight: NonNegative = 0.1
    """Weight of the inverse loss (code: 0.1)."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of φ for vectors. Images have the convolutions of the other methods."""
    model_hidden: tuple[int, ...] = (256,)
    """Hidden layers of the forward and the inverse model (code: (256,))."""
    memory_size: Count = 4096
    """Steps of an episode that each environment remembers, as one key each; the oldest are forgotten first."""


@register("ride")
class RIDE(MemoryBonus, Learner):
    """Impact-driven: how far the action moved the features, over the root of the visits in the episode."""

    label = "RIDE"
    family = "episodic"
    use = "How much an action changes the state, discounted by visits in the episode."
    Config = RIDEConfig
    config: RIDEConfig
    reference = "Raileanu & Rocktäschel 2020, RIDE: Rewarding Impact-Driven Exploration"
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        self.keys = ObservationKeys(spaces, config)
        self.features = InverseFeatures(
            spaces, config.features, hidden=config.hidden, inverse_hidden=config.model_hidden
        )
        self.dynamics = StackedForward(config.features, spaces.action_width, hidden=config.model_hidden)
        self.add_optimizer("model", [*self.features.parameters(), *self.dynamics.parameters()], config.lr)
        self.memory = EpisodicMemory(self.num_envs, config.memory_size, dtype=torch.int64)

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        visits = episode_counts(batch, self.memory, self.keys, keep)
        impact = torch.zeros(batch.shape, device=batch.device)
        if self.experience.ready:
            phi, phi_next = self.experience.encoded_block(self.features, batch)
            impact = torch.linalg.vector_norm(phi_next - phi, dim=1).view(batch.shape)
        if keep:
            self.experience.observe(batch)
        return impact * visits.float().rsqrt()

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        c = self.config
        parts: list[Tensor] = []

        def loss(rows: Prepared) -> Tensor:
            phi, phi_next = self.features.pair(rows)
            forward: Tensor = torch.linalg.vector_norm(self.dynamics(phi, rows.code)[0] - phi_next, dim=1)
            inverse = self.features.inverse.loss(phi, phi_next, rows.action)
            parts.append(torch.stack([forward.detach().mean(), inverse.detach().mean()]))
            return c.forward_weight * forward + c.inverse_weight * inverse

        self.fit("model", loss, generator)
        forward_loss, inverse_loss = torch.stack(parts).mean(0)
        return {"forward_loss": forward_loss, "inverse_loss": inverse_loss}
