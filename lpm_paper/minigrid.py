"""MiniGrid, beyond the paper: how soon PPO with a bonus solves known tasks, clean and with two kinds of noise.

All methods share `lpm train`'s PPO and its defaults, weight 0.3 with both rewards on one scale, the view that
`lpm train MiniGrid-…` shows. MultiRoom-N4-S5-v0 is what rl-baselines3-zoo calls MultiRoom-N4-S5: minigrid 3.2 keeps it
as "legacy", it has six rooms; v1 has the four of its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment, average, known, last
from lpm.sweeps import Result
from lpm_paper.methods import ALL

AGENT = {"preset": "default"}
SOLVED = 0.9
"""Success of the last 100 episodes from which on a task counts as solved."""
EPISODES = 100
"""Episodes before which nothing is solved: one that succeeds by chance is not nine of ten."""
METHODS: dict[str, Method] = {
    "lgn": ALL["lgn"],
    "etd": Method("ETD", "etd"),
    "noveld": Method("NovelD", "noveld"),
    "deir": ALL["deir"],
    "re3": Method("RE3", "re3"),
    **{name: ALL[name] for name in ("rnd", "lpm", "lpm-slow", "none")},
}
TASKS: dict[str, tuple[str, int]] = {
    "doorkey-8x8": ("MiniGrid-DoorKey-8x8-v0", 100_000),
    "doorkey-16x16": ("MiniGrid-DoorKey-16x16-v0", 500_000),
    "multiroom-n4-s5": ("MiniGrid-MultiRoom-N4-S5-v0", 100_000),
    "multiroom-n4-s5-v1": ("MiniGrid-MultiRoom-N4-S5-v1", 100_000),
    "multiroom-n6": ("MiniGrid-MultiRoom-N6-v0", 300_000),
    "keycorridor-s3r3": ("MiniGrid-KeyCorridorS3R3-v0", 300_000),
    "keycorridor-s4r3": ("MiniGrid-KeyCorridorS4R3-v0", 1_000_000),
    "obstructedmaze-2dlh": ("MiniGrid-ObstructedMaze-2Dlh-v0", 2_000_000),
    "lockedroom": ("MiniGrid-LockedRoom-v0", 2_000_000),
}
"""Task to Gymnasium's id and the steps of a run."""
NOISE: dict[str, tuple[str, dict[str, object], float]] = {
    "": ("", {}, 1),
    "-flat": (", numbers", {"observation": "flat"}, 1.5),
    "-tv": (", TV", {"noise": "action"}, 1),
    "-gaussian": (", σ = 0.1", {"noise": "gaussian", "noise_std": 0.1}, 1.5),
}
"""Kind of noise to its label, the environment's arguments, and how much longer a run is. DEIR's noise is added to codes
as numbers; "-flat" has such numbers without noise."""
CONDITIONS = {
    task + noise: Condition(
        env_id.removeprefix("MiniGrid-").removesuffix("-v0") + label, env, None, env_id, round(longer * steps)
    )
    for task, (env_id, steps) in TASKS.items()
    for noise, (label, env, longer) in NOISE.items()
}
CONDITIONS["multiroom-n7-s4-ride"] = Condition(
    "MultiRoomNoisyTV-N7-S4", env_id="lpm/MultiRoomNoisyTV-N7-S4-v0", steps=500_000
)
DECISIVE = tuple(
    task + noise
    for task in ("doorkey-8x8", "multiroom-n4-s5", "keycorridor-s3r3", "multiroom-n6")
    for noise in ("", "-tv")
)


@dataclass(frozen=True)
class Published:
    """A number that others report."""

    task: str
    """As its authors call it."""
    method: str
    """Their bonus and learner."""
    value: str
    """With its unit; ≈: read off a figure."""
    source: str
    """Where it stands."""
    differs: str
    """What is not as here."""


_ZOO = ("PPO, no bonus", "rl-baselines3-zoo, benchmark.md", "flat observations, 10 million steps")
_RIDE = ("RIDE, Fig. 3", "IMPALA, frames to the plateau of the return, tens of millions of them")
_RLEXPLORE = ("RLeXplore", "each method at its best setting; the steps are not given")
PUBLISHED: tuple[Published, ...] = (
    Published("MultiRoom-N4-S5 (v0)", _ZOO[0], "return 0.000", *_ZOO[1:]),
    Published("ObstructedMaze-2Dlh", _ZOO[0], "return 0.000", *_ZOO[1:]),
    Published("LockedRoom", _ZOO[0], "return 0.000", *_ZOO[1:]),
    Published(
        "DoorKey-8x8", "DEIR, PPO", "return 0.908 at 122,880 frames", "DEIR, log in its README",
        "16 environments of 512 steps, the task's reward as it is, bonus × 0.01",
    ),
    Published("KeyCorridorS3R3", "RIDE · count · RND", "≈ 11 · 14 · 21 million frames", *_RIDE),
    Published("ObstructedMaze-2Dlh", "RIDE · RND", "≈ 32 · 60 million frames", *_RIDE),
    Published(
        "MultiRoomNoisyTV-N7-S4", "RIDE · count · RND · ICM", "≈ 11 · 14 · 12 million frames · stalls at 0.31", *_RIDE
    ),
    Published(
        "DoorKey-16x16", "RE3 · E3B · NGU · RND · ICM, PPO", "return ≈ 0.98 · 0.98 · 0.61 · 0.59 · 0.07", *_RLEXPLORE
    ),
    Published("LockedRoom", "ICM · RE3 · E3B · NGU, PPO", "return ≈ 0.66 · 0.55 · 0.46 · 0.32", *_RLEXPLORE),
)  # fmt: skip


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """Success and return over the last 100 episodes, when the task was solved, and the share of steps with noise."""
    steps, successes = known(curves, "success")
    episodes = dict(zip(curves["step"], curves["episodes"], strict=True))
    solved = [s for s, value in zip(steps, successes, strict=True) if value >= SOLVED and episodes[s] >= EPISODES]
    first = {"steps_90": solved[0]} if solved else {}
    return {**last(curves, "success"), **last(curves, "return"), **first, **average(curves, "noise_share")}


class MiniGrid(TrainingExperiment):
    """Adds the processor time until a task is solved, which is that of the whole run if it is not."""

    def scored(self, result: Result) -> dict[str, float]:
        """The scores of a stored run; an interrupted one has no processor time."""
        scores = super().scored(result)
        if "cpu_seconds" in result:
            share = min(scores["steps_90"] / result["settings"]["config"]["run"]["steps"], 1.0)
            scores["cpu_90"] = float(result["cpu_seconds"]) * share
        return scores


EXPERIMENT = MiniGrid(
    name="minigrid",
    title="MiniGrid: tasks solved, with and without noise",
    place="beyond the paper",
    about=(
        "Tasks of MiniGrid whose only reward comes at the end, with another layout in every episode: clean; with a TV "
        "(one more action, which does nothing and shows random codes); with Gaussian noise on every code, which is "
        "then a number and not one-hot; and with such numbers without noise. "
        "MultiRoomNoisyTV is RIDE's: `drop` changes the colour of a ball in the first room.",
        "A task is solved when 90 % of the last 100 training episodes succeed. A run that never gets there counts with "
        "all of its steps and time.",
        "Reported by others, with other learners and budgets, and so not compared: "
        + "; ".join(f"{n.task}: {n.method}: {n.value} ({n.source})" for n in PUBLISHED) + ".",
    ),
    env_id=TASKS["doorkey-8x8"][0],
    algo="ppo",
    variants=CONDITIONS,
    methods=METHODS,
    sizes={
        "smoke": Scale(512, 2, {**AGENT, "num_envs": 4, "rollout_steps": 32}, ("lgn", "none"),
                       ("doorkey-8x8", "doorkey-8x8-tv")),
        "short": Scale(2_000_000, 5, AGENT, ("lgn", "noveld", "etd", "rnd", "none"), DECISIVE),
    },
    metrics={
        "success": "success, last 100 episodes",
        "steps_90": "steps until 90 % of the episodes succeed",
        "cpu_90": "CPU seconds until 90 % of the episodes succeed",
        "return": "return of the task",
        "noise_share": "share of steps that show noise",
    },
    score=score,
    mixer={"weight": 0.3, "scale": "unit"},
    lower_is_better=("steps_90", "cpu_90"),
    unranked=("noise_share",),
    unreached={"success": 0.0, "return": 0.0, "steps_90": float("inf")},
)  # fmt: skip
