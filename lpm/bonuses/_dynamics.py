"""Settings of the bonuses that predict the next observation itself, and the model they share with LPM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lpm.core.settings import expect_at_least, expect_choice
from lpm.core.spaces import Spaces
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Experience
from lpm.nn.networks import Activation


@dataclass(frozen=True)
class DynamicsConfig:
    """Settings of the dynamics model f(o, a), the same network as in LPM."""

    normalise: Literal["auto", "none", "standard", "scalar"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    "standard" clips at ±10; "scalar": mean per pixel, one common std. Rewards are 0 until the statistics exist."""
    warmup: int = 1
    """Transitions to observe before the statistics freeze (large-scale-curiosity code: 10,000)."""
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
    lr: float = 1e-3
    """Adam learning rate of f."""
    epochs: int = 3
    """Passes over the transitions of a rollout per update (large-scale-curiosity code: 3)."""
    batch_size: int = 256
    """Minibatch of f."""

    def __post_init__(self) -> None:
        expect_choice(self, "normalise", "auto", "none", "standard", "scalar")
        expect_choice(self, "predict", "next", "delta")
        expect_at_least(self, 1, "warmup", "epochs", "batch_size")
        expect_at_least(self, 0, "lr")

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
