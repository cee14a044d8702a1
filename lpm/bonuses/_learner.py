"""The settings and the cycle that bonuses which learn from their experience share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.settings import Count, NonNegative, Settings
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Experience, Loss, Prepared, regression, successor
from lpm.nn.memory import Columns
from lpm.nn.networks import Activation


@dataclass(frozen=True)
class FitConfig(Settings):
    """How models are fitted to what came since the last update."""

    lr: NonNegative = 1e-4
    """Adam learning rate."""
    epochs: Count = 3
    """Passes over the transitions of a rollout per update."""
    batch_size: Count = 256
    """Minibatch."""


@dataclass(frozen=True)
class LearnerConfig(FitConfig):
    """The same, and the scale of observations, which is fixed at the first update."""

    normalise: Literal["auto", "none", "standard", "scalar"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    "standard" clips at ±10; "scalar": mean per pixel, one common std. Rewards are 0 until the statistics exist."""
    warmup: Count = 1
    """Transitions to observe before the statistics freeze (large-scale-curiosity code: 10,000)."""

    def experience(self, spaces: Spaces, capacity: int, columns: Columns | None = None) -> Experience:
        """Where transitions are kept between updates."""
        return Experience(spaces, capacity, self.normalise, warmup=self.warmup, columns=columns)


def feature_width(spaces: Spaces, given: int | None) -> int:
    """How many features a model sees: what the config says or, if it is None, 128 of vectors and 512 of images."""
    return (128 if spaces.kind == "vector" else 512) if given is None else given


class MemoryBonus(IntrinsicReward):
    """A bonus whose memory moves on within a block: a method writes `_walk`, which scores and perhaps remembers."""

    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        """Rewards of a block, (T, N), in time order; with `keep`, the block is remembered."""
        raise NotImplementedError

    def _score(self, batch: Transitions) -> Tensor:
        return self._walk(batch, keep=False)

    def _observe(self, batch: Transitions) -> None:
        self._walk(batch, keep=True)

    def _step(self, batch: Transitions) -> Tensor:
        return self._walk(batch, keep=True)


class Learner(IntrinsicReward):
    """A bonus with an `experience`: a method makes it in `_build`, and writes `_score` and `_learn`."""

    experience: Experience

    def _observe(self, batch: Transitions) -> None:
        self.experience.observe(batch)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if not self.experience.begin_update():
            return {}
        metrics = self._learn(generator)
        self.experience.end_update()
        return metrics

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Fit models to what came since the last update, in the scale that is now fixed."""
        raise NotImplementedError

    def fit(
        self,
        name: str,
        loss: Loss,
        generator: torch.Generator,
        *,
        epochs: int | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Tensor:
        """Passes of the named optimiser over what came since the last update, as the config has them; the mean loss."""
        c = self.config
        batches = self.experience.passes(c.batch_size, epochs or c.epochs, generator)
        return self.experience.fit(loss, self.optimizer(name), batches, after_step)


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


class DynamicsLearner(Learner):
    """A bonus with a dynamics model f that is fitted to what came since the last update."""

    config: DynamicsConfig
    dynamics: DynamicsModel

    def _build(self) -> None:
        c, spaces = self.config, self.spaces
        self.experience = c.experience(spaces, self.rollout)
        self.dynamics = DynamicsModel(
            spaces,
            hidden=c.hidden,
            features=c.features,
            act=c.activation,
            skip=c.skip,
            delta=c.predict == "delta",
            squash=c.normalise in ("auto", "none") and spaces.bounded_image,
        )
        self.add_optimizer("dynamics", self.dynamics.parameters(), c.lr)

    def _errors(self, rows: Prepared) -> Tensor:
        """Of f now, (B,)."""
        return self.dynamics.errors(*successor(rows))

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"dynamics_loss": self.fit("dynamics", regression(self.dynamics, successor), generator)}


MNIST: dict[str, Any] = {
    "normalise": "none",
    "hidden": (784, 784, 784),
    "skip": True,
    "lr": 1e-3,
    "epochs": 1,
    "batch_size": 32,
}
"""f of the paper's Noisy MNIST experiment: one step on every batch of 32."""
