"""Pointwise learning progress: the error of an old snapshot of f minus the error of the present f, on the same data."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import MNIST, DynamicsConfig, DynamicsLearner
from lpm.bonuses._progress import Form, error_floor, progress
from lpm.core.registry import register
from lpm.core.settings import Count, Positive
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Prepared, successor


@dataclass(frozen=True)
class PointwiseConfig(DynamicsConfig):
    """Settings of pointwise learning progress: those of its dynamics model, and of the comparison."""

    lag: Count = 1
    """How many updates older the snapshot is. Rewards are 0 until there is one that old."""
    form: Form = "log"
    """Compare logarithms of errors (as LPM does), or the errors themselves."""
    error_floor: Positive | None = None
    """Added to the MSE before the logarithm. None: 1e-6 for images, 1e-4 for vectors, as in LPM."""


@register("pointwise")
class Pointwise(DynamicsLearner):
    """Learning progress without an error model: error of a snapshot of f minus error of f, on the same transition."""

    label = "Pointwise progress"
    family = "progress"
    use = "Fall of the error on each transition between two updates."
    Config = PointwiseConfig
    config: PointwiseConfig
    reference = "Schmidhuber 1991; Oudeyer et al. 2007; the alternative of Theorem 2 in Hou, An & Du 2026"
    variants = {"mnist": {**MNIST, "error_floor": 1e-6}}

    versions: Tensor  # τ: updates of f so far

    def _build(self) -> None:
        super()._build()
        self.floor = error_floor(self.spaces, self.config.error_floor)
        # f of update τ is kept in slot τ mod lag, which holds f of τ − lag until update τ + 1 overwrites it
        self.snapshots = nn.ModuleList(copy.deepcopy(self.dynamics) for _ in range(self.config.lag))
        self.snapshots.requires_grad_(False)
        self.register_buffer("versions", torch.zeros((), dtype=torch.int64))

    def _score(self, batch: Transitions) -> Tensor:
        if self.versions < self.config.lag:
            return torch.zeros(batch.shape, device=batch.device)
        old = self._oldest

        def rewards(rows: Prepared) -> Tensor:
            return progress(old.errors(*successor(rows)), self._errors(rows), self.config.form, self.floor)

        return self.experience.each(rewards, batch)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        self._oldest.load_state_dict(self.dynamics.state_dict())
        self.versions += 1
        return super()._learn(generator)

    @property
    def _oldest(self) -> DynamicsModel:
        snapshot = self.snapshots[int(self.versions) % self.config.lag]
        assert isinstance(snapshot, DynamicsModel)
        return snapshot
