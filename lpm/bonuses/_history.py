"""LPM was one bonus with 39 fields once; results and runs are stored in those words. What they are called today."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

MOVED: Mapping[str, str] = {
    "form": "'lpm_release' has form 'exp', 'linear' and 'rnd'; 'lpm_slow' and 'lpm_anchored' have a form of their own",
    "error_model": "'slow_copy' is the bonus 'lpm_slow' now, 'anchored' is 'lpm_anchored'",
    "relative_floor": "'lpm_slow' and 'lpm_anchored' have it",
    "replay": "'lpm' learns from all of B; 'lpm_slow' and 'lpm_release' have the field",
    "copy_decay": "'lpm_slow' has it",
    "exp_weight": "it is weight of 'lpm_release' now",
    "rnd_weight": "it is weight of 'lpm_release' now",
    **dict.fromkeys(("anchor_features", "anchor_scale", "anchor_forgetting", "anchor_ridge"), "'lpm_anchored' has it"),
    **dict.fromkeys(
        ("gate_full", "error_outputs", "error_every", "sigmoid", "clamp", "reward_scale", "reward_cap",
         "release-mnist", "release-miniworld", "release-atari", "release-montezuma"),
        "'lpm_release' has it",
    ),
}  # fmt: skip
"""Fields and variants that `lpm` had, to where they went."""

# What did nothing in `lpm` while it had this value; with another one the settings cannot be said today.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "form": ("log",), "error_model": ("network",), "relative_floor": (None, 0.0), "replay": ("auto", "all"),
    "gate_full": (True,), "error_outputs": (1,), "error_every": (1,), "sigmoid": (None,), "clamp": (None,),
    "reward_scale": (1.0,), "reward_cap": (None,),
}  # fmt: skip


def upgrade_lpm(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and fields of stored settings of the old `lpm`, all of them or some and a "variant"; today's stay."""
    given = dict(fields)
    model, form, variant = given.get("error_model", "network"), given.get("form", "log"), given.get("variant", "")
    if model == "slow_copy":
        if given.get("replay") == "auto":
            given["replay"] = "mixed"
        return "lpm_slow", _kept("lpm_slow", _floored(given))
    if model == "anchored":
        return "lpm_anchored", _kept("lpm_anchored", _floored(given))
    if form != "log" or str(variant).startswith("release-"):
        montezuma = form == "rnd" or variant == "release-montezuma"
        weight = given.get("rnd_weight" if montezuma else "exp_weight")
        if weight is not None:
            given["weight"] = 1.0 if form == "linear" else weight
        if given.get("replay") == "auto":
            given["replay"] = "all"
        return "lpm_release", _kept("lpm_release", given)
    if any(given.get(name, values[0]) not in values for name, values in _NEUTRAL.items()):
        return "lpm", given
    return "lpm", _kept("lpm", given)


def _floored(given: dict[str, Any]) -> dict[str, Any]:
    """The relative floor written out, and the variant without the paper's name: the paper has neither bonus."""
    changed: dict[str, Any] = {}
    if "relative_floor" in given and given["relative_floor"] is None:
        changed["relative_floor"] = 0.1
    if "variant" in given:
        changed["variant"] = str(given["variant"]).removeprefix("paper-")
    return {**given, **changed}


def _kept(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields of the old `lpm` that the bonus does not have: there they did nothing."""
    from lpm.core.registry import lookup

    today, lpm = ({field.name for field in dataclasses.fields(lookup(n).bonus.Config)} for n in (name, "lpm"))
    idle = {*MOVED, *lpm} - today
    return {field: value for field, value in given.items() if field not in idle}
