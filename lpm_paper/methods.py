"""The methods that the experiments compare, with the labels of tables and legends.

Every bonus has its library defaults, which come from its own paper: none was tuned on an experiment here.
"""

from lpm.experiments.experiment import BASELINES, Method

PAPER: dict[str, Method] = {
    "lpm": Method("LPM", "lpm"),
    "ensemble": Method("Ensemble", "ensemble"),
    "rnd": Method("RND", "rnd"),
    "ama": Method("AMA", "ama"),
    "etd": Method("ETD", "etd"),
    "eme": Method("EME", "eme"),
    "idf": Method("IDF", "idf"),
    "icm": Method("ICM", "icm"),
}
"""The methods of the paper's experiments."""

OURS: dict[str, Method] = {"lgn": Method("LGN", "lgn")}
"""The bonus to use; drawn first."""

FORMER: dict[str, Method] = {"lgn-first": Method("LGN, first form", "lpm_paper.lgn_first:LGNFirst")}
"""What LGN was when most tables were run; no sweep runs it by itself."""

ADDED: dict[str, Method] = {
    "lpm-exp": Method("LPM (exp)", "lpm_release", {"form": "exp"}),
    "lpm-slow": Method("LPM, slow copy", "lpm_slow"),
    "lpm-anchored": Method("LPM, anchored g", "lpm_anchored"),
    "curiosity_critic": Method("Curiosity-Critic", "curiosity_critic"),
    "pointwise": Method("Pointwise progress", "pointwise"),
    "forward_error": Method("Forward error", "forward_error"),
    "ngu": Method("NGU", "ngu"),
    **BASELINES,
}
"""What the paper does not have: the release's reward form, error models that start from f's prior, other
learning-progress bonuses, and the references: no bonus, random actions, counts of the environment's own cells."""

RIVALS: dict[str, Method] = {
    "gamma_progress": Method("γ-Progress", "gamma_progress"),
    "lbs": Method("LBS", "lbs"),
    "deir": Method("DEIR", "deir"),
    "byol_hindsight": Method("BYOL-Hindsight", "byol_hindsight"),
    "cig": Method("CIG", "cig"),
}
"""Other methods whose authors claim that noise does not fool them."""

ALL: dict[str, Method] = {**OURS, **FORMER, **PAPER, **ADDED, **RIVALS}

LABELS: dict[str, str] = {
    **{method.bonus: method.label for method in ALL.values() if method.bonus != "none" and not method.fields},
    "lgn_lifelong": "LGN, lifelong",
    "count": "Count",
    "re3": "RE3",
}
"""Registered bonus to the name that every table and figure has for it."""
