"""What a run must not hide: numbers that are not finite stop it; a bonus that misleads is warned of, once, in words."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.core.mixer import ReturnScale, RewardMixer

PATIENCE = 20
"""Updates in a row for which a condition must hold."""
DOMINATES = 0.9
"""Share of the bonus in the deviation of the learner's return."""
DEAD = 1e-3
"""Of its own scale: a bonus that varies less."""
FALLEN = 0.8
"""Of the best mean return so far."""
CLIPPED = 0.05
"""Share of the numbers in normalised observations that are at their bound."""


class BonusMonitor:
    """Looks at each update of a bonus, and finds each condition once."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        """Conditions that were found so far."""
        self._held: dict[str, int] = {}
        self._best = -math.inf

    def observe(
        self,
        mixer: RewardMixer,
        metrics: Mapping[str, float],
        mean_return: float | None = None,
        clipped: float | None = None,
    ) -> list[str]:
        """What is new after an update with these `metrics` of the bonus; as a rule nothing.

        `clipped` is the share of the numbers in observations that are at their bound.
        """
        scale, c = mixer.bonus_scale, mixer.config
        if not isinstance(scale, ReturnScale):
            return []  # an experiment whose weight was chosen by hand
        fallen = False
        if mean_return is not None:
            self._best = max(self._best, mean_return)
            fallen = self._best > 0 and mean_return < FALLEN * self._best
        active = c.weight > 0
        conditions = {
            "dominates": (
                active and c.extrinsic_weight > 0 and mixer.task_scale.latest > 0 and mixer.share > DOMINATES,
                f"the bonus is more than {DOMINATES:.0%} of what the agent learns from, though the task gives rewards; "
                f"try a smaller weight than {c.weight:g}",
            ),
            "dead": (
                active and scale.segments >= PATIENCE and scale.latest < DEAD * scale.value,
                "the bonus hardly varies any more: all it can see is known, or its observations do not change",
            ),
            "noise": (
                active and fallen and metrics.get("unpredictable", 0.0) > 0.5,
                "most of the bonus comes from transitions that cannot be predicted, and the return falls: it may be "
                "following noise; try a smaller weight, or lgn if this is another bonus",
            ),
            "clipped": (
                clipped is not None and clipped > CLIPPED,
                f"more than {CLIPPED:.0%} of the normalised observations are at their bound, where the policy cannot "
                "tell them apart; scale them, or use the robust normalisation (--preset noisy) if some are noise",
            ),
        }
        return [message for name, (holds, message) in conditions.items() if self._is_new(name, holds)]

    def _is_new(self, name: str, holds: bool) -> bool:
        self._held[name] = self._held.get(name, 0) + 1 if holds else 0
        if self._held[name] < PATIENCE or name in self.found:
            return False
        self.found.add(name)
        return True


class NonFiniteError(ArithmeticError):
    """A number that is not finite, with the module that made it and the environment step at which it came."""

    def __init__(self, module: str, step: int, value: float) -> None:
        super().__init__(f"{module} is {value} at step {step:,}: training cannot go on from here")
        self.module, self.step, self.value = module, step, value


def finite(values: NDArray[Any], module: str, step: int) -> NDArray[Any]:
    """The values as they came; `NonFiniteError` if one of them is not a number."""
    if not np.isfinite(values).all():
        raise NonFiniteError(module, step, float(values[~np.isfinite(values)][0]))
    return values
