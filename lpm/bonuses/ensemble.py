"""Disagreement of an ensemble: the variance of several predictions of the next features."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from lpm.bonuses._learner import FitConfig, Learner, feature_width
from lpm.core.registry import register
from lpm.core.settings import Bound, Count, Positive, Share, Size
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.frozen import random_encoder
from lpm.nn.networks import Activation, Encoder, StackedForward


def disagreement(predictions: Tensor) -> Tensor:
    """Population variance over the members of (K, B, F), averaged over features, (B,).

    >>> disagreement(torch.arange(5.0).view(5, 1, 1))
    tensor([2.])
    """
    # not Tensor.var, which is many times slower over the first axis
    return (predictions - predictions.mean(0)).square().mean(0).mean(1)


@dataclass(frozen=True)
class ForwardEnsembleConfig(FitConfig):
    """Settings of an ensemble of forward models. "Code" is pathak22/exploration-by-disagreement, whose rates, passes
    and members are the defaults."""

    members: Annotated[int, Bound("at least 2", lambda members: members >= 2)] = 5
    """K, number of forward models (code: 5)."""
    features: Count | None = None
    """Width of the frozen random features that are predicted. None: 512 for images (code), 128 for vectors."""
    encoder_hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the random encoder for vectors. Images have the code's three convolutions."""
    hidden: tuple[int, ...] = (512,)
    """Hidden layers of each member (code: (512,))."""
    activation: Activation = "leaky_relu"
    """Activation of the random encoder (code: leaky ReLU)."""
    clip: Positive = 5.0
    """Observations are standardised, each dimension, and clipped to ±clip. Code: one common std, no clip."""
    warmup: Count = 1
    """Transitions to observe before the first statistics take effect; until then rewards are 0 (code: 10,000)."""

    def experience(self, spaces: Spaces, capacity: int) -> Experience:
        """Where transitions are kept between updates."""
        return Experience(spaces, capacity, "standard", clip=self.clip, warmup=self.warmup, frozen=False)

    def encoder(self, spaces: Spaces) -> Encoder:
        """A random encoder, whose features are predicted."""
        features = feature_width(spaces, self.features)
        return random_encoder(spaces.input_shape, features, hidden=self.encoder_hidden, act=self.activation)


@dataclass(frozen=True)
class EnsembleConfig(ForwardEnsembleConfig):
    """Settings of disagreement."""

    keep: Share = 0.8
    """Probability that a member learns from a sample, drawn in every minibatch (code: 0.8): its bootstrap."""
    blocks: Size = 0
    """Residual blocks of each member, of two layers each (code: 4, at about four times the cost)."""


@register("ensemble")
class Ensemble(Learner):
    """Disagreement: variance of an ensemble's predictions of random features of the next observation."""

    label = "Ensemble"
    family = "disagreement"
    use = "Disagreement of models: falls where more data cannot help."
    Config = EnsembleConfig
    config: EnsembleConfig
    reference = "Pathak, Gandhi & Gupta 2019, Self-Supervised Exploration via Disagreement"
    variants = {"disagreement-2019": {"features": 512, "blocks": 4, "warmup": 10_000}}

    def _build(self) -> None:
        spaces, c = self.spaces, self.config
        self.experience = c.experience(spaces, self.rollout)
        self.encoder = c.encoder(spaces)
        features, actions = self.encoder.features, spaces.action_width
        self.ensemble = StackedForward(features, actions, hidden=c.hidden, blocks=c.blocks, members=c.members)
        self.add_optimizer("ensemble", self.ensemble.parameters(), c.lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(lambda rows: disagreement(self.ensemble(self.encoder(rows.x), rows.code)), batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        # the encoder never changes: every observation is encoded once, not once per epoch
        phi, phi_next = self.experience.encoded_fresh(self.encoder, self.num_envs)

        def loss(rows: Prepared) -> Tensor:
            errors = self.ensemble.errors(phi[rows.index], rows.code, phi_next[rows.index])
            if self.config.keep < 1:
                drawn = torch.rand(errors.shape, generator=generator, dtype=errors.dtype).to(errors.device)
                errors = errors * (drawn < self.config.keep) / self.config.keep
            return errors.sum(0)

        return {"ensemble_loss": self.fit("ensemble", loss, generator) / self.config.members}
