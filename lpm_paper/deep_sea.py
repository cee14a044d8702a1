"""DeepSea of bsuite, beyond the paper: how the steps to the only reward grow with the size of the grid.

A random policy finds the reward once in 2^N episodes of N steps. The scale is "bonus" (see docs/environments.md).
"""

import math

from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment
from lpm_paper.methods import ALL
from lpm_paper.minigrid import AGENT, score

METHODS: dict[str, Method] = {
    "lgn": ALL["lgn"],
    "lgn-256": Method("LGN, 256 features", "lgn", {"features": 256}),
    "lgn_lifelong": Method("LGN, lifelong", "lgn_lifelong"),
    "count": Method("Count", "count"),
    "rnd": ALL["rnd"],
    "none": ALL["none"],
}

EXPERIMENT = TrainingExperiment(
    name="deep-sea",
    title="DeepSea: steps to the only reward",
    place="beyond the paper",
    about=(
        "A grid of N × N through which the agent falls, one row a step. Moving right costs a little, and only N moves "
        "to the right lead to the reward. Which action that is differs from cell to cell. No noise.",
        "Solved: 90 % of the last 100 episodes end with the reward. A run that never gets there counts with all steps.",
    ),
    env_id="lpm/DeepSea-v0",
    algo="ppo",
    variants={f"size-{n}": Condition(f"N = {n}", {"size": n}) for n in (10, 20, 30, 40)},
    methods=METHODS,
    sizes={
        "smoke": Scale(512, 2, {**AGENT, "num_envs": 4, "rollout_steps": 32}, ("lgn", "none"), ("size-10",)),
        "short": Scale(100_000, 5, AGENT, tuple(METHODS)),
    },
    metrics={"steps_90": "steps until 90 % of the episodes succeed", "success": "success, last 100 episodes"},
    score=score,
    mixer={"weight": 0.1, "scale": "bonus"},
    lower_is_better=("steps_90",),
    unreached={"success": 0.0, "steps_90": math.inf},
)
