"""What LGN and LPM are made of, one part at a time, on MountainCar.

Of LGN: gate, memory, distances, regressions. Of LPM: reward form, error model, queue length, update ratio. Of the slow
copy: floor, decay, replay, scale of the observations.
"""

from __future__ import annotations

from lpm.experiments import mountain_car
from lpm.experiments.evidence import Claim
from lpm.experiments.experiment import Method
from lpm.experiments.training import Scale, TrainingExperiment

ROLLOUT = mountain_car.AGENT.num_envs * mountain_car.AGENT.rollout_steps
LGN_PARTS = {
    "lgn": Method("LGN", "lgn"),
    "lgn-gate-off": Method("LGN, no gate", "lgn", {"gate": False}),
    "lgn-power-0.5": Method("LGN, square root of the gate", "lgn", {"power": 0.5}),
    "lgn-power-2": Method("LGN, square of the gate", "lgn", {"power": 2.0}),
    "lgn-denoise-none": Method("LGN, distances with the noise", "lgn", {"denoise": "none"}),
    "lgn-units-none": Method("LGN, distances of plain features", "lgn", {"units": "none"}),
    "lgn-units-variance": Method("LGN, distances in units of variance", "lgn", {"units": "variance"}),
    "lgn-reach-1": Method("LGN, new beyond 1 step", "lgn", {"reach": 1.0}),
    "lgn-reach-2": Method("LGN, new beyond 2 steps", "lgn", {"reach": 2.0}),
    "lgn-reach-4": Method("LGN, new beyond 4 steps", "lgn", {"reach": 4.0}),
    "lgn-memory-episodic": Method("LGN, memory of the episode", "lgn", {"memory": "episodic"}),
    "lgn-memory-lifelong": Method("LGN, memory of the run", "lgn", {"memory": "lifelong"}),
    "lgn-memory-256": Method("LGN, 256 states remembered", "lgn", {"memory_size": 256}),
    "lgn-memory-4096": Method("LGN, 4,096 states remembered", "lgn", {"memory_size": 4096}),
    "lgn-fourier-0": Method("LGN, f and g linear", "lgn", {"fourier": 0}),
    "lgn-prior-zero": Method("LGN, f expects nothing, not persistence", "lgn", {"prior": "zero"}),
    "lgn-ridge-0.5": Method("LGN, ridge 0.5", "lgn", {"ridge": 0.5}),
    "lgn-ridge-50": Method("LGN, ridge 50", "lgn", {"ridge": 50.0}),
    "lgn-horizon-1000": Method("LGN, errors fade in 1,000 steps", "lgn", {"horizon": 1e3}),
    "lgn-horizon-100000": Method("LGN, errors fade in 100,000 steps", "lgn", {"horizon": 1e5}),
}
"""LGN changed in one place at a time. The width of φ is not here: it matters for images and vectors of more than 64
numbers only."""

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
    **LGN_PARTS,
    **LPM_PARTS,
    "none": Method("no bonus", "none"),
}

EXPERIMENT = TrainingExperiment(
    name="ablation",
    title="Ablation: what each part of LGN and LPM contributes",
    place="Section 3, Theorem 2",
    about=(
        "MountainCar as in its own table. First LGN, changed in one place at a time: the gate, what distances leave "
        "out and are measured in, what is remembered, and the two regressions. One regression for each action or for "
        "all is compared in the suite's rooms (`lpm suite lgn:regression=joint`), whose actions are discrete.",
        "Then LPM: the form of the reward, the error model against a snapshot of the dynamics model (Theorem 2 asks "
        "for an expectation, which a snapshot is not), how many rollouts of errors the queue holds, and how many "
        "gradient steps f and g take for each update.",
        "Last, the slow copy: the floor under its errors, how slowly it follows, what f is trained on, and "
        "observations scaled by mean and standard deviation instead of by their densest half.",
    ),
    env_id=mountain_car.EXPERIMENT.env_id,
    algo="ppo",
    variants=mountain_car.CONDITIONS,
    methods=METHODS,
    sizes={
        "smoke": Scale(
            512,
            2,
            mountain_car.SMALL_AGENT,
            ("lpm", "exp", "pointwise-3"),
        ),
        "desk": Scale(60_000, 3, mountain_car.AGENT, tuple(m for m in METHODS if m != "none")),
        "paper": Scale(200_000, 10, mountain_car.AGENT, tuple(METHODS)),
    },
    metrics={name: label for name, label in mountain_car.EXPERIMENT.metrics.items() if name != "return"},
    score=mountain_car.score,
    claims=tuple(
        Claim(f"The error model beats a snapshot {lag} old under noise", "Theorem 2", "stochastic", "cells", "lpm",
              f"pointwise-{lag}")
        for lag in (1, 3, 10)
    ),
    grid=mountain_car.grid,
    derived=mountain_car.drop,
    lower_is_better=("drop", "noise_share"),
)  # fmt: skip
