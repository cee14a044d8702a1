"""Montezuma's Revenge (the paper's Figure 5): score, bonus over time, places and rooms reached.

The paper's LPM there is the release's variant on random features ("lpm-rnd" below); LPM itself is run beside it. PPO
as in Atari on 128 environments, the bonus alone, without an end of episode for it, as the release's script has it. The
short and long sizes have the small screen and network of Atari's; the condition "reward" adds the
game's clipped reward.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lpm.envs.atari import rooms_of
from lpm.experiments.evidence import Claim
from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment, last
from lpm_paper.atari import SMALL_AGENT, SMALL_BONUS, SMALL_ENV
from lpm_paper.methods import ALL

FIGURE = "Figure 5"
METHODS = {
    "lpm-rnd": Method("LPM on random features (release)", "lpm_release", {"variant": "release-montezuma"}),
    **ALL,
}
MAIN = ("lpm-rnd", "lpm", "rnd", "ngu", "none", "random")
SHORT = ("lgn", "lpm-rnd", "lpm-slow", "rnd", "random", "cell_counts")
BONUS: dict[str, dict[str, int]] = {name: {"epochs": 1} for name in ("rnd", "ngu")}
SMALL_AGENT_MONTEZUMA = {**SMALL_AGENT, "episodic_bonus": False}
# f and g as often as Atari's; the release's form reads random features and shares no encoder
RELEASE = {"dynamics_steps": 4, "error_steps": 4, "batch_size": 256, "warmup": 512}
SMALL = {**SMALL_BONUS, "ngu": BONUS["ngu"], "lpm_release": RELEASE}
GAME = {"game": "montezuma_revenge", "idle_actions": 0}
ALONE = {"extrinsic_weight": 0.0, "clip": 3.0}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The mean score of the last 100 episodes, and how many places (x, y, room) and rooms were reached."""
    rooms = {"rooms": float(len(np.unique(rooms_of(np.flatnonzero(visits)))))} if len(visits) else {}
    return {**last(curves, "return"), **last(curves, "cells"), **rooms}


EXPERIMENT = TrainingExperiment(
    name="montezuma",
    title="Montezuma's Revenge: score, bonus and places reached",
    place=FIGURE,
    about=(
        "A game whose first reward takes about a hundred right actions. Places are (x, y, room), read from the "
        "console's memory.",
        "The paper reports that LPM scores within 20 million steps and RND within 50 million. Neither fits a machine "
        "without a GPU: the short and long sizes show places and rooms reached in the first steps only.",
    ),
    env_id="lpm/Atari-v0",
    algo="ppo",
    variants={
        "clean": Condition("bonus alone", GAME),
        "reward": Condition("bonus and clipped reward", GAME, {"clip": 3.0, "clip_task": 1.0}),
    },
    methods=METHODS,
    sizes={
        "smoke": Scale(64, 1, {"num_envs": 2, "rollout_steps": 16, "epochs": 1, "episodic_bonus": False},
                       ("rnd", "none"), ("clean",), bonus=BONUS),
        "short": Scale(100_000, 3, SMALL_AGENT_MONTEZUMA, SHORT, ("clean",), SMALL_ENV, SMALL),
        "long": Scale(500_000, 3, SMALL_AGENT_MONTEZUMA, SHORT, None, SMALL_ENV, SMALL),
        "paper": Scale(200_000_000, 3, {"preset": "paper-atari", "num_envs": 128, "episodic_bonus": False}, MAIN,
                       ("clean",), bonus=BONUS),
    },
    metrics={"cells": "places reached", "rooms": "rooms reached", "return": "score", "bonus": "raw bonus"},
    score=score,
    mixer=ALONE,
    claims=(
        Claim("LPM reaches more than RND", FIGURE, "clean", "cells", "lpm-rnd", "rnd"),
        Claim("LPM scores more than RND", FIGURE, "clean", "return", "lpm-rnd", "rnd",
              paper_size="first scores after 20 million steps, of which 100,000 were run"),
    ),
    unreached={"cells": 0.0, "rooms": 0.0, "return": 0.0},
)  # fmt: skip
