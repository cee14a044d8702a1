"""Random network distillation: how badly a trained network imitates a frozen random one."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import FitConfig, Learner, feature_width
from lpm.core.registry import register
from lpm.core.settings import Count, Positive, Share, Size
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.frozen import RandomTargetModel
from lpm.nn.networks import Activation


@dataclass(frozen=True)
class RNDConfig(FitConfig):
    """Settings of RND. "Code" is openai/random-network-distillation."""

    features: Count | None = None
    """Width of the random features. None: 512 for images (paper, code), 128 for vectors (not in the paper)."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of target and predictor for vectors. Images have the code's three convolutions."""
    extra: Size = 2
    """More layers in the predictor than in the target (code: 2)."""
    channels: Count | None = None
    """Look only at the last channels of an image. None: all; the code uses 1, the last frame of its grey stack."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutions (code: leaky ReLU) or of the MLP."""
    clip: Positive = 5.0
    """Observations are standardised, each dimension, and clipped to ±clip (paper, code: 5)."""
    warmup: Count = 1
    """Transitions to observe before the first statistics take effect; until then rewards are 0. Code: 50 rollouts of
    a random policy before training; here the first rollout plays that part."""
    proportion: Share = 1.0
    """Share of each minibatch that the predictor is trained on (code: 1 for 32 environments; paper: 0.25 for 128)."""
    epochs: Count = 4
    """Passes over the transitions of a rollout per update (code: 4; its learning rate is the default too)."""


@register("rnd")
class RND(Learner):
    """Random network distillation: error of a predictor of random features of the next observation."""

    label = "RND"
    family = "novelty"
    use = "Lifelong novelty; a strong default without noise."
    Config = RNDConfig
    config: RNDConfig
    reference = "Burda, Edwards, Storkey & Klimov 2018, Exploration by Random Network Distillation"
    variants = {"atari": {"channels": 1, "features": 512, "proportion": 0.25}}

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = Experience(
            spaces, self.rollout, "standard", clip=config.clip, warmup=config.warmup, frozen=False, next_only=True
        )
        features = feature_width(spaces, config.features)
        self.model = RandomTargetModel(
            spaces,
            features=features,
            hidden=config.hidden,
            extra=config.extra,
            act=config.activation,
            channels=config.channels,
        )
        self.add_optimizer("predictor", self.model.predictor.parameters(), config.lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self.model.distances, batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.config.proportion == 1:
            return {"predictor_loss": self.fit("predictor", self.model.distillation(self.experience), generator)}
        truth = self.experience.at_fresh(lambda rows: self.model.truth(rows.x_next))

        def loss(rows: Prepared) -> Tensor:
            errors = self.model.gap(rows.x_next, truth[rows.index]).square().mean(1)
            kept = torch.rand(len(errors), generator=generator).to(errors.device) < self.config.proportion
            return (errors * kept).sum() / kept.sum().clamp_min(1)

        return {"predictor_loss": self.fit("predictor", loss, generator)}
