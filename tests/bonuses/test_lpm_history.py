"""Settings of the time when `lpm` was one bonus: stored results and runs mean what they meant."""

from __future__ import annotations

from typing import Any

import pytest

from lpm.core.registry import configure, upgrade
from lpm.runs import RunConfig

OLD: dict[str, Any] = {
    "form": "log", "error_model": "network", "error_floor": None, "relative_floor": None, "queue_size": 64,
    "queue": "fifo", "gate_full": True, "gate_fitted": True, "affine": True, "normalise": "none", "warmup": 1,
    "buffer_size": 16384, "replay": "auto", "dynamics_hidden": [512], "dynamics_skip": False, "predict": "next",
    "error_hidden": [256, 128], "error_outputs": 1, "features": None, "activation": "relu", "sigmoid": None,
    "shared_encoder": False, "anchor_features": 512, "anchor_scale": 0.25, "anchor_forgetting": 0.98,
    "anchor_ridge": 1.0, "copy_decay": 0.9, "dynamics_lr": 0.001, "error_lr": 0.001, "dynamics_steps": 1,
    "error_steps": 1, "error_every": 1, "batch_size": 64, "error_batch_size": 32, "clamp": None, "exp_weight": 1.0,
    "rnd_weight": 0.1, "reward_scale": 1.0, "reward_cap": None,
}  # fmt: skip
"""All 39 fields, as results of the maze store them."""


@pytest.mark.parametrize(
    ("changed", "name", "today"),
    [
        ({}, "lpm", {"queue_size": 64}),
        ({"form": "exp", "exp_weight": 0.4}, "lpm_release", {"form": "exp", "weight": 0.4, "replay": "all"}),
        ({"form": "linear"}, "lpm_release", {"form": "linear", "weight": 1.0}),
        ({"form": "rnd"}, "lpm_release", {"form": "rnd", "weight": 0.1}),
        ({"error_model": "slow_copy"}, "lpm_slow", {"replay": "mixed", "relative_floor": 0.1}),
        ({"error_model": "slow_copy", "relative_floor": 1.0}, "lpm_slow", {"relative_floor": 1.0}),
        ({"error_model": "anchored"}, "lpm_anchored", {"queue_size": 64, "relative_floor": 0.1}),
    ],
    ids=str,
)
def test_all_fields_become_those_of_one_of_the_four(changed: dict[str, Any], name: str, today: dict[str, Any]) -> None:
    found, fields = upgrade("lpm", OLD | changed)
    assert found == name
    assert {key: fields[key] for key in today} == today
    if changed.get("form") != "rnd":  # whose networks had settings without effect
        assert set(vars(configure(name, **fields))) == set(fields)
    assert upgrade(found, fields) == (found, fields)


def test_some_fields_and_a_variant() -> None:
    given = {"variant": "paper-mnist", "buffer_size": 19200, "affine": True, "error_model": "slow_copy"}
    assert upgrade("lpm", given) == ("lpm_slow", {"variant": "mnist", "buffer_size": 19200})
    assert upgrade("lpm", {"variant": "release-mnist"}) == ("lpm_release", {"variant": "release-mnist"})


def test_what_cannot_be_said_today_or_was_never_a_field_stays_as_it_is() -> None:
    assert upgrade("lpm", OLD | {"relative_floor": 0.5}) == ("lpm", OLD | {"relative_floor": 0.5})
    assert upgrade("lpm", {"lr": 0.1}) == ("lpm", {"lr": 0.1})
    assert upgrade("somebody_elses", {"lr": 0.1}) == ("somebody_elses", {"lr": 0.1})


def test_a_renamed_bonus() -> None:
    assert upgrade("vime", {"features": 16}) == ("bayes_gain", {"features": 16})
    with pytest.raises(ValueError, match="unknown bonus 'vime': it is 'bayes_gain' now"):
        configure("vime")


def test_the_config_of_an_old_run_is_read() -> None:
    tables = RunConfig("CartPole-v1", bonus="lpm").to_dict()
    tables["bonus"] = OLD | {"error_model": "slow_copy"}
    config = RunConfig.from_dict(tables)
    assert (config.bonus, config.bonus_settings.batch_size) == ("lpm_slow", 64)
