"""Atari (the paper's Figure 4): scores of three games, as they are and with idle actions that show photographs.

PPO as in the paper. The weight of the bonus is not in the paper (the release sets it to 0); here it is 0.1 after
normalisation for every method, beside the unclipped score of the game divided by nothing. Rewards are a game's own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lpm.agents import MixerConfig, PPOConfig
from lpm.agents.ppo import PRESETS
from lpm.experiments.evidence import Claim, Frame
from lpm.experiments.methods import ALL
from lpm.experiments.pictures import rendered
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average, last

FIGURE = "Figure 4"
GAMES = {"space_invaders": "Space Invaders", "ms_pacman": "Ms Pacman", "up_n_down": "UpNDown"}
METHODS = ("lpm", "lpm-exp", "icm", "rnd", "ensemble", "ama", "eme", "etd", "none", "random")
# The paper's networks; one pass over the new transitions in the batches of PPO, for every method.
BONUS = {
    name: {"epochs": 1, "batch_size": 256} for name in ("rnd", "icm", "ensemble", "ama", "eme", "etd", "forward_error")
} | {name: {"dynamics_steps": 4, "error_steps": 4, "shared_encoder": True} for name in ("lpm", "lpm_release")}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The mean score of the last 100 episodes, and the share of steps on the noise."""
    return {**last(curves, "return"), **average(curves, "noise_share")}


def frames() -> tuple[Frame, ...]:
    """The three games."""
    return rendered("lpm/Atari-v0", {title: {"game": game} for game, title in GAMES.items()}, steps=60)


EXPERIMENT = TrainingExperiment(
    name="atari",
    title="Atari: scores with and without noise actions",
    place=FIGURE,
    about=(
        "Each game has two more actions that do nothing; in the noisy variant they replace the frame by a random "
        "photograph. The score is the mean over the last 100 training episodes, as the emulator counts it.",
        "The paper's figure has no numbers. The release's budget is 50 million steps a run on 64 environments: the "
        "paper size does that, the desk size only shows that the whole path runs and what it costs.",
    ),
    env_id="lpm/Atari-v0",
    algo="ppo",
    variants={
        name + suffix: Condition(title + words, {"game": name, "noise": noise})
        for name, title in GAMES.items()
        for suffix, words, noise in (("", "", False), ("-noise", ", noise actions", True))
    },
    methods=ALL,
    sizes={
        "smoke": Scale(
            64,
            1,
            PPOConfig(num_envs=2, rollout_steps=16, epochs=1, minibatches=2),
            ("rnd", "none"),
            conditions=("ms_pacman", "ms_pacman-noise"),
            bonus=BONUS,
        ),
        "desk": Scale(
            2_048,
            2,
            PPOConfig(num_envs=8, rollout_steps=64, epochs=3, learning_rate=2.5e-4, clip=0.1, entropy=0.01),
            ("lpm", "rnd", "none"),
            conditions=("ms_pacman", "ms_pacman-noise"),
            env={"num_threads": 1},
            bonus=BONUS,
        ),
        "paper": Scale(50_000_000, 5, PRESETS["paper-atari"], METHODS, bonus=BONUS),
    },
    metrics={"return": "score", "noise_share": "share of steps on the noise", "bonus": "raw bonus"},
    score=score,
    mixer=MixerConfig(weight=0.1),
    claims=tuple(
        Claim(f"LPM scores more than {ALL[other].label} in {title} with noise", FIGURE, f"{game}-noise", "return",
              "lpm", other)
        for game, title in GAMES.items()
        for other in ("rnd", "eme")
    ),
    frames=frames,
)  # fmt: skip
