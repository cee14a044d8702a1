"""What holds across methods: constant worlds, true successors and no filler in what is learnt from, and defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from bonus_cases import VECTOR, arm, train
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core import registry
from lpm.core.registry import configure, lookup
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.memory import RingBuffer

SIZE = {"num_envs": 4, "rollout_steps": 32}


# ---- a constant world pays nothing in the end -----------------------------------------------------------------
def test_a_constant_world_pays_ama_less_than_a_twentieth_in_the_end() -> None:
    means = train(lpm.make("ama", VECTOR, normalise="none", hidden=(64,), lr=3e-3, **SIZE), 0.0, 150)
    assert abs(means[-1]) < 0.05 * abs(means[0])


def test_a_world_that_becomes_constant_pays_rnd_less_than_a_twentieth_in_the_end() -> None:
    bonus = lpm.make("rnd", VECTOR, lr=1e-3, features=32, hidden=(32,), **SIZE)
    train(bonus, 1.0, 2)
    means = train(bonus, 0.0, 60)
    assert means[0] > 0
    assert means[-1] < 0.05 * means[0]


def test_a_world_that_was_always_constant_has_no_scale_and_pays_rnd_nothing() -> None:
    # every dimension is standardised to 0, where both networks, without biases at the start, say 0
    assert max(train(lpm.make("rnd", VECTOR, features=32, hidden=(32,), **SIZE), 0.0, 3)) == 0


@pytest.mark.parametrize(
    ("name", "fields"),
    [("lpm", {"dynamics_hidden": (64,), "error_hidden": (16,), "buffer_size": 128}), ("pointwise", {"hidden": (64,)})],
)
def test_progress_ends_once_the_error_is_below_its_floor(name: str, fields: dict[str, Any]) -> None:
    bonus = lpm.make(name, VECTOR, normalise="none", error_floor=1e-3, **SIZE, **fields)
    train(bonus, 0.0, 60)
    block = arm(0.0, 0)
    with torch.no_grad():
        code = bonus.spaces.encode_action(block.action.flatten())
        error = bonus.dynamics.errors(block.obs.flatten(0, 1), code, block.next_obs.flatten(0, 1))
    assert error.max() < 1e-3
    assert abs(bonus.score(block).mean()) < 0.05


# ---- autoreset ------------------------------------------------------------------------------------------------
def counting_stream(episodes: int) -> Transitions:
    """Episodes 0, 1, 2, 3 of an environment in Gymnasium's next-step mode: each is followed by filler from 3 to 0."""
    obs = torch.tensor([0.0, 1, 2, 3] * episodes)
    next_obs = torch.tensor([1.0, 2, 3, 0] * episodes)
    done = torch.tensor([False, False, True, False] * episodes)
    valid = torch.tensor([True, True, True, False] * episodes)
    flags = {"terminated": done[:, None], "valid": valid[:, None]}
    return Transitions.build(
        obs[:, None, None],
        torch.zeros(len(obs), 1, dtype=torch.int64),
        next_obs[:, None, None],
        reward=torch.zeros(len(obs), 1),
        policy=torch.zeros(len(obs), 1, 2),
        **flags,
    )


@pytest.mark.parametrize("name", lpm.names())
def test_what_is_learnt_from_ends_at_the_true_successor_and_holds_no_filler(name: str) -> None:
    spaces = Spaces(Box(-np.inf, np.inf, (1,)), Discrete(2))
    bonus = lpm.make(name, spaces, num_envs=1, rollout_steps=64)
    block = counting_stream(3)
    bonus.step(block)
    for ring in (m for m in bonus.modules() if isinstance(m, RingBuffer) and {"obs", "next_obs"} <= set(m.fields)):
        slots = ring.last(len(ring))
        assert ring.total == int(block.valid.sum()) == 9
        assert ring["obs"][slots].flatten().tolist() == [0, 1, 2] * 3
        assert ring["next_obs"][slots].flatten().tolist() == [1, 2, 3] * 3
    bonus.update()
    rewards = bonus.step(block)
    assert bool((rewards[3::4] == 0).all())
    assert bool(torch.isfinite(rewards).all())


# ---- defaults -------------------------------------------------------------------------------------------------
SOURCES: dict[str, dict[str, Any]] = {
    "ama": {"eta": 1.0, "lam": 1.0, "clip": "none", "lr": 1e-4},
    "curiosity_critic": {"lr": 1e-3, "critic_lr": 1e-3, "error": "mse"},
    "deir": {"features": 128, "hidden": (256,), "lr": 3e-4, "epochs": 4, "batch_size": 512},
    "e3b": {"ridge": 0.1, "lr": 1e-4},
    "eme": {"members": 6, "max_scale": 10.0, "discount": 0.99, "lr": 1e-3},
    "ensemble": {"members": 5, "keep": 0.8, "lr": 1e-4, "epochs": 3},
    "etd": {"embedding": 64, "discount": 0.99, "logsumexp_weight": 0.0, "lr": 3e-4, "batch_size": 512, "epochs": 4},
    "forward_error": {"lr": 1e-3, "epochs": 3},
    "icm": {"beta": 0.2, "detach_features": False, "lr": 1e-3, "hidden": (256,), "inverse_hidden": (256,)},
    "idf": {"beta": 0.2, "detach_features": True, "epochs": 3},
    "lbs": {"beta": 1.0, "latent": None, "hidden": None, "features": 512, "lr": 3e-4, "epochs": 10, "batch_size": 64},
    "ngu": {
        "features": 32, "neighbours": 10, "kernel_epsilon": 1e-4, "cluster_distance": 0.008, "kernel_constant": 1e-3,
        "max_similarity": 8.0, "max_lifelong": 5.0, "lr": 5e-4, "rnd_lr": 5e-4,
    },
    "noveld": {"alpha": 0.5, "features": 128, "lr": 1e-4},
    "pointwise": {"lag": 1, "form": "log", "lr": 1e-3},
    "re3": {"neighbours": 3},
    "ride": {"features": 128, "forward_weight": 10.0, "inverse_weight": 0.1, "lr": 1e-4},
    "rnd": {"clip": 5.0, "lr": 1e-4, "epochs": 4, "extra": 2, "proportion": 1.0},
}  # fmt: skip
"""Values of the papers or of the authors' code, where the default is theirs."""


@pytest.mark.parametrize("name", SOURCES)
def test_defaults_are_those_of_the_sources(name: str) -> None:
    config = configure(name)
    assert {field: getattr(config, field) for field in SOURCES[name]} == SOURCES[name]


def test_the_authors_settings_are_variants_where_the_default_differs() -> None:
    idf = configure("idf", "idf-2018")
    assert (idf.features, idf.hidden, idf.blocks, idf.inverse_hidden, idf.lr) == (512, (512,), 4, (512,), 1e-4)
    assert configure("icm", "icm-2017").features == 288
    ensemble = configure("ensemble", "disagreement-2019")
    assert (ensemble.features, ensemble.blocks) == (512, 4)
    rnd = configure("rnd", "atari")
    assert (rnd.channels, rnd.features, rnd.proportion) == (1, 512, 0.25)
    lbs = {name: configure("lbs", name).beta for name in ("continuous", "stochastic", "arcade")}
    assert lbs == {"continuous": 0.1, "stochastic": 2.0, "arcade": 0.01}
    ama = configure("ama", "minigrid")
    assert (ama.lam, ama.clip) == (0.1, "elem")


# ---- what a table says of a bonus -----------------------------------------------------------------------------
FAMILIES = {"recommended", "progress", "novelty", "episodic", "error", "disagreement", "floor"}


def test_every_bonus_says_what_it_is_for() -> None:
    entries = [lookup(name) for name in lpm.names()]
    assert len({entry.label for entry in entries}) == len(entries)
    assert len({entry.use for entry in entries}) == len(entries)
    assert not [entry.name for entry in entries if entry.bonus.family not in FAMILIES or not entry.use]


def test_a_subclass_is_not_called_by_its_parents_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.register("mine")(type("Mine", (lookup("rnd").bonus,), {}))
    assert lookup("mine").label == "mine"
