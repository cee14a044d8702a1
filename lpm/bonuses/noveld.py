"""NovelD (Zhang et al. 2021): the rise in novelty at the boundary of what is known, on first visits only."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import FitConfig, Learner, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative, Positive, Size
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.frozen import RandomTargetModel
from lpm.nn.hashing import KeyConfig, ObservationKeys, episode_counts
from lpm.nn.memory import EpisodicMemory


@dataclass(frozen=True)
class NovelDConfig(FitConfig, KeyConfig):
    """Settings of NovelD. "Code" is tianjunz/NovelD (MiniGrid), which fits once, on IMPALA batches."""

    alpha: NonNegative = 0.5
    """α: how much of the novelty of the state left behind is subtracted (code: 0.5)."""
    features: Count = 128
    """Width of the random features (code: 128)."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of target and predictor for vectors. Images have the convolutions of the other methods."""
    extra: Size = 1
    """More layers in the predictor than in the target."""
    clip: Positive = 5.0
    """Observations are standardised by running statistics and clipped to ±clip; rewards are 0 until the statistics
    exist. Code: no standardisation."""
    memory_size: Count = 4096
    """Steps of an episode that each environment remembers, as one key each; the oldest are forgotten first."""


def novelty_difference(new: Tensor, old: Tensor, visits: Tensor, alpha: float) -> Tensor:
    """max(novelty(o') − α·novelty(o), 0) on the first visit of the episode, 0 on later ones."""
    return (new - alpha * old).clamp_min(0) * (visits == 1)


@register("noveld")
class NovelD(MemoryBonus, Learner):
    """Novelty difference: rise of the RND error from one state to the next, on first visits in an episode."""

    label = "NovelD"
    family = "episodic"
    use = "Novelty that rises: the frontier of what is known."
    Config = NovelDConfig
    config: NovelDConfig
    reference = "Zhang et al. 2021, NovelD: A Simple yet Effective Exploration Criterion"
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = Experience(spaces, self.rollout, "standard", clip=config.clip, frozen=False, next_only=True)
        self.keys = ObservationKeys(spaces, config)
        self.model = RandomTargetModel(spaces, features=config.features, hidden=config.hidden, extra=config.extra)
        self.add_optimizer("predictor", self.model.predictor.parameters(), config.lr)
        self.memory = EpisodicMemory(self.num_envs, config.memory_size, dtype=torch.int64)

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        visits = episode_counts(batch, self.memory, self.keys, keep).flatten()

        def difference(rows: Prepared) -> Tensor:
            old, new = self.novelty(torch.cat([rows.x, rows.x_next])).chunk(2)
            return novelty_difference(new, old, visits[rows.index], self.config.alpha)

        reward = self.experience.each(difference, batch)
        if keep:
            self.experience.observe(batch)
        return reward

    def novelty(self, x: Tensor) -> Tensor:
        """L2 norm of the distillation error at preprocessed observations, (B,)."""
        return torch.linalg.vector_norm(self.model.gap(x), dim=1)  # type: ignore[no-any-return]

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"predictor_loss": self.fit("predictor", lambda rows: self.novelty(rows.x_next), generator)}
