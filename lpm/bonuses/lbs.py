"""Latent Bayesian Surprise (Mazzaglia et al. 2022): how far seeing the successor moves the belief about a latent.

A prior p(z | o, a) and a posterior q(z | o, a, o') are trained as a conditional variational autoencoder of the
successor. The reward is KL(q ‖ p).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import Learner, LearnerConfig
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative, Positive
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared
from lpm.nn.frozen import random_encoder
from lpm.nn.inputs import RunningMoments
from lpm.nn.networks import Activation, Encoder, mlp

MIN_STD = 1e-4  # code: added to the softplus


class Gaussian(NamedTuple):
    """Mean and standard deviation of independent normal variables, (B, Z) each."""

    mean: Tensor
    std: Tensor


def kl(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q ‖ p) summed over dimensions, (B,).

    >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> kl(Gaussian(one, one), Gaussian(zero, one))
    tensor([0.5000])
    """
    ratio = (q.std / p.std).square()
    return 0.5 * (ratio + ((q.mean - p.mean) / p.std).square() - 1 - ratio.log()).sum(1)


def evidence_loss(surprise: Tensor, decoded: Tensor, target: Tensor, beta: float) -> Tensor:
    """β·KL − log N(target; decoded, 1) without its constant, (B,)."""
    return beta * surprise + 0.5 * (decoded - target).square().sum(1)


@dataclass(frozen=True)
class LBSConfig(LearnerConfig):
    """Settings of LBS. "Code" is mazpie/lbs-exploration, which standardises vectors by running statistics."""

    beta: Positive = 1.0
    """β: weight of the KL in the loss (code: default 1; 0.1 in its continuous tasks, 2 in its stochastic MountainCar,
    0.01 in arcade games). Noise whose variance exceeds β, in the unit of the target, is rewarded for ever."""
    latent: Count | None = None
    """Width of z. None: as many as the target has (code)."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of prior and posterior. None: (32, 32) for vectors, (512, 512) for images (code)."""
    features: Count = 512
    """Images: width of what prior and posterior see of an image, and of the frozen random features that are decoded
    (code: 512). Vectors are seen and decoded as they are (code)."""
    lr: NonNegative = 3e-4
    """Adam learning rate (code: 3e-4; arcade games 1e-4)."""
    epochs: Count = 10
    """Passes over the transitions of a rollout per update (code: 10; arcade games 3)."""
    batch_size: Count = 64
    """Minibatch (code: 64; arcade games 2,048)."""


class Belief(nn.Module):
    """An MLP that ends in the mean and standard deviation of a latent; also shows its last hidden layer."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], latent: int, act: Activation) -> None:
        super().__init__()
        self.body = mlp(inputs, hidden, None, act)
        self.width = hidden[-1] if hidden else inputs
        self.mean = nn.Linear(self.width, latent)
        self.spread = nn.Linear(self.width, latent)

    def forward(self, *inputs: Tensor) -> tuple[Gaussian, Tensor]:
        """Inputs (B, ·), side by side, to the belief and the hidden layer it comes from."""
        h = self.body(torch.cat(inputs, 1))
        return Gaussian(self.mean(h), nn.functional.softplus(self.spread(h)) + MIN_STD), h


@register("lbs")
class LBS(Learner):
    """Latent Bayesian surprise: KL between the beliefs about a latent after and before seeing the successor."""

    label = "LBS"
    family = "disagreement"
    use = "Bayesian surprise of a latent state."
    Config = LBSConfig
    config: LBSConfig
    reference = "Mazzaglia et al. 2022, Curiosity-Driven Exploration via Latent Bayesian Surprise (arXiv 2104.07495)"
    variants = {
        "continuous": {"beta": 0.1},
        "stochastic": {"beta": 2.0},
        "arcade": {"beta": 0.01, "normalise": "scalar", "warmup": 10_000, "lr": 1e-4, "epochs": 3,
                   "batch_size": 2048},
    }  # fmt: skip

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        vector = spaces.kind == "vector"
        act: Activation = "relu" if vector else "leaky_relu"
        width = math.prod(spaces.input_shape) if vector else config.features
        latent = width if config.latent is None else config.latent
        hidden = ((32, 32) if vector else (512, 512)) if config.hidden is None else config.hidden

        def view() -> nn.Module:
            if vector:
                return nn.Identity()
            return Encoder(spaces.input_shape, width, act=act, final_activation=False)

        self.view, self.next_view = view(), view()
        self.prior = Belief(width + spaces.action_width, hidden, latent, act)
        self.posterior = Belief(self.prior.width + width, hidden, latent, act)
        self.decoder = nn.Linear(latent, width)
        self.random = nn.Identity() if vector else random_encoder(spaces.input_shape, width, act=act)
        # random features have a scale of their own; observations were standardised
        self.moments = None if vector else RunningMoments((width,))
        self.add_optimizer("model", (p for p in self.parameters() if p.requires_grad), config.lr)

    def beliefs(self, rows: Prepared) -> tuple[Gaussian, Gaussian]:
        """q and p of each row."""
        p, h = self.prior(self.view(rows.x), rows.code)
        q, _ = self.posterior(h, self.next_view(rows.x_next))
        return q, p

    def target(self, rows: Prepared) -> Tensor:
        """What is decoded from z: the successor, or standardised random features of it, (B, width)."""
        features: Tensor = self.random(rows.x_next)
        return features if self.moments is None else self.moments.normalise(features)

    def _score(self, batch: Transitions) -> Tensor:
        if self.moments is not None and not self.moments.ready:
            return torch.zeros(batch.shape, device=batch.device)
        return self.experience.each(lambda rows: kl(*self.beliefs(rows)), batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.moments is not None and not self.moments.ready:  # the scale of random features is the first rollouts'
            self.moments.observe(self.experience.at_fresh(lambda rows: self.random(rows.x_next)))
            if self.moments.total < self.config.warmup:
                return {}
            self.moments.commit()
        # nothing that is decoded changes: computed once, not once per epoch
        target, surprises = self.experience.at_fresh(self.target), []

        def loss(rows: Prepared) -> Tensor:
            q, p = self.beliefs(rows)
            noise = torch.randn(q.mean.shape, generator=generator).to(q.mean.device)
            surprise = kl(q, p)
            surprises.append(surprise.detach().mean())
            return evidence_loss(surprise, self.decoder(q.mean + q.std * noise), target[rows.index], self.config.beta)

        return {"evidence_loss": self.fit("model", loss, generator), "surprise": torch.stack(surprises).mean()}
