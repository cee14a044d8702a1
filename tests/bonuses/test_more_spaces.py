"""Every bonus on further action spaces and on small grids."""

from functools import partial
from typing import Any

import pytest
from bonus_cases import MORE_SPACES

import lpm
from lpm.core.check import check_intrinsic
from lpm.core.registry import lookup

MODEL: dict[str, Any] = {"features": 16, "hidden": (16,), "epochs": 1}
ENCODED: dict[str, Any] = {"features": 8, "hidden": (16,), "encoder_hidden": (16,), "epochs": 1}
CURIOSITY: dict[str, Any] = {**MODEL, "encoder_hidden": (16,), "inverse_hidden": (16,), "blocks": 1}
PROGRESS: dict[str, Any] = {"features": 16, "dynamics_hidden": (16,), "dynamics_steps": 1, "buffer_size": 64}
GATED: dict[str, Any] = {"features": 8, "fourier": 8, "warmup": 4, "memory_size": 16}
SMALL: dict[str, dict[str, Any]] = {
    "ama": MODEL,
    "bayes_gain": {"features": 16, "state": 8},
    "byol_hindsight": {**ENCODED, "hindsight": 4, "noise": 4, "contrasts": 5},
    "cig": ENCODED,
    "count": {"table_bits": 14},
    "curiosity_critic": {**MODEL, "critic_hidden": (16,), "critic_epochs": 1},
    "deir": {**ENCODED, "memory_size": 64, "batch_size": 32},
    "e3b": {"features": 8, "hidden": (16,), "inverse_hidden": (8,), "epochs": 1},
    "eme": {"features": 8, "hidden": (16,), "ensemble_hidden": 8, "epochs": 1},
    "ensemble": {"features": 8, "hidden": (8,), "encoder_hidden": (8,), "blocks": 1, "members": 3, "epochs": 1},
    "episodic_count": {"memory_size": 64},
    "etd": {"features": 16, "hidden": (16,), "embedding": 8, "memory_size": 64, "epochs": 1},
    "forward_error": MODEL,
    "gamma_progress": {**MODEL, "buffer_size": 64},
    "icm": CURIOSITY,
    "idf": CURIOSITY,
    "lbs": {**MODEL, "latent": 4},
    "lgn": GATED,
    "lgn_lifelong": GATED,
    "lpm": {**PROGRESS, "error_hidden": (16,), "error_steps": 1},
    "lpm_anchored": {**PROGRESS, "anchor_features": 64},
    "lpm_release": {**PROGRESS, "error_hidden": (16,), "error_steps": 1},
    "lpm_slow": PROGRESS,
    "ngu": {"features": 8, "rnd_features": 8, "hidden": (16,), "memory_size": 64, "epochs": 1},
    "none": {},
    "noveld": {"features": 8, "hidden": (16,), "memory_size": 64, "epochs": 1},
    "pointwise": {**MODEL, "lag": 2},
    "re3": {"features": 8, "hidden": (16,)},
    "ride": {"features": 8, "hidden": (16,), "model_hidden": (8,), "memory_size": 64, "epochs": 1},
    "rnd": {**MODEL, "proportion": 0.5},
}
"""A small form of every registered bonus."""


def test_no_bonus_of_the_package_is_missing() -> None:
    assert list(SMALL) == [
        name for name in lpm.names() if lookup(name).bonus.__module__.startswith(("lpm.bonuses", "lpm_paper."))
    ]


@pytest.mark.parametrize("space", MORE_SPACES)
@pytest.mark.parametrize("name", SMALL)
def test_contract(name: str, space: str) -> None:
    check_intrinsic(partial(lpm.make, name, **SMALL[name]), MORE_SPACES[space])
