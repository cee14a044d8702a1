"""What LGN's features contribute: random or trained, few or many, on the images of the maze.

World, agent and budget are the maze's. Trained features come from another bonus (a model of the next frame, inverse
dynamics, temporal distances) that learns from the first 1,024 steps and is then frozen: features that went on changing
would not fit the rows that LGN remembers. Until then the reward is that of LGN on random features.
"Random, begun anew" is the same change without a lesson.
"""

from __future__ import annotations

from dataclasses import replace

from lpm.experiments.experiment import Method
from lpm_paper import maze
from lpm_paper.methods import ADDED

FIRST = "lpm_paper.lgn_first:LGNFirst"
"""The form of LGN whose parts were measured."""
TRAINED = "lpm_paper.lgn_forms:LGNOnTrainedFeatures"
FEATURES = {
    "lgn": Method("LGN: 64 random features", FIRST),
    "16": Method("16 random features", FIRST, {"features": 16}),
    "256": Method("256 random features", FIRST, {"features": 256}),
    "random-anew": Method("random, begun anew after 1,024 steps", TRAINED, {"teacher": "none"}),
    "forward": Method("trained to predict the next frame", TRAINED, {"teacher": "forward_error"}),
    "inverse": Method("trained by inverse dynamics (IDF)", TRAINED, {"teacher": "idf"}),
    "distance": Method("trained by temporal distances (ETD)", TRAINED, {"teacher": "etd"}),
}
METHODS = {**FEATURES, **{name: ADDED[name] for name in ("none", "random", "oracle")}}
DESK, SMOKE = maze.EXPERIMENT.sizes["desk"], maze.EXPERIMENT.sizes["smoke"]

EXPERIMENT = replace(
    maze.EXPERIMENT,
    name="lgn-features",
    not_ranked="compares settings of one method",
    title="LGN: what its features contribute, in the maze",
    place="beyond the paper",
    about=(
        "The three-room maze, its agent and its budget; no reward: the score is the number of cells visited. LGN looks "
        "at 64 numbers that a random network makes of an image. Here they are fewer, more, or trained on the first "
        "1,024 steps and then frozen.",
    ),
    methods=METHODS,
    sizes={
        "smoke": replace(
            SMOKE,
            methods=("lgn", "inverse", "random"),
            bonus={FIRST: {"warmup": 8}, TRAINED: {"warmup": 8, "lesson": 16}},
        ),
        "desk": replace(DESK, seeds=3, methods=tuple(METHODS), bonus={}),
    },
    paper={},
    claims=(),
)
