"""One frozen, printable, hashable description of a noise setting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from operator import index
from typing import Literal


@dataclass(frozen=True)
class NoiseConfig:
    """One noise setting: when the TV is on, what it shows and where, and what becomes of the true state."""

    trigger: Literal["action", "state", "always", "never"] = "action"
    """"action": idle actions switch it on; "state": a condition does; "always"; "never": the fair control."""
    source: Literal["uniform", "gaussian", "cifar10", "folder"] = "uniform"
    """What it shows."""
    actions: tuple[int, ...] = ()
    """Existing discrete actions that are idle."""
    added_actions: int = 0
    """Idle actions added behind the existing ones; for a Box, added dimensions that are idle above 0."""
    noop: int = 0
    """The discrete action the environment receives on an idle step (a Box receives zeros)."""
    frozen: bool = False
    """An idle step leaves the environment untouched, its step counter included; otherwise it advances by noop."""
    probability: float = 1.0
    """Chance that a TV that is on shows noise; when it does not, the step is an ordinary one."""
    cells: tuple[int, ...] = ()
    """For "state": the coverage cells (`info["cell"]`) in which the TV is on."""
    region: tuple[tuple[int, int], ...] = ()
    """The part of the observation that is the screen: (start, stop) for each leading axis; empty: all of it."""
    blend: Literal["replace", "add"] = "replace"
    """Replace the observation or add to it."""
    low: float | None = None
    """Lower bound of uniform noise; default: the lowest value of the observation space."""
    high: float | None = None
    """Upper bound of uniform noise; default: the highest value of the observation space."""
    std: float = 1.0
    """Standard deviation of Gaussian noise; its mean is 0 when added, else the middle of the bounds if finite."""
    fit: Literal["stretch", "tile"] = "stretch"
    """How an image fills the screen."""
    folder: str = ""
    """For "folder": where the images are."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be meant; sequences become tuples, so that every config can be hashed."""
        for name in ("actions", "cells"):
            object.__setattr__(self, name, tuple(index(value) for value in getattr(self, name)))
        region = tuple((index(start), index(stop)) for start, stop in self.region)
        object.__setattr__(self, "region", region)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"probability must lie in [0, 1], got {self.probability}")
        if index(self.added_actions) < 0:
            raise ValueError(f"added_actions must be at least 0, got {self.added_actions}")
        if not 0.0 <= self.std < inf:
            raise ValueError(f"std must be at least 0 and finite, got {self.std}")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(f"low must not lie above high, got low={self.low}, high={self.high}")
        if self.trigger == "action" and not self.actions and not self.added_actions:
            raise ValueError('trigger="action" needs `actions` or `added_actions`, got neither')
        if self.source == "folder" and not self.folder:
            raise ValueError('source="folder" needs `folder`, got an empty one')
        if self.source in ("cifar10", "folder") and self.blend == "add":
            raise ValueError(f'blend="add" is for uniform and Gaussian noise, got source={self.source!r}')

    @property
    def has_idle_actions(self) -> bool:
        """Whether any action is idle."""
        return bool(self.actions) or self.added_actions > 0

    def control(self) -> NoiseConfig:
        """The fair control: the same idle actions with the same effect on the state, and no noise."""
        return replace(self, trigger="never")


_CHOICES = {
    "trigger": ("action", "state", "always", "never"),
    "source": ("uniform", "gaussian", "cifar10", "folder"),
    "blend": ("replace", "add"),
    "fit": ("stretch", "tile"),
}
