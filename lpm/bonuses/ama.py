"""Aleatoric mapping agents: the squared error minus the variance that the model expects."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import MNIST, Learner, LearnerConfig
from lpm.core.registry import register
from lpm.core.settings import NonNegative, Positive, expect
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import GaussianDynamicsModel
from lpm.nn.experience import Prepared
from lpm.nn.networks import Activation

Clip = Literal["none", "mean", "elem"]


# ---- the reward and the loss, as pure functions -------------------------------------------------------------
def reward(square: Tensor, log_variance: Tensor, eta: float = 1.0, clip: Clip = "none") -> Tensor:
    """mean[(μ − o')² − η·exp(s)] over dimensions, from squared errors and log-variances (B, ...); (B,)."""
    gap = (square - eta * log_variance.exp()).flatten(1)
    if clip == "elem":
        return gap.clamp_min(0).mean(1)
    return gap.mean(1).clamp_min(0) if clip == "mean" else gap.mean(1)


def loss(square: Tensor, log_variance: Tensor, lam: float = 1.0) -> Tensor:
    """mean[exp(−s)·(μ − o')² + λ·s] over dimensions, (B,): at its optimum exp(s) is the mean square over λ."""
    return ((-log_variance).exp() * square + lam * log_variance).flatten(1).mean(1)


@dataclass(frozen=True)
class AMAConfig(LearnerConfig):
    """Settings of AMA. "Code" is the authors' repository, which has one setting per experiment."""

    eta: NonNegative = 1.0
    """η, weight of the predicted variance in the reward (code: 1). The reward of noise is 0 only if η = λ."""
    lam: Positive = 1.0
    """λ, weight of the log-variance in the loss (code: 1 for MNIST and retro games; MiniGrid in effect 0.1)."""
    clip: Clip = "none"
    """Where the reward is cut at 0: nowhere (code: MNIST, retro), after averaging over dimensions ("mean", an option
    of the retro code), or in every dimension ("elem", MiniGrid), which leaves 0.48 σ² for calibrated noise."""
    bounds: tuple[float, float] | None = (-10.0, 10.0)
    """Smooth limits of the log-variance; exp(−s) explodes on deterministic dimensions without. Code: none."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers that both heads share. None: (256, 256) for vectors, (512,) after the encoder for images.
    MNIST: (784, 784)."""
    head_hidden: tuple[int, ...] = ()
    """Hidden layers of each head. Vectors only (MNIST: (784,))."""
    skip: bool = False
    """Let the last layer of the mean head see the input (MNIST). Vectors only."""
    features: int | None = 512
    """Linear layer after the convolutions. None: none."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutional encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self, "bounds", self.bounds is None or self.bounds[0] < self.bounds[1], "(low, high) with low < high")


@register("ama")
class AMA(Learner):
    """Squared prediction error minus the variance predicted for it: 0 for calibrated noise."""

    label = "AMA"
    family = "error"
    use = "Prediction error minus the noise that the model expects."
    Config = AMAConfig
    config: AMAConfig
    reference = "Mavor-Parker et al. 2022, How to Stay Curious while Avoiding Noisy TVs using Aleatoric Uncertainty"
    variants = {
        "mnist": {**MNIST, "hidden": (784, 784), "head_hidden": (784,), "lr": 1e-4, "bounds": None},
        "minigrid": {"lam": 0.1, "clip": "elem"},
    }

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        self.dynamics = GaussianDynamicsModel(
            spaces,
            hidden=config.hidden,
            head_hidden=config.head_hidden,
            features=config.features,
            act=config.activation,
            skip=config.skip,
            bounds=config.bounds,
            squash=config.normalise in ("auto", "none") and spaces.bounded_image,
        )
        self.add_optimizer("dynamics", self.dynamics.parameters(), config.lr)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(lambda rows: reward(*self._predict(rows), self.config.eta, self.config.clip), batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        value = self.fit("dynamics", lambda rows: loss(*self._predict(rows), self.config.lam), generator)
        return {"dynamics_loss": value}

    def _predict(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """Squared errors of the mean and log-variances, per dimension."""
        mean, log_variance = self.dynamics(rows.x, rows.code)
        return (mean - rows.x_next).square(), log_variance
