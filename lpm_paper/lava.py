"""LavaCrossing (the paper's appendix on MiniGrid): how often PPO reaches the goal.

The paper shows success rates over 5 seeds without agent or budget. Decided once, for all methods: PPO with the
library's settings, 16 environments, 600,000 steps (PPO alone goes from 2 % to 100 % success within them; after
100,000 nobody has learnt anything), bonus weight 0.1 after normalisation. The task's reward is at most 1,
once, at the end; a normalised bonus of weight 1 at each of a hundred steps would drown it for every method alike.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Claim
from lpm.experiments.training import Condition, Scale, TrainingExperiment, known, last, square_grid
from lpm_paper.methods import ALL

FIGURE = "Appendix, MiniGrid figure"
AGENT = {"num_envs": 16, "learning_rate": 3e-4}
METHODS = ("lgn", "lpm", "lpm-slow", "lpm-anchored", "icm", "rnd", "ensemble", "ama", "etd", "eme", "none", "random",
           "cell_counts")  # fmt: skip


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Success over the last 100 episodes, its mean over the run, when it first was a half, and the task's return."""
    steps, successes = known(curves, "success")
    more = {"mean_success": float(np.mean(successes))} if steps else {}
    halfway = [step for step, value in zip(steps, successes, strict=True) if value >= 0.5]
    if halfway:
        more["half"] = float(halfway[0])
    return {**last(curves, "success"), **more, **last(curves, "return")}


EXPERIMENT = TrainingExperiment(
    name="lava",
    title="LavaCrossing: success rate of PPO",
    place=FIGURE,
    about=(
        "A grid with one river of lava and one crossing, another layout in every episode. Stepping into lava ends the "
        "episode; reaching the goal gives a reward of at most 1, less the later it comes. The score is the share of "
        "the last 100 training episodes that reached the goal.",
        "The paper's figure, success along training, has no numbers; its text says that ICM and LPM are alike and well "
        "above the rest. Claims are judged by the mean over the run: in the last 100 episodes the good ones are all "
        "near 1.",
    ),
    env_id="lpm/LavaCrossing-v0",
    algo="ppo",
    variants={"s9n1": Condition("9 × 9, one crossing", {"observation": "onehot"})},
    methods=ALL,
    sizes={
        "smoke": Scale(512, 2, {"num_envs": 4, "rollout_steps": 32}, ("lpm", "icm", "none")),
        "short": Scale(600_000, 5, AGENT, METHODS),
        "paper": Scale(1_000_000, 5, AGENT, METHODS),
    },
    metrics={
        "success": "success, last 100 episodes",
        "half": "steps until half of the episodes succeed",
        "mean_success": "success, mean over the run",
        "return": "return of the task",
        "bonus": "raw bonus",
    },
    score=score,
    mixer={"weight": 0.1},
    claims=tuple(
        Claim(f"{ALL[better].label} reaches the goal more often than {ALL[worse].label}", FIGURE, "s9n1",
              "mean_success", better, worse)
        for better in ("lpm", "icm")
        for worse in ("rnd", "ensemble", "ama", "etd", "eme")
    ),
    grid=square_grid,
    lower_is_better=("half",),
    unreached={"success": 0.0, "mean_success": 0.0, "half": math.inf, "return": 0.0},
)  # fmt: skip
