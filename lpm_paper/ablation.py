"""What LPM is made of, one part at a time, on MountainCar.

Reward form, error model, queue length, update ratio. Of the slow copy: floor, decay, replay, scale of the observations.
LGN's parts are in `lgn_parts.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from lpm.experiments.evidence import Claim, Score
from lpm.experiments.experiment import Method
from lpm.experiments.training import Scale, TrainingExperiment, mountain_car_grid
from lpm_paper import mountain_car

ROLLOUT = 8 * 128  # the preset's
LPM_PARTS = {
    "lpm": Method("LPM: log, one rollout, 16 : 16", "lpm"),
    "linear": Method("form: linear", "lpm_release", {"form": "linear"}),
    "exp": Method("form: exp", "lpm_release"),
    "pointwise-1": Method("no g: snapshot 1 update old", "pointwise", {"lag": 1}),
    "pointwise-3": Method("no g: snapshot 3 updates old", "pointwise", {"lag": 3}),
    "pointwise-10": Method("no g: snapshot 10 updates old", "pointwise", {"lag": 10}),
    "anchored": Method("g: anchored to its prior", "lpm_anchored"),
    "anchored-exp": Method("g: anchored, form: exp", "lpm_anchored", {"form": "exp"}),
    "queue-quarter": Method("queue: ¼ rollout", "lpm", {"queue_size": ROLLOUT // 4}),
    "queue-4": Method("queue: 4 rollouts", "lpm", {"queue_size": 4 * ROLLOUT}),
    "ratio-16-4": Method("steps of f : g = 16 : 4", "lpm", {"error_steps": 4}),
    "ratio-4-16": Method("steps of f : g = 4 : 16", "lpm", {"dynamics_steps": 4}),
    "slow": Method("g: slow copy of f", "lpm_slow"),
    "slow-linear": Method("slow copy, form: linear", "lpm_slow", {"form": "linear"}),
    "slow-floor-0.01": Method("slow copy, floor 0.01", "lpm_slow", {"relative_floor": 0.01}),
    "slow-floor-0.3": Method("slow copy, floor 0.3", "lpm_slow", {"relative_floor": 0.3}),
    "slow-floor-1": Method("slow copy, floor 1", "lpm_slow", {"relative_floor": 1.0}),
    "slow-floor-4": Method("slow copy, floor 4", "lpm_slow", {"relative_floor": 4.0}),
    "slow-decay-0.5": Method("slow copy, decay 0.5", "lpm_slow", {"copy_decay": 0.5}),
    "slow-decay-0.8": Method("slow copy, decay 0.8", "lpm_slow", {"copy_decay": 0.8}),
    "slow-decay-0.97": Method("slow copy, decay 0.97", "lpm_slow", {"copy_decay": 0.97}),
    "slow-replay-all": Method("slow copy, f on all of B", "lpm_slow", {"replay": "all"}),
    "slow-standard": Method("slow copy, mean and std", "lpm_slow", {"normalise": "standard"}),
}
METHODS = {
    **LPM_PARTS,
    "none": Method("no bonus", "none"),
}


def drop(scores: Sequence[Score]) -> tuple[Score, ...]:
    """As on MountainCar; the paper's number for LPM is judged there, not twice."""
    return tuple(replace(score, paper=None) for score in mountain_car.drop(scores))


EXPERIMENT = TrainingExperiment(
    name="ablation",
    not_ranked="compares settings of one method",
    title="Ablation: what each part of LPM contributes",
    place="Section 3, Theorem 2",
    about=(
        "MountainCar as in its own table. LPM, changed in one place at a time: the form of the reward, the error model "
        "against a snapshot of the dynamics model (Theorem 2 asks for an expectation, which a snapshot is not), how "
        "many rollouts of errors the queue holds, and how many gradient steps f and g take for each update.",
        "Then the slow copy: the floor under its errors, how slowly it follows, what f is trained on, and "
        "observations scaled by mean and standard deviation instead of by their densest half.",
    ),
    env_id=mountain_car.EXPERIMENT.env_id,
    algo="ppo",
    variants=mountain_car.CONDITIONS,
    methods=METHODS,
    sizes={
        "smoke": Scale(512, 2, mountain_car.SMALL_AGENT, ("lpm", "exp", "pointwise-3")),
        "short": Scale(60_000, 3, mountain_car.AGENT, tuple(m for m in METHODS if m != "none")),
        "paper": Scale(200_000, 10, mountain_car.AGENT, tuple(METHODS)),
    },
    metrics={name: label for name, label in mountain_car.EXPERIMENT.metrics.items() if name != "return"},
    score=mountain_car.score,
    claims=tuple(
        Claim(f"The error model beats a snapshot {lag} old under noise", "Theorem 2", "stochastic", "cells", "lpm",
              f"pointwise-{lag}")
        for lag in (1, 3, 10)
    ),
    grid=mountain_car_grid,
    derived=drop,
    lower_is_better=("drop", "noise_share"),
)  # fmt: skip
