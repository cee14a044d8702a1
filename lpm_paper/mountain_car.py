"""MountainCar (the paper's Table 2): coverage of 100 bins of position and velocity, without and with a noise action.

The paper gives neither agent nor budget. Decided once, for all methods: PPO with the library's settings and a constant
learning rate (a decaying one would fade exploration out by itself), 8 environments, 60,000 steps: about four times
what a good explorer needs to see nine tenths of the bins, so that both slow and fast methods can be told apart. The
policy's observations are scaled by the densest half of their values: half of what an untrained agent sees is noise on
[-1, 1], and divided by the standard deviation of that, a velocity within ±0.07 is next to nothing. With it a policy
cannot tell how fast the car is: even a bonus that counts visits to the true bins and gives noise nothing then
reaches 61 of 100 (3 seeds), and 85 with the robust scale (6 seeds).
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Claim, PaperNumber, Score
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average, cells_seen, last, mountain_car_grid
from lpm_paper.methods import ALL

AGENT = {"preset": "published-noisy"}
SMALL_AGENT = {**AGENT, "num_envs": 4, "rollout_steps": 32}
TABLE = "Table 2"
# of the others, ICM differs from IDF by one constant, and NGU is about episodes that end
MAIN = tuple(name for name in ALL if name not in ("icm", "ngu", "lgn-first"))
CONDITIONS = {
    "deterministic": Condition("no noise", {"noise": False}),
    "stochastic": Condition("noise action", {"noise": True}),
}

# Mean and std of the paper, in percent of 100 bins: deterministic, stochastic.
_COVERAGE = {
    "lpm": ((76.50, 9.08), (67.04, 14.60)),
    "ensemble": ((91.22, 2.04), (61.02, 5.03)),
    "rnd": ((45.50, 14.53), (28.00, 10.10)),
    "ama": ((33.00, 12.31), (13.20, 4.62)),
    "etd": ((82.16, 13.57), (53.52, 10.53)),
    "eme": ((89.16, 3.40), (32.46, 11.31)),
    "idf": ((90.92, 5.13), (12.80, 3.19)),
}
_DROP = {"lpm": 12.4, "ensemble": 33.1, "rnd": 38.5, "ama": 60.0, "etd": 34.9, "eme": 63.6, "idf": 85.9}
PAPER = {
    (condition, "cells", method): PaperNumber(mean, std, TABLE, seeds=5)
    for method, numbers in _COVERAGE.items()
    for condition, (mean, std) in zip(CONDITIONS, numbers, strict=True)
}


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Bins seen, and the share of steps that showed noise."""
    return {**cells_seen(curves, visits), **average(curves, "noise_share"), **last(curves, "return")}


def drop(scores: Sequence[Score]) -> tuple[Score, ...]:
    """How much coverage is lost to the noise action, in percent, as the paper has it: 1 - mean with / mean without.

    A ratio of means has no value per seed. What stands for one is the seed's share in it to first order, so that the
    mean over seeds is the ratio exactly, and a bootstrap over seeds gives the ratio's interval. The mean of each seed's
    own ratio is another number: one seed that stays at home without noise (10 bins, 60 with it) would rule it.
    """
    found = {(s.condition, s.method): s for s in scores if s.metric == "cells"}
    drops = []
    for method in dict.fromkeys(method for _, method in found):
        pair = [found.get((condition, method)) for condition in CONDITIONS]
        if pair[0] is None or pair[1] is None:
            continue
        clean, noisy = pair[0].values, pair[1].values
        seeds = sorted({*clean, *noisy})
        base, mean = fmean(clean.values()), fmean(noisy.values())
        # a seed that only one condition has is a share of that mean only, and the fewer there are the larger
        moved = {
            seed: len(seeds)
            * ((noisy.get(seed, mean) - mean) / len(noisy) - mean / base * (clean.get(seed, base) - base) / len(clean))
            for seed in seeds
        }
        values = {seed: 100 * (1 - (mean + moved[seed]) / base) for seed in seeds}
        paper = PaperNumber(_DROP[method], place=TABLE, seeds=5) if method in _DROP else None
        ended = tuple(sorted({*pair[0].diverged, *pair[1].diverged}))
        drops.append(Score("stochastic", "drop", method, values, paper, ended, of_means=True))
    return tuple(drops)


EXPERIMENT = TrainingExperiment(
    name="mountain-car",
    title="MountainCar: coverage with and without a noise action",
    place=TABLE,
    about=(
        "A car in a valley must swing to reach either end. Its two-dimensional state is divided into a grid of 100 "
        "cells; the score is how many of them training has visited. In the stochastic variant a second action "
        "dimension above zero freezes the car and shows a random observation: a noisy TV.",
        "The paper states neither agent nor budget, so its numbers can be compared in order, not in size.",
    ),
    env_id="lpm/MountainCar-v0",
    algo="ppo",
    variants=CONDITIONS,
    methods=ALL,
    sizes={
        "smoke": Scale(512, 2, SMALL_AGENT, ("lpm", "rnd", "none", "random")),
        "short": Scale(60_000, 10, AGENT, MAIN),
        "paper": Scale(200_000, 10, AGENT, MAIN),
    },
    metrics={
        "cells": "grid cells visited (of 100)",
        "drop": "drop: 1 − mean with noise / mean without [%]",
        "noise_share": "share of steps on the noise",
        "bonus": "raw bonus",
        "return": "return of the task",
    },
    score=score,
    paper=PAPER,
    claims=(
        *(
            Claim(f"LPM covers more than {ALL[other].label} under noise", TABLE, "stochastic", "cells", "lpm", other)
            for other in ("ensemble", "rnd", "ama", "etd", "eme", "idf")
        ),
        Claim("Without noise the ensemble covers more than LPM", TABLE, "deterministic", "cells", "ensemble", "lpm"),
        Claim("Without noise LPM covers more than RND", TABLE, "deterministic", "cells", "lpm", "rnd"),
    ),
    grid=mountain_car_grid,
    derived=drop,
    lower_is_better=("drop", "noise_share"),
)
