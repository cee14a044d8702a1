"""Every registered bonus against the contract, on every default space: new methods are covered on arrival."""

import dataclasses
import types
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import lpm
from lpm.core.check import DEFAULT_SPACES
from lpm.core.registry import lookup


def cheap(name: str) -> dict[str, Any]:
    """Settings that save time without changing what is computed: single passes, and buffers of a few rollouts."""
    config = lookup(name).bonus.Config
    hints = get_type_hints(config)
    settings: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        if int not in _options(hints[field.name]):
            continue
        if field.name.endswith(("steps", "epochs")):
            settings[field.name] = 1
        elif field.name.endswith("buffer_size"):
            settings[field.name] = 128
    return settings


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is types.UnionType else (hint,)


def test_cheap_settings_are_found_by_name_and_type() -> None:
    assert cheap("lpm") == {"buffer_size": 128, "dynamics_steps": 1, "error_steps": 1}


@pytest.mark.parametrize("space", DEFAULT_SPACES)
@pytest.mark.parametrize("name", lpm.names())
def test_contract(name: str, space: str) -> None:
    lpm.check_intrinsic(partial(lpm.make, name, **cheap(name)), DEFAULT_SPACES[space])
