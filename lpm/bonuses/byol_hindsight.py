"""BYOL-Hindsight (Jarrett et al. 2023), in a small form: prediction error with what nobody could have known given.

A generator sees the outcome and writes down a hindsight vector z; a reconstructor predicts the outcome's embedding from
observation, action and z. A critic tries to tell from observation and action which z belongs to them, and the generator
is rewarded for hiding that: z may carry noise, not what observation and action say already.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import Learner, LearnerConfig
from lpm.core.registry import register
from lpm.core.settings import Count, Decay, NonNegative, Size
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared
from lpm.nn.memory import fixed_sample
from lpm.nn.networks import Encoder, follow_, mlp


def reconstruction(prediction: Tensor, target: Tensor) -> Tensor:
    """Squared distance of two embeddings (B, F) on the unit sphere, (B,): between 0 and 4.

    >>> reconstruction(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
    tensor([2.])
    """
    normalise = nn.functional.normalize
    return (normalise(prediction, dim=1) - normalise(target, dim=1)).square().sum(1)


def invariance(own: Tensor, others: Tensor) -> Tensor:
    """log( e^own / mean of e^own and e^others ) of scores (B,) and (B, K − 1), (B,): at most log K.

    Its mean is a lower bound on how much z says about observation and action.

    >>> invariance(torch.zeros(1), torch.zeros(1, 3))
    tensor([0.])
    """
    all_scores = torch.cat([own.unsqueeze(1), others], 1)
    return own - all_scores.logsumexp(1) + torch.tensor(float(all_scores.shape[1])).log().item()


def opposed(z: Tensor, weight: float) -> Tensor:
    """z itself, with its gradient times −weight: who made it minimises what all else maximises."""
    return (1 + weight) * z.detach() - weight * z


@dataclass(frozen=True)
class BYOLHindsightConfig(LearnerConfig):
    """Settings of the small form. "Paper" is its large one, with recurrent beliefs and Atari's convolutions."""

    reward: Literal["both", "reconstruction"] = "both"
    """The reward: the loss that the model minimises, or only the error of the reconstruction."""
    invariance_weight: NonNegative = 1.0
    """Weight of the invariance beside the reconstruction, in the loss and in the reward. 0: BYOL-Explore, whose z may
    carry everything."""
    features: Count = 128
    """Width of the embeddings (paper: 512)."""
    encoder_hidden: tuple[int, ...] = (256,)
    """Hidden layers of the encoder of vectors. Images have the convolutions of the other methods."""
    hindsight: Count = 32
    """Width of z (paper: 256)."""
    noise: Size = 32
    """Width of the noise that the generator may use to blur z; it is 0 when rewards are computed (paper: 256)."""
    hidden: tuple[int, ...] = (256,)
    """Hidden layers of generator, reconstructor and critic (paper: three of 512)."""
    decay: Decay = 0.99
    """What the target encoder keeps of its own weights at each gradient step of the encoder (BYOL-Explore: 0.99)."""
    contrasts: Count = 31
    """Hindsight vectors of other transitions that each is told from: others of the minibatch in the loss, and as many
    that are kept from the last update in the reward."""
    lr: NonNegative = 3e-4
    """Adam learning rate of everything."""
    epochs: Count = 4
    """Passes over the transitions of a rollout per update."""
    batch_size: Count = 128
    """Minibatch."""


@register("byol_hindsight")
class BYOLHindsight(Learner):
    """Error of predicting the outcome's embedding with its unpredictable part given, plus how predictable that was."""

    label = "BYOL-Hindsight"
    family = "error"
    use = "Prediction error of what hindsight cannot explain as noise."
    Config = BYOLHindsightConfig
    config: BYOLHindsightConfig
    reference = (
        "Jarrett et al. 2023, Curiosity in Hindsight: Intrinsic Exploration in Stochastic Environments "
        "(arXiv 2211.10515)"
    )

    bank: Tensor  # (contrasts, Z) hindsight vectors of the last update
    banked: Tensor  # how many of them there are

    def _build(self) -> None:
        spaces, c = self.spaces, self.config
        self.experience = c.experience(spaces, self.rollout)
        known = c.features + spaces.action_width
        self.encoder = Encoder(spaces.input_shape, c.features, hidden=c.encoder_hidden, final_activation=False)
        self.reconstructor = mlp(known + c.hindsight, c.hidden, c.features)
        self.writer = mlp(known + c.features + c.noise, c.hidden, c.hindsight)
        self.critic = mlp(known + c.hindsight, c.hidden, 1)
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.add_optimizer("model", (p for p in self.parameters() if p.requires_grad), c.lr)
        self.register_buffer("bank", torch.zeros(c.contrasts, c.hindsight))
        self.register_buffer("banked", torch.zeros((), dtype=torch.int64))

    # ---- the model ----------------------------------------------------------------------------------------
    def known(self, rows: Prepared) -> Tensor:
        """What is known before the outcome: observation and action, (B, features + action width)."""
        return torch.cat([self.encoder(rows.x), rows.code], 1)

    def outcome(self, rows: Prepared) -> Tensor:
        """The target embedding of the successor, on the unit sphere, (B, features); never trained."""
        with torch.no_grad():
            return nn.functional.normalize(self.target(rows.x_next), dim=1)

    def write(self, known: Tensor, outcome: Tensor, noise: Tensor | None = None) -> Tensor:
        """The hindsight vectors z, (B, Z), in (−1, 1); without noise unless it is given."""
        if noise is None:
            noise = known.new_zeros(len(known), self.config.noise)
        return torch.tanh(self.writer(torch.cat([known, outcome, noise], 1)))

    def scores(self, known: Tensor, z: Tensor, which: Tensor | None = None) -> Tensor:
        """The critic's scores of z (K, Z), or of those `which` (B, K) names, for each row of what is known, (B, K)."""
        first, *rest = self.critic
        assert isinstance(first, nn.Linear)
        width = known.shape[1]  # the first layer is applied to both parts apart, not to B × K copies
        a = nn.functional.linear(known, first.weight[:, :width], first.bias)
        b = nn.functional.linear(z, first.weight[:, width:])
        h = a.unsqueeze(1) + (b if which is None else b[which])
        for layer in rest:
            h = layer(h)
        return h.squeeze(2)

    def _parts(self, rows: Prepared) -> Tensor:
        """Reconstruction and invariance of each row, (B, 2), with contrasts from the bank."""
        known, outcome = self.known(rows), self.outcome(rows)
        z = self.write(known, outcome)
        error = reconstruction(self.reconstructor(torch.cat([known, z], 1)), outcome)
        if self.config.reward == "reconstruction":
            return torch.stack([error, torch.zeros_like(error)], 1)
        own = self.critic(torch.cat([known, z], 1)).squeeze(1)
        return torch.stack([error, invariance(own, self.scores(known, self.bank[: int(self.banked)]))], 1)

    def _score(self, batch: Transitions) -> Tensor:
        def rewards(rows: Prepared) -> Tensor:
            error, shared = self._parts(rows).unbind(1)
            return error + self.config.invariance_weight * shared

        return self.experience.each(rewards, batch)

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        weight, parts = self.config.invariance_weight, []

        def loss(rows: Prepared) -> Tensor:
            known, outcome = self.known(rows), self.outcome(rows)
            noise = torch.randn(len(known), self.config.noise, generator=generator).to(known.device)
            z = self.write(known, outcome, noise)
            error = reconstruction(self.reconstructor(torch.cat([known, z], 1)), outcome)
            # fixed for the critic: the encoder must not hide what is known; it still learns what z is written from
            shared = self._contrasted(known.detach(), opposed(z, weight))
            parts.append(torch.stack([error.detach().mean(), shared.detach().mean()]))
            return error - shared

        self.fit("model", loss, generator, after_step=lambda: follow_(self.target, self.encoder, self.config.decay))
        slots = self.experience.fresh
        slots = slots[fixed_sample(len(slots), self.config.contrasts).to(slots.device)]
        z = self.experience.at(slots, lambda rows: self.write(self.known(rows), self.outcome(rows)))
        self.bank.zero_()
        self.bank[: len(z)] = z
        self.banked.fill_(len(z))
        error, shared = torch.stack(parts).mean(0)
        return {"reconstruction": error, "invariance": shared}

    def _contrasted(self, known: Tensor, z: Tensor) -> Tensor:
        """The invariance of each row, with the z of the rows that follow it as contrasts, (B,)."""
        row = torch.arange(len(z), device=z.device)
        ahead = row[: 1 + self.config.contrasts]
        scores = self.scores(known, z, (row.unsqueeze(1) + ahead) % len(z))
        return invariance(scores[:, 0], scores[:, 1:])
