"""Atari (the paper's Figure 4): scores of three games, as they are and with idle actions that show photographs.

The paper size is PPO as in the paper, on 84 × 84 pixels. The weight of the bonus is not in the paper (the release sets
it to 0); there it is 0.1 after normalisation for every method, beside the unclipped reward of the game.

The short and long sizes are for one core: 42 × 42 pixels, the four 3 × 3 convolutions of 32 that ICM has for them in
policy and bonuses alike, 16 environments. Decided once, for all methods: the game's reward clipped to ±1 plus the
normalised bonus at weight 1 (RND: 2 and 1), because the paper scores games, and because unclipped points, tens at a
time, drown any normalised bonus; scores are the unclipped ones. In the conditions "…-bonus" the bonus is the only
reward: nothing else decides whether the agent watches the photographs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Claim, PaperNumber, Score
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average, last
from lpm_paper.methods import ALL

FIGURE = "Figure 4"
GAMES = {"space_invaders": "Space Invaders", "ms_pacman": "Ms Pacman", "up_n_down": "UpNDown"}
PAIRS = tuple(name + noise for name in GAMES for noise in ("", "-noise"))
METHODS = ("lpm", "lpm-exp", "icm", "rnd", "ensemble", "ama", "eme", "etd", "none", "random")
MAIN = ("lgn", "lpm", "lpm-slow", "rnd", "eme", "none", "random")
# The paper's networks; one pass over the new transitions in the batches of PPO, for every method.
BONUS = {
    name: {"epochs": 1, "batch_size": 256} for name in ("rnd", "icm", "ensemble", "ama", "eme", "etd", "forward_error")
} | {name: {"dynamics_steps": 4, "error_steps": 4, "shared_encoder": True} for name in ("lpm", "lpm_release")}
SMALL_BONUS = BONUS | {"lpm_slow": {"dynamics_steps": 4}}
SMALL_AGENT = {
    "num_envs": 16, "epochs": 3, "minibatches": 8, "learning_rate": 2.5e-4, "learning_rate_schedule": "constant",
    "clip": 0.1, "network": {"features": 256},
}  # fmt: skip
SMALL_ENV = {"size": 42, "num_threads": 1}
CLIPPED = {"clip_task": 1.0}
BONUS_ALONE = {"extrinsic_weight": 0.0}

PAPER_SIZE = "a score after 50 million steps, of which 100,000 were run"

# Section 5.4, in words: the score with noise beside the score without, in percent.
_CHANGE = {
    ("space_invaders", "lpm"): -3.9,
    ("up_n_down", "lpm"): -4.7,
    ("ms_pacman", "lpm"): 0.3,
    ("space_invaders", "eme"): -100.0,
}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The mean score of the last 100 episodes, and the share of steps on the noise."""
    return {**last(curves, "return"), **average(curves, "noise_share")}


def change(scores: Sequence[Score]) -> tuple[Score, ...]:
    """The score with noise beside the score without, in percent more or less, seed by seed."""
    found = {(s.condition, s.method): s for s in scores if s.metric == "return"}
    changes = []
    for (condition, method), noisy in found.items():
        clean = found.get((condition.removesuffix("-noise"), method)) if condition.endswith("-noise") else None
        if clean is None:
            continue
        values = {s: 100 * (noisy.values[s] / clean.values[s] - 1) for s in noisy.values if clean.values.get(s)}
        theirs = _CHANGE.get((condition.removesuffix("-noise"), method))
        paper = None if theirs is None else PaperNumber(theirs, None, "Section 5.4", 128, PAPER_SIZE)
        if values:
            ended = tuple(seed for seed in values if seed in (*noisy.diverged, *clean.diverged))
            changes.append(Score(condition, "change", method, values, paper, ended))
    return tuple(changes)


EXPERIMENT = TrainingExperiment(
    name="atari",
    title="Atari: scores with and without noise actions",
    place=FIGURE,
    about=(
        "Each game has two more actions that do nothing; in the noisy variant they replace the frame by a random "
        "photograph. The score is the mean over the last 100 training episodes, as the emulator counts it.",
        "The paper's figure has no numbers; its text says by how much scores change with noise. The release's budget "
        "is 50 million steps a run on 64 environments, and its code multiplies every bonus but AMA's by 0. The short "
        "and long sizes have 42 × 42 pixels, a small network, clipped rewards, and a five-hundredth and a hundredth "
        "of the steps.",
    ),
    env_id="lpm/Atari-v0",
    algo="ppo",
    # each game with and without noise; with the game's reward, and with the bonus alone
    variants={
        name + alone + noise: Condition(
            f"{title}{', bonus alone' if alone else ''}{', noise actions' if noise else ''}",
            {"game": name, "noise": bool(noise)},
            BONUS_ALONE if alone else None,
        )
        for alone in ("", "-bonus")
        for name, title in GAMES.items()
        for noise in ("", "-noise")
    },
    methods=ALL,
    sizes={
        "smoke": Scale(64, 1, {"num_envs": 2, "rollout_steps": 16, "epochs": 1, "minibatches": 2}, ("rnd", "none"),
                       ("ms_pacman", "ms_pacman-noise"), bonus=BONUS),
        "short": Scale(100_000, 3, SMALL_AGENT, MAIN, PAIRS, SMALL_ENV, SMALL_BONUS, CLIPPED),
        "long": Scale(500_000, 3, SMALL_AGENT, MAIN, PAIRS, SMALL_ENV, SMALL_BONUS, CLIPPED),
        "paper": Scale(50_000_000, 5, {"preset": "paper-atari"}, METHODS, PAIRS, bonus=BONUS),
    },
    metrics={
        "return": "score",
        "change": "score with noise beside the score without [%]",
        "noise_share": "share of steps on the noise",
        "bonus": "raw bonus",
    },
    score=score,
    mixer={"weight": 0.1},
    claims=tuple(
        Claim(f"LPM scores more than {ALL[other].label} in {title} with noise", FIGURE, f"{game}-noise", "return",
              "lpm", other, PAPER_SIZE)
        for game, title in GAMES.items()
        for other in ("rnd", "eme")
    ),
    derived=change,
    lower_is_better=("noise_share",),
    unranked=("change",),
    unreached={"return": 0.0},
)  # fmt: skip
