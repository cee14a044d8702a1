"""What each part of LGN contributes: changed in one place at a time, in rooms and corridors.

The world and the agent are those of the suite's rooms, where noise of every family can be told apart.
"""

from dataclasses import replace

import torch
from torch import Tensor

from lpm.bonuses.lgn import LGN, RIDGE
from lpm.experiments.experiment import Method
from lpm.experiments.training import Condition, Scale, TrainingExperiment
from lpm.nn.closed_form import RidgeByAction
from lpm.suite.environments import ROOMS, ROOMS_AGENT
from lpm_paper.maze import score
from lpm_paper.methods import ADDED
from lpm_paper.minigrid import AGENT, CONDITIONS
from lpm_paper.minigrid import EXPERIMENT as MINIGRID


class LGNWithoutPrior(LGN):
    """LGN whose f expects 0 without data, not that nothing changes."""

    label = "LGN, no prior"

    def _build(self) -> None:
        super()._build()
        self.models = RidgeByAction(self.design.actions, self.design.columns, 2 * self.state.width, ridge=RIDGE)


class LGNWithoutFloor(LGN):
    """LGN that takes what its filter leaves over for distance."""

    label = "LGN, no floor of noise"

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        metrics = super()._update(generator)
        self.floor.zero_()
        return metrics


PARTS = {
    "lgn": Method("LGN", "lgn"),
    "gate-off": Method("no gate", "lgn", {"gate": False}),
    "filter-off": Method("no filter", "lgn", {"filter": False}),
    "neither": Method("no gate, no filter", "lgn", {"gate": False, "filter": False}),
    "memory-episodic": Method("memory of the episode", "lgn", {"memory": "episodic"}),
    "memory-lifelong": Method("memory of the run, no filter", "lgn", {"memory": "lifelong"}),
    "units-off": Method("distances of plain features", "lgn", {"units": False}),
    "fourier-0": Method("f and g linear", "lgn", {"fourier": 0}),
    "prior-off": Method("f expects nothing, not persistence", "lpm_paper.lgn_parts:LGNWithoutPrior"),
}
ON_MINIGRID_ALONE = {"floor-off": Method("noise that is left counts", "lpm_paper.lgn_parts:LGNWithoutFloor")}
"""What makes no difference in rooms: the floor of noise is 0 for a few numbers."""
METHODS = {**PARTS, **{name: ADDED[name] for name in ("none", "random", "cell_counts")}}
NOISE = {"none": "no noise", "action": "noise action", "small": "small noise", "place": "noise by place",
         "stays": "noise that stays"}  # fmt: skip

EXPERIMENT = TrainingExperiment(
    name="lgn-parts",
    not_ranked="compares settings of one method",
    title="LGN: what each part contributes",
    place="beyond the paper",
    about=(
        "Six rooms and their corridors, the agent sees its position; no reward: the score is the number of cells "
        "visited. LGN is changed in one place at a time: the gate, the filter, what is remembered, what distances are "
        "measured in, and the two regressions.",
        "Noise: an action that shows white noise; a little noise on the position; noise beside it that grows with the "
        "place; an action that draws numbers beside the position, which stay until they are drawn again.",
    ),
    env_id="lpm/Rooms-v0",
    algo="ppo",
    variants={noise: Condition(label, {"noise": noise}) for noise, label in NOISE.items()},
    methods=METHODS,
    sizes={
        "smoke": Scale(4_096, 2, ROOMS_AGENT, ("lgn", "gate-off", "random"), ("none", "small"), ROOMS),
        "short": Scale(40_960, 3, ROOMS_AGENT, tuple(METHODS), None, ROOMS),
    },
    metrics={"cells": "cells visited", "noise_share": "share of steps on the noise"},
    score=score,
    lower_is_better=("noise_share",),
)

ON_MINIGRID = replace(
    MINIGRID,
    name="lgn-parts-minigrid",
    not_ranked="compares settings of one method",
    title="LGN: what each part contributes on MiniGrid",
    about=("MultiRoom-N4-S5: clean, with a TV, with Gaussian noise. LGN is changed in one place at a time.",),
    variants={name: CONDITIONS[name] for name in ("multiroom-n4-s5", "multiroom-n4-s5-tv", "multiroom-n4-s5-gaussian")},
    methods=PARTS | ON_MINIGRID_ALONE,
    sizes={
        "smoke": Scale(512, 2, {**AGENT, "num_envs": 4, "rollout_steps": 32}, ("lgn", "gate-off"),
                       ("multiroom-n4-s5-tv",)),
        "short": Scale(2_000_000, 5, AGENT, tuple(PARTS | ON_MINIGRID_ALONE)),
    },
)  # fmt: skip
