"""γ-Progress (Kim et al. 2020): how much better a model predicts than the exponential average of its own past weights.

Both models see the same transition, so what cannot be learnt cancels in each sample. `lpm_slow` has the same idea; it
compares logarithms of errors above a measured floor, and its copy follows once an update.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import MNIST, DynamicsConfig, DynamicsLearner
from lpm.bonuses._progress import progress, replay_capacity
from lpm.core.registry import register
from lpm.core.settings import Count, Fraction
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared, successor
from lpm.nn.networks import follow_


@dataclass(frozen=True)
class GammaProgressConfig(DynamicsConfig):
    """Settings of γ-Progress: those of its world model, of the average, and of the replay buffer."""

    gamma: Fraction = 0.99
    """γ: what the old model keeps of its own weights at each gradient step of the new one. The old model is about
    1 / (1 − γ) steps behind. Paper: a hyper-parameter of the environment."""
    buffer_size: Count | None = None
    """Transitions that the world model is trained on, drawn evenly. None: 64 rollouts, but at least 2,048 (or what 16
    MiB hold) and at most 65,536 (512 MiB). Paper: all of them."""
    epochs: Count = 3
    """Gradient steps per update, as many as passes over the new transitions take; minibatches are drawn from the whole
    buffer. Paper: steps on replayed minibatches as the agent acts."""


@register("gamma_progress")
class GammaProgress(DynamicsLearner):
    """Learning progress: the loss of a model with averaged past weights minus the present loss, on one transition."""

    label = "γ-Progress"
    family = "progress"
    use = "Difference of errors between a model and its slow average."
    Config = GammaProgressConfig
    config: GammaProgressConfig
    reference = "Kim et al. 2020, Active World Model Learning with Progress Curiosity (arXiv 2007.07853)"
    variants = {"mnist": MNIST}

    def _build(self) -> None:
        super()._build()
        # in place of the last rollout, a replay buffer
        capacity = replay_capacity(self.spaces, self.rollout, self.config.buffer_size)
        self.experience = self.config.experience(self.spaces, max(capacity, self.rollout))
        self.old = copy.deepcopy(self.dynamics).requires_grad_(False)

    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self._progress, batch)

    def _progress(self, rows: Prepared) -> Tensor:
        return progress(self.old.errors(*successor(rows)), self._errors(rows), "linear")

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        c = self.config
        steps = c.epochs * max(1, self.experience.buffer.fresh // c.batch_size)
        batches = self.experience.replayed(c.batch_size, steps, generator)
        # not the written-out regression: the old model follows after every step
        loss = self.experience.fit(self._errors, self.optimizer("dynamics"), batches, self._follow)
        return {"dynamics_loss": loss}

    def _follow(self) -> None:
        """θ_old ← γ θ_old + (1 − γ) θ_new."""
        follow_(self.old, self.dynamics, self.config.gamma)
