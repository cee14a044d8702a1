"""The episodic, count-based and metric bonuses on further action spaces and on small grids."""

from functools import partial
from typing import Any

import pytest
from bonus_cases import MORE_SPACES

import lpm
from lpm.core.check import check_intrinsic

SMALL: dict[str, dict[str, Any]] = {
    "count": {"table_bits": 14},
    "e3b": {"features": 8, "hidden": (16,), "inverse_hidden": (8,), "epochs": 1},
    "eme": {"features": 8, "hidden": (16,), "ensemble_hidden": 8, "epochs": 1},
    "episodic_count": {"memory_size": 64},
    "etd": {"features": 16, "hidden": (16,), "embedding": 8, "memory_size": 64, "epochs": 1},
    "ngu": {"features": 8, "rnd_features": 8, "hidden": (16,), "memory_size": 64, "epochs": 1},
    "none": {},
    "noveld": {"features": 8, "hidden": (16,), "memory_size": 64, "epochs": 1},
    "re3": {"features": 8, "hidden": (16,)},
    "ride": {"features": 8, "hidden": (16,), "model_hidden": (8,), "memory_size": 64, "epochs": 1},
    "bayes_gain": {"features": 16, "state": 8},
}


@pytest.mark.parametrize("space", MORE_SPACES)
@pytest.mark.parametrize("name", SMALL)
def test_contract(name: str, space: str) -> None:
    check_intrinsic(partial(lpm.make, name, **SMALL[name]), MORE_SPACES[space])
