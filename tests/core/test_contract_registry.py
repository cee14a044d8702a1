"""Every registered bonus against the contract, on every default space: new methods are covered on arrival."""

import dataclasses
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import lpm
from lpm.core.check import DEFAULT_SPACES
from lpm.core.registry import lookup
from lpm.core.settings import UNIONS


def cheap(name: str, space: str = "vector") -> dict[str, Any]:
    """Settings that save time and change nothing else: single passes, small buffers, and for images narrow layers."""
    config = lookup(name).bonus.Config
    hints = get_type_hints(config)
    settings: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        if field.name == "head_hidden":  # for vectors only
            continue
        if space.startswith("image") and field.name.endswith(("features", "hidden")):
            if hints[field.name] is not bool:
                settings[field.name] = 32 if int in _options(hints[field.name]) else (32,)
        elif int not in _options(hints[field.name]):
            continue
        elif field.name.endswith(("steps", "epochs")):
            settings[field.name] = 1
        elif field.name.endswith("buffer_size"):
            settings[field.name] = 128
    return settings


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in UNIONS else (hint,)


def test_cheap_settings_are_found_by_name_and_type() -> None:
    assert cheap("lpm") == {"buffer_size": 128, "dynamics_steps": 1, "error_steps": 1}


@pytest.mark.parametrize("space", DEFAULT_SPACES)
@pytest.mark.parametrize("name", lpm.names())
def test_contract(name: str, space: str) -> None:
    lpm.check_intrinsic(partial(lpm.make, name, **cheap(name, space)), DEFAULT_SPACES[space])
