"""Families of noise, one at a time, in a world of rooms: noise that is always on, and two worlds that only look noisy.

The paper has no such table. Decided once, for all methods: the agent of MountainCar's table (its observations scaled by
the densest half of their values, so that noise does not set the policy's scale), 8 environments, 100,000 steps: random
actions see about a sixth of the cells in that time, a good explorer nearly all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lpm.envs.rooms import Family, RoomsVector
from lpm.experiments.ablation import LGN_PARTS
from lpm.experiments.evidence import Frame, Score
from lpm.experiments.methods import ALL
from lpm.experiments.mountain_car import AGENT, SMALL_AGENT
from lpm.experiments.pictures import rendered
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average

CLEAN = "none"
LABELS: dict[Family, str] = {
    "none": "no noise",
    "action": "noise action",
    "sequence": "sequence action",
    "video": "video",
    "half": "half noise",
    "small": "small noise",
    "place": "noise by place",
    "room": "noisy rooms",
    "sticky": "sticky actions",
    "dynamics": "mirrored rooms",
    "doors": "doors of chance",
}
WORLD = RoomsVector()  # for its floor; every family has the same
DESK = ("lgn", "lpm-slow", "rnd", "none", "random")


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Cells seen, and the share of steps that showed noise."""
    return {"cells": float(np.count_nonzero(visits)), **average(curves, "noise_share")}


def kept(scores: Sequence[Score]) -> tuple[Score, ...]:
    """Cells seen in each family, in percent of those the same seed saw without noise."""
    found = {(s.condition, s.method): s.values for s in scores if s.metric == "cells"}
    shares = []
    for (condition, method), noisy in found.items():
        clean = found.get((CLEAN, method), {})
        values = {seed: 100 * noisy[seed] / clean[seed] for seed in noisy if clean.get(seed)}
        if values and condition != CLEAN:
            shares.append(Score(condition, "kept", method, values))
    return tuple(shares)


def grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """The floor from above, nothing where there are walls."""
    floor = np.full(WORLD.free.shape, np.nan)
    floor[WORLD.free] = visits
    return floor


def frames() -> tuple[Frame, ...]:
    """The rooms, and what the agent sees of them."""
    cases = {"The rooms; beside them what the agent sees": {}, "With noise in every other room": {"noise": "room"}}
    return rendered("lpm/Rooms-v0", cases, steps=100)


EXPERIMENT = TrainingExperiment(
    name="families",
    title="Rooms: coverage under families of noise",
    place="not in the paper",
    about=(
        "Sixteen rooms joined by doors; the agent sees its place and nothing pays. The score is how many cells "
        "training has visited. Each condition is a family of noise: some that the agent can choose to watch, some "
        "always on, and two worlds that only look noisy (moves that differ from room to room, doors that are a matter "
        "of luck), where a bonus that shuns what it cannot predict would stay at home.",
        "Kept is the coverage in percent of what the same seed reaches without noise.",
    ),
    env_id="lpm/Rooms-v0",
    algo="ppo",
    variants={name: Condition(label, {"noise": name}) for name, label in LABELS.items()},
    methods={**ALL, **LGN_PARTS},
    sizes={
        "smoke": Scale(512, 2, SMALL_AGENT, ("lgn", "none", "random"), (CLEAN, "half", "doors")),
        "desk": Scale(100_000, 3, AGENT, DESK),
        "paper": Scale(300_000, 10, AGENT, tuple(ALL)),
    },
    metrics={
        "cells": f"cells visited (of {WORLD.num_cells})",
        "kept": "kept of the coverage without noise [%]",
        "noise_share": "share of steps on the noise",
        "bonus": "raw bonus",
    },
    score=score,
    grid=grid,
    frames=frames,
    derived=kept,
    lower_is_better=("noise_share",),
)
