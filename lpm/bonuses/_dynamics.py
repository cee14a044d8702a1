"""Settings of the bonuses that predict the next observation itself, and the model they share with LPM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lpm.bonuses._learner import LearnerConfig
from lpm.core.settings import NonNegative
from lpm.core.spaces import Spaces
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Experience
from lpm.nn.networks import Activation


@dataclass(frozen=True)
class DynamicsConfig(LearnerConfig):
    """Settings of the dynamics model f(o, a), the same network as in LPM."""

    hidden: tuple[int, ...] | None = None
    """Hidden layers of f. None: (128, 128) for vectors, (512,) after the encoder for images."""
    skip: bool = False
    """Let f's last layer see its input (MNIST). Vectors only."""
    predict: Literal["next", "delta"] = "next"
    """What f predicts: the next observation, or its change. "delta" is for vectors only."""
    features: int | None = 512
    """Linear layer after the convolutions. None: none."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutional encoder."""
    lr: NonNegative = 1e-3
    """Adam learning rate of f."""

    def build(self, spaces: Spaces) -> DynamicsModel:
        """A fresh f."""
        return DynamicsModel(
            spaces,
            hidden=self.hidden,
            features=self.features,
            act=self.activation if spaces.kind != "vector" else "relu",
            skip=self.skip,
            delta=self.predict == "delta",
            squash=self.normalise in ("auto", "none") and spaces.bounded_image,
        )

    def experience(self, spaces: Spaces, capacity: int) -> Experience:
        """Where transitions are kept between updates."""
        return Experience(spaces, capacity, self.normalise, warmup=self.warmup)


MNIST: dict[str, Any] = {
    "normalise": "none",
    "hidden": (784, 784, 784),
    "skip": True,
    "lr": 1e-3,
    "epochs": 1,
    "batch_size": 32,
}
"""f of the paper's Noisy MNIST experiment: one step on every batch of 32."""
