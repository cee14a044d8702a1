"""What each part of LGN contributes: changed in one place at a time, in rooms and corridors.

The world and the agent are those of the suite's rooms, where noise of every family can be told apart and actions are
discrete. On MountainCar three seeds cannot tell the parts apart.
"""

from __future__ import annotations

from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment
from lpm.suite.environments import ROOMS, ROOMS_AGENT
from lpm_paper.maze import score
from lpm_paper.methods import ADDED

FIRST = "lpm_paper.lgn_first:LGNFirst"
"""The form of LGN whose parts were measured."""
NETWORKS = "lpm_paper.lgn_forms:LGNWithNetworks"
PARTS = {
    "lgn": Method("LGN", FIRST),
    "gate-off": Method("no gate", FIRST, {"gate": False}),
    "power-0.5": Method("square root of the gate", FIRST, {"power": 0.5}),
    "power-2": Method("square of the gate", FIRST, {"power": 2.0}),
    "denoise-none": Method("distances with the noise", FIRST, {"denoise": "none"}),
    "denoise-direction": Method("distances without noisy directions", FIRST, {"denoise": "direction"}),
    "neither": Method("no gate, distances with the noise", FIRST, {"gate": False, "denoise": "none"}),
    "units-none": Method("distances of plain features", FIRST, {"units": "none"}),
    "units-variance": Method("distances in units of variance", FIRST, {"units": "variance"}),
    "reach-2": Method("new beyond 2 steps", FIRST, {"reach": 2.0}),
    "memory-episodic": Method("memory of the episode", FIRST, {"memory": "episodic"}),
    "memory-lifelong": Method("memory of the run", FIRST, {"memory": "lifelong"}),
    "memory-256": Method("256 states remembered", FIRST, {"memory_size": 256}),
    "memory-4096": Method("4,096 states remembered", FIRST, {"memory_size": 4096}),
    "regression-joint": Method("one regression for all actions", FIRST, {"regression": "joint"}),
    "fourier-0": Method("f and g linear", FIRST, {"fourier": 0}),
    "fourier-64": Method("64 Fourier features", FIRST, {"fourier": 64}),
    "networks": Method("f and g networks, 16 gradient steps", NETWORKS),
    "networks-1": Method("f and g networks, 1 gradient step", NETWORKS, {"steps": 1}),
    "prior-zero": Method("f expects nothing, not persistence", FIRST, {"prior": "zero"}),
    "ridge-0.5": Method("ridge 0.5", FIRST, {"ridge": 0.5}),
    "ridge-50": Method("ridge 50", FIRST, {"ridge": 50.0}),
    "horizon-1000": Method("errors fade in 1,000 steps", FIRST, {"horizon": 1e3}),
    "horizon-100000": Method("errors fade in 100,000 steps", FIRST, {"horizon": 1e5}),
}
"""The kind and number of features matter for images only: `lgn_features.py`."""
REFERENCES = {name: ADDED[name] for name in ("none", "random", "oracle")}
METHODS = {**PARTS, **REFERENCES}
NOISE = {
    "none": "no noise",
    "action": "noise action",
    "video": "video",
    "half": "half noise",
    "place": "noise by place",
    "dynamics": "mirrored rooms",
}


EXPERIMENT = TrainingExperiment(
    name="lgn-parts",
    not_ranked="compares settings of one method",
    title="LGN: what each part contributes",
    place="beyond the paper",
    about=(
        "Six rooms and their corridors, the agent sees its position; no reward: the score is the number of cells "
        "visited. LGN is changed in one place at a time: the gate, what distances leave out and are measured in, what "
        "is remembered, and the two regressions.",
        "Noise: an action that shows white noise; a video that restarts at random beside the position; half of what is "
        "seen white noise; noise that grows with the place; rooms in which actions do the opposite.",
    ),
    env_id="lpm/Rooms-v0",
    algo="ppo",
    variants={noise: Condition(label, {"noise": noise}) for noise, label in NOISE.items()},
    methods=METHODS,
    sizes={
        "smoke": Scale(4_096, 2, ROOMS_AGENT, ("lgn", "gate-off", "random"), ("none", "half"), ROOMS),
        "desk": Scale(40_960, 3, ROOMS_AGENT, tuple(METHODS), None, ROOMS),
    },
    metrics={"cells": "cells visited", "noise_share": "share of steps on the noise"},
    score=score,
    lower_is_better=("noise_share",),
)
