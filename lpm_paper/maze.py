"""The three-room maze (the paper's Figure 3): cells visited without noise, with a noise wall, with a noise action.

The agent is the paper's A2C: one environment, updates of 64 steps, γ 0.99, entropy 0.03, gradient norm 0.5. The short
size departs from it in two places, for all methods: advantages are standardised (the release standardises returns), and
the learning rate is 0.001, because with the paper's 0.01 the first ten updates throw the policy to a single action
whatever the bonus (gradient norms of a million). The bonus is divided by the running std of its return and has weight
1. Every bonus does one gradient step on the 64 new transitions (LPM: on 64 from its replay buffer, as in Algorithm 1).
The short size has the release's 80 × 60 pixels and fewer steps. The long size has all of the paper's 50,000 steps and
the short's agent: 80 × 60 pixels as released, and 160 × 120 as written in the conditions "…-large". With one gradient
step on 64 transitions f explains next to nothing in 10,000 steps: "lpm-8" gives f eight. Neither it nor the large
images are in a size's own sweep: name them. The paper size has the paper's settings as they stand.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Claim, PaperNumber
from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average, cells_seen, maze_grid
from lpm_paper.methods import ALL, RIVALS

FIGURE = "Figure 3"
PAPER_AGENT = {"preset": "paper-maze"}
SHORT_AGENT = {**PAPER_AGENT, "learning_rate": 1e-3, "normalise_advantage": True}
METHODS = tuple(name for name in ALL if name not in ("cell_counts", "lgn-first"))
MAIN = ("lgn", "lpm", "lpm-slow", "lpm-anchored", "rnd", "ensemble", "ama", "etd", "none", "random", *RIVALS)
EIGHT = {"lpm-8": Method("LPM, 8 steps of f", "lpm", {"dynamics_steps": 8})}
NOISE = {"none": "no noise", "state": "noise wall", "action": "noise action"}
LONG = (*MAIN[:8], "icm", "idf", "none", "random", "cell_counts")
AS_WRITTEN, AS_RELEASED = {"width": 160, "height": 120}, {"width": 80, "height": 60}
ONE_STEP = {"epochs": 1, "batch_size": 64}
# The paper's networks and one step an update, with the library's gates, affine output and queue of one update.
LPM = {"variant": "paper-miniworld", "gate_fitted": True, "affine": True, "queue_size": 64, "buffer_size": 16_384}
MODELS = ("rnd", "ensemble", "ama", "etd", "eme", "icm", "idf", "forward_error", "pointwise", "ngu", *RIVALS)
BONUS: dict[str, dict[str, Any]] = {
    "lpm": LPM,
    "lpm_release": LPM,
    "lpm_slow": {"variant": "miniworld", "buffer_size": 16_384},
    "lpm_anchored": {"variant": "miniworld", "queue_size": 64, "buffer_size": 16_384},
    "curiosity_critic": {**ONE_STEP, "critic_epochs": 1},
    **dict.fromkeys(MODELS, ONE_STEP),
}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Cells seen, and the share of steps that showed noise."""
    return {**cells_seen(curves, visits), **average(curves, "noise_share")}


EXPERIMENT = TrainingExperiment(
    name="maze",
    title="Maze: cells visited without noise, with a noise wall, with a noise action",
    place=FIGURE,
    about=(
        "Three rooms in the shape of an N, no reward: the score is the number of quarter-metre cells visited, of the "
        "2,176 that the paper counts (1,876 can be reached). One wall may show random pixels; the idle action may show "
        "a random photograph.",
        "The paper trains for 50,000 steps at 160 × 120 pixels. Uniformly random actions reach 1,392 cells in as many "
        "steps and 1,579 with the release's sticky actions, the paper's best method 1,434: read every number beside "
        "that of random actions at the same budget.",
    ),
    env_id="lpm/NMaze-v0",
    algo="a2c",
    variants={
        **{noise: Condition(label, {"noise": noise}) for noise, label in NOISE.items()},
        **{f"{noise}-large": Condition(f"{label}, 160 × 120", {"noise": noise, **AS_WRITTEN})
           for noise, label in NOISE.items()},
    },
    methods={**ALL, **EIGHT},
    sizes={
        "smoke": Scale(64, 2, {"num_envs": 2, "rollout_steps": 8}, ("lpm", "none", "random"), tuple(NOISE),
                       {"width": 48, "height": 36}, BONUS),
        "short": Scale(10_000, 10, SHORT_AGENT, MAIN, tuple(NOISE), {**AS_RELEASED, "threads": 1}, BONUS),
        "long": Scale(50_000, 5, SHORT_AGENT, LONG, tuple(NOISE), {**AS_RELEASED, "threads": 1}, BONUS),
        "paper": Scale(50_000, 10, PAPER_AGENT, METHODS, tuple(NOISE), AS_WRITTEN, BONUS),
    },
    metrics={
        "cells": "cells visited (of 2,176)",
        "noise_share": "share of steps on the noise",
        "bonus": "raw bonus",
        "entropy": "entropy of the policy",
    },
    score=score,
    paper={
        ("none", "cells", "etd"): PaperNumber(1276.1, place=FIGURE, seeds=10),
        ("state", "cells", "lpm"): PaperNumber(1434.0, place=FIGURE, seeds=10),
        ("action", "cells", "lpm"): PaperNumber(1340.0, place=FIGURE, seeds=10),
    },
    claims=tuple(
        Claim(f"LPM visits more cells than {ALL[other].label}, {words}", FIGURE, condition, "cells", "lpm", other)
        for condition, words in (("state", "with a noise wall"), ("action", "with a noise action"))
        for other in ("rnd", "ensemble", "ama", "etd")
    ),
    grid=maze_grid,
    lower_is_better=("noise_share",),
)  # fmt: skip
