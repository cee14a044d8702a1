"""Rooms that change or mislead in the middle of a run: a lab beyond the paper, not part of the suite's score.

4 x 4 rooms with a fifth action that does not move; half-way through the run something happens (`WORLDS`). Cells are
counted anew from then on.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import register
from numpy.typing import NDArray

from lpm.envs.rooms import WATCH, RoomsVector
from lpm.envs.vector import Array, Mask, Outcome
from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment, known
from lpm_paper.methods import ALL, LABELS

WORLDS = {
    "calm": "nothing happens",
    "dynamics": "moves mirrored",
    "tv": "a TV appears",
    "heavy-tails": "heavy-tailed noise",
    "delayed": "delayed noise",
    "reward": "the reward moves",
    "drift": "observations drift",
}
"""Name -> what happens half-way; the delayed noise is there from the start."""
STEPS, DELAY = 24_576, 10
TAILS, SIZE, DRIFT = 1.5, 0.05, 2e-4
"""Degrees of freedom and scale of the heavy-tailed noise, growth of every number in a step: the range is 2."""


class HostileRooms(RoomsVector):
    """Rooms in which something happens after `change` steps of all environments together."""

    _saved = (*RoomsVector._saved, "age", "asked")

    def __init__(self, num_envs: int = 1, world: str = "calm", change: int = STEPS // 2, **settings: Any) -> None:
        if world not in WORLDS:
            raise ValueError(f"world: expected one of {', '.join(WORLDS)}, got {world!r}")
        super().__init__(num_envs, noise="action", **settings)
        self.world, self.change = world, change
        self._age = np.zeros(1, dtype=np.int64)
        self._asked = np.full(num_envs, -1, dtype=np.int64)  # steps since the delayed noise was asked for
        self.num_cells *= 2  # those entered after the change are others
        y, x = np.divmod(np.arange(self._side**2), self._side)
        pitch = (self._side - 1) // 4
        self._rooms = [(y // pitch == 1) & (x // pitch == 0), (y // pitch == 0) & (x // pitch == 2)]

    @property
    def late(self) -> bool:
        """Whether it has happened."""
        return int(self._age[0]) >= self.change

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        self._age += self.num_envs
        if self.world == "dynamics" and self.late:  # up and down change places, and left and right
            actions = np.where(actions < WATCH, actions ^ 1, actions)
        if self.world == "reward":
            self._goal = self._rooms[self.late] & self.free.ravel()
        return super()._step_rows(actions, active)

    def _look(self, rows: NDArray[np.int64], watching: Mask) -> None:
        if self.world == "delayed":
            waiting = self._asked[rows] >= 0
            self._asked[rows] = np.where(waiting, self._asked[rows] + 1, np.where(watching, 0, -1))
            watching = self._asked[rows] == DELAY
            self._asked[rows[watching]] = -1
        elif self.world != "tv" or not self.late:
            watching = np.zeros_like(watching)
        super()._look(rows, watching)
        if self.late and self.world == "heavy-tails":
            self._seen[rows] += SIZE * student(*np.split(self.noise_rng.uniform(rows, 2 * self._width), 2, axis=1))
        if self.late and self.world == "drift":
            self._seen[rows] += DRIFT * (self._age - self.change)

    def _info(self) -> dict[str, Array]:
        info = super()._info()
        return {**info, "cell": info["cell"] + self.late * (self.num_cells // 2)}

    def _shared_state(self) -> tuple[str, ...]:
        return ("age",)

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        most = np.finfo(np.float32).max  # what is seen may be anything
        return {**super()._limits(), "seen": (-most, most), "age": (0, 2**62), "asked": (-1, DELAY)}


def student(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Student's t with `TAILS` degrees of freedom, from two uniform numbers in [0, 1) (Bailey 1994)."""
    radius: NDArray[np.float64] = np.sqrt(TAILS * ((1 - first) ** (-2 / TAILS) - 1)) * np.cos(2 * np.pi * second)
    return radius


register(id="HostileRooms-v0", vector_entry_point="lpm_paper.hostile:HostileRooms")


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Cells entered before and after the change, and the means of the rest after it."""
    before, after = np.split(visits, 2)
    found = {"cells": float(np.count_nonzero(after)), "cells_before": float(np.count_nonzero(before))}
    for metric in ("noise_share", "bonus", "return"):
        values = known(curves, metric)[1]
        if values:
            found[metric] = float(np.mean(values[len(values) // 2 :]))
    return found


METHODS = {
    **{name: ALL[name] for name in ("lgn", "lpm", "rnd", "icm", "ensemble")},
    "count": Method(LABELS["count"], "count"),
    "noveld": Method("NovelD", "noveld"),
    **{name: ALL[name] for name in ("none", "random")},
}

EXPERIMENT = TrainingExperiment(
    name="hostile",
    not_ranked="a lab of worlds that change in the middle of a run",
    title="Hostile worlds: what happens half-way",
    place="beyond the paper",
    about=(
        "Sixteen rooms; the agent sees its position, and a fifth action does nothing. Half-way through the run the "
        "moves are mirrored; or the fifth action begins to show white noise; or every number has noise of Student's t "
        "with 1.5 degrees of freedom; or another room pays and ends the episode; or all numbers begin to grow by one "
        "range in 10,000 steps. In one more world the fifth action shows noise ten steps later, from the start.",
        "Cells are counted anew after the change. Without the moving reward nothing pays.",
    ),
    env_id="lpm_paper.hostile:HostileRooms-v0",
    algo="ppo",
    variants={world: Condition(label, {"world": world}) for world, label in WORLDS.items()},
    methods=METHODS,
    sizes={
        "smoke": Scale(1_024, 2, {"preset": "noisy", "num_envs": 4, "rollout_steps": 64}, ("lgn", "none"),
                       ("calm", "tv"), {"change": 512}),
        "short": Scale(STEPS, 3, {"preset": "noisy", "num_envs": 16}, tuple(METHODS), env={"change": STEPS // 2}),
    },
    metrics={
        "cells": "grid cells entered after the change",
        "cells_before": "grid cells entered before it",
        "noise_share": "share of steps that show noise, after it",
        "bonus": "raw bonus after it",
        "return": "return of the task after it",
    },
    score=score,
    mixer={"weight": 0.3, "scale": "unit"},
    lower_is_better=("noise_share",),
    unranked=("bonus",),
)  # fmt: skip
