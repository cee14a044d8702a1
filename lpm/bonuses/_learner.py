"""The cycle of every bonus that learns from its experience."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Loss


def feature_width(spaces: Spaces, given: int | None) -> int:
    """How many features a model sees: what the config says or, if it is None, 128 of vectors and 512 of images."""
    return (128 if spaces.kind == "vector" else 512) if given is None else given


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
