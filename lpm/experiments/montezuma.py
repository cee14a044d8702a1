"""Montezuma's Revenge (the paper's Figure 5): score, bonus over time, and places reached.

The paper's LPM there is the release's variant on random features ("lpm-rnd" below); LPM itself is run beside it. PPO
as in Atari on 128 environments, the bonus alone, without an end of episode for it, as the release's script has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lpm.agents import MixerConfig, PPOConfig
from lpm.agents.ppo import PRESETS
from lpm.experiments.evidence import Claim, Frame
from lpm.experiments.experiment import Method
from lpm.experiments.methods import ALL
from lpm.experiments.pictures import rendered
from lpm.experiments.training import Condition, Scale, TrainingExperiment, last

FIGURE = "Figure 5"
METHODS = {
    "lpm-rnd": Method("LPM on random features (release)", "lpm_release", {"variant": "release-montezuma"}),
    **ALL,
}
MAIN = ("lpm-rnd", "lpm", "rnd", "ngu", "none", "random")
SMALL = {"dynamics_steps": 4, "error_steps": 4, "batch_size": 256, "warmup": 512}
BONUS: dict[str, dict[str, int]] = {name: {"epochs": 1} for name in ("rnd", "ngu")}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The mean score of the last 100 episodes, and how many places (x, y, room) were reached."""
    return {**last(curves, "return"), **last(curves, "cells")}


def frames() -> tuple[Frame, ...]:
    """The first room."""
    return rendered("lpm/Atari-v0", {"The first room": {"game": "montezuma_revenge"}}, steps=30)


EXPERIMENT = TrainingExperiment(
    name="montezuma",
    title="Montezuma's Revenge: score, bonus and places reached",
    place=FIGURE,
    about=(
        "A game whose first reward takes about a hundred right actions. Places are (x, y, room), read from the "
        "console's memory.",
        "The paper reports that LPM scores within 20 million steps and RND within 50 million. Neither fits a machine "
        "without a GPU: the desk size shows places reached in the first steps only.",
    ),
    env_id="lpm/Atari-v0",
    algo="ppo",
    variants={"clean": Condition("the game as it is", {"game": "montezuma_revenge", "idle_actions": 0})},
    methods=METHODS,
    sizes={
        "smoke": Scale(
            64,
            1,
            PPOConfig(num_envs=2, rollout_steps=16, epochs=1, episodic_bonus=False),
            ("rnd", "none"),
            bonus=BONUS,
        ),
        "desk": Scale(
            16_000,
            3,
            PPOConfig(num_envs=8, rollout_steps=64, epochs=3, learning_rate=2.5e-4, clip=0.1, episodic_bonus=False),
            ("lpm-rnd", "rnd", "random"),
            bonus=BONUS | dict.fromkeys(("lpm", "lpm_release"), SMALL),
        ),
        "paper": Scale(
            200_000_000,
            3,
            replace(PRESETS["paper-atari"], num_envs=128, episodic_bonus=False),
            MAIN,
            bonus=BONUS,
        ),
    },
    metrics={"return": "score", "cells": "places reached", "bonus": "raw bonus"},
    score=score,
    mixer=MixerConfig(extrinsic_weight=0.0, clip=3.0),
    claims=(
        Claim("LPM reaches more than RND", FIGURE, "clean", "cells", "lpm-rnd", "rnd"),
        Claim("LPM scores more than RND", FIGURE, "clean", "return", "lpm-rnd", "rnd"),
    ),
    frames=frames,
)
