"""Learning progress against a slow copy of f: no g, no queue. Both errors are of the same transition.

γ-Progress (Kim et al. 2020, Active World Model Learning with Progress Curiosity, arXiv 2007.07853) has the same idea:
its old model's weights are an exponential average of the new one's, and rewards the difference of their losses. Here
the logarithms of the errors are compared, above a floor that is measured on the data, so that all scales of error
count alike and what is learnt well enough earns no more; and the copy starts as the untrained f.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._progress import Form, LearningProgress, ProgressConfig, progress
from lpm.bonuses.lpm import MINIWORLD_F, MNIST_F
from lpm.core.registry import register
from lpm.core.settings import Fraction, NonNegative, reject_unused
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Minibatches, Prepared, successor
from lpm.nn.networks import follow_


@dataclass(frozen=True)
class LPMSlowConfig(ProgressConfig):
    """Settings of the slow copy: those of f and B, and of the comparison."""

    form: Form = "log"
    """Compare logarithms of errors above the floor, or the errors themselves."""
    relative_floor: NonNegative = 0.1
    """Added to `error_floor`, as a share of the median error of predicting the mean of the first observations: what is
    learnt better than this is hardly rewarded. For the log form."""
    copy_decay: Fraction = 0.9
    """What the copy keeps of its own parameters at each update of f."""
    replay: Literal["mixed", "all", "latest"] = "mixed"
    """What f is trained on: "all" of B, only the "latest" since the last update, or "mixed", half of each minibatch
    from either (less of the latest, if there is less)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "linear":
            reject_unused(self, "with form='linear'", "relative_floor")


@register("lpm_slow")
class LPMSlow(LearningProgress):
    """Learning progress: the error of a copy of f that follows f slowly over that of f, on the same transition."""

    label = "LPM, slow copy"
    family = "progress"
    use = "LPM against a slow copy of the dynamics model instead of an error model."
    Config = LPMSlowConfig
    config: LPMSlowConfig
    reference = (
        "docs/beyond.md; after Kim et al. 2020, Active World Model Learning with Progress Curiosity (γ-Progress)"
    )
    variants = {"mnist": MNIST_F, "miniworld": MINIWORLD_F}
    auto_normalise = "robust"

    dynamics: DynamicsModel
    slow: DynamicsModel

    def _build(self) -> None:
        self._build_progress()

    def _build_error_model(self) -> None:
        self.slow = copy.deepcopy(self.dynamics).requires_grad_(False)

    def _score(self, batch: Transitions) -> Tensor:
        if self.versions == 0:  # the copy is f
            return torch.zeros(batch.shape, device=batch.device)
        return self.experience.each(self._progress, batch)

    def _progress(self, rows: Prepared) -> Tensor:
        return progress(self.slow.errors(*successor(rows)), self._errors(rows), self.config.form, self.floor)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {} if self.buffer.total < self.config.warmup else super()._update(generator)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        c = self.config
        if (self.versions == 0 or self.experience.rescaled) and c.form == "log":
            self._raise_floor(c.relative_floor)
        loss = self._fit_dynamics(self._batches(generator))
        follow_(self.slow, self.dynamics, c.copy_decay)
        return {"dynamics_loss": loss}

    def _batches(self, generator: torch.Generator) -> Minibatches:
        c = self.config
        new = {"all": 0, "latest": c.batch_size, "mixed": (c.batch_size + 1) // 2}[c.replay]
        return self.experience.replayed(c.batch_size, c.dynamics_steps, generator, new=new)
