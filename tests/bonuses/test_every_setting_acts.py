"""No setting without effect: changing any field of any bonus changes a reward or what is remembered."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import random_block
from lpm.core.registry import configure, lookup
from lpm.core.spaces import Spaces

STEPS, ENVS, CYCLES = 8, 3, 4
SPACES = {
    "vector": Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2)),
    "image": Spaces(Box(0, 255, (2, 6, 6), np.uint8), Discrete(2)),
}
# Small networks and memories, so that a trace takes milliseconds.
SMALL: dict[str, Any] = {
    "hidden": (8,), "encoder_hidden": (8,), "inverse_hidden": (8,), "model_hidden": (8,), "critic_hidden": (8,),
    "dynamics_hidden": (8,), "error_hidden": (8,), "ensemble_hidden": 8, "features": 8, "rnd_features": 8, "state": 8,
    "embedding": 8, "anchor_features": 16, "memory_size": 64, "table_bits": 8, "dynamics_steps": 2, "error_steps": 2,
    "epochs": 1, "critic_epochs": 1, "buffer_size": 200, "warmup": 1,
}  # fmt: skip
# Fields that act only where another one has a certain value.
ONLY_WITH: dict[str, dict[str, Any]] = {
    "hash_bits": {"key": "simhash"},
    "bins": {"key": "bins"},
    "gate_fitted": {"queue_size": 5},  # a longer queue is full only after g's first fit
    "filter": {"memory": "both"},  # along episodes, of which the lifelong form knows nothing
    "max_scale": {"lr": 0.1},  # else the ensemble of EME does not disagree enough in so few updates
}


def settings_of(name: str, field: str = "") -> dict[str, Any]:
    known = {item.name for item in dataclasses.fields(lookup(name).bonus.Config)}
    return {key: value for key, value in (SMALL | ONLY_WITH.get(field, {})).items() if key in known}


def trace(name: str, space: str, **fields: Any) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """Rewards and the state after a few cycles."""
    bonus = lpm.make(name, SPACES[space], num_envs=ENVS, rollout_steps=STEPS, seed=1, **fields)
    rewards = []
    for cycle in range(CYCLES):
        block = random_block(SPACES[space], steps=STEPS, envs=ENVS, seed=cycle, filler=True)
        assert block.reward is not None
        block = dataclasses.replace(block, reward=20 * block.reward)
        rewards.append(bonus.step(block))
        bonus.update()
    return rewards, bonus.state_dict()


@cache
def plain(name: str, space: str, field: str = "") -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The trace that others are compared with; one for all fields but those of `ONLY_WITH`."""
    return trace(name, space, **settings_of(name, field))


def differ(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape != b.shape or not torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() != b.keys() or any(differ(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) != len(b) or any(map(differ, a, b))
    return bool(a != b)


def others(hint: Any, value: Any) -> Iterator[Any]:
    """Other values that a field may take."""
    options = get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)
    for option in options:
        if option is bool:
            yield from (True, False)
        elif option is int:
            yield from (1, 2, 3, 5, 30, 60)
        elif option is float:
            yield from (0.3 * (value or 1), 3 * (value or 1), 0.01, 0.5, 2.0, 0.0)
        elif option is types.NoneType:
            yield None
        elif get_origin(option) is Literal:
            yield from get_args(option)
        elif get_args(option)[-1:] == (Ellipsis,):
            yield from ((4,), (4, 4))
        else:
            yield from ((-0.5, 0.5), (-3.0, -2.0))


def changed(name: str, field: str, value: Any) -> bool:
    """Whether another value of a field acts on one of the spaces."""
    for space in SPACES:
        try:
            found = trace(name, space, **{**settings_of(name, field), field: value})
        except ValueError:
            continue  # not for this space, or not a value
        if differ(plain(name, space, field if field in ONLY_WITH else ""), found):
            return True
    return False


FIELDS = [(name, field.name) for name in lpm.names() for field in dataclasses.fields(lookup(name).bonus.Config)]


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=lambda value: str(value))
def test_a_setting_acts(name: str, field: str) -> None:
    hint = get_type_hints(lookup(name).bonus.Config)[field]
    value = getattr(configure(name, **settings_of(name, field)), field)
    assert any(changed(name, field, other) for other in others(hint, value) if other != value)


# ---- nothing is drawn at random that is not used ---------------------------------------------------------------
@pytest.mark.parametrize("name", lpm.names())
def test_collecting_draws_nothing(name: str) -> None:
    """A reservoir draws as it collects, because it samples what it collects; nothing else does."""
    bonus = lpm.make(name, SPACES["vector"], num_envs=ENVS, rollout_steps=STEPS, **settings_of(name))
    before = bonus.generator.get_state()
    bonus.step(random_block(SPACES["vector"], steps=STEPS, envs=ENVS, filler=True))
    assert torch.equal(before, bonus.generator.get_state())


@pytest.mark.parametrize("name", ["lpm", "lpm_release", "lpm_anchored"])
def test_a_reservoir_draws_one_number_a_transition_and_keeps_the_largest(name: str) -> None:
    fields = {**settings_of(name), "queue": "reservoir", "queue_size": 5, "normalise": "none"}
    bonus = lpm.make(name, SPACES["vector"], num_envs=ENVS, rollout_steps=STEPS, seed=1, **fields)
    twin = torch.Generator()
    twin.set_state(bonus.generator.get_state())
    block = random_block(SPACES["vector"], steps=STEPS, envs=ENVS, filler=True)
    bonus.step(block)
    drawn = torch.rand(int(block.valid.sum()), generator=twin)
    assert torch.equal(twin.get_state(), bonus.generator.get_state())
    assert bonus.queue.slots.tolist() == drawn.topk(5).indices.sort().values.tolist()


@pytest.mark.parametrize("name", lpm.names())
def test_an_update_draws_only_if_it_makes_gradient_steps(name: str) -> None:
    bonus = lpm.make(name, SPACES["vector"], num_envs=ENVS, rollout_steps=STEPS, **settings_of(name))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    for _ in range(2):  # an anchored g waits for 32 transitions
        bonus.step(random_block(SPACES["vector"], steps=STEPS, envs=ENVS))
        bonus.update(generator)
    assert torch.equal(before, generator.get_state()) == (not bonus.get_extra_state()["optimizers"])
