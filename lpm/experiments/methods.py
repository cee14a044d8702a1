"""The methods that experiments compare, with the labels of tables and legends.

Every bonus has its library defaults, which come from its own paper: none was tuned on an experiment here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lpm.experiments.experiment import Method
from lpm.sweeps.fields import literal

PAPER: dict[str, Method] = {
    "lpm": Method("LPM", "lpm"),
    "ensemble": Method("Ensemble", "ensemble"),
    "rnd": Method("RND", "rnd"),
    "ama": Method("AMA", "ama"),
    "etd": Method("EDT (ETD)", "etd"),
    "eme": Method("EME", "eme"),
    "idf": Method("IDF", "idf"),
    "icm": Method("ICM", "icm"),
}
"""The methods of the paper's experiments."""

OURS: dict[str, Method] = {
    "lgn": Method("LGN", "lgn"),
}
"""The bonus to use; drawn first."""

ADDED: dict[str, Method] = {
    "lpm-exp": Method("LPM (exp)", "lpm_release", {"form": "exp"}),
    "lpm-slow": Method("LPM, slow copy", "lpm_slow"),
    "lpm-anchored": Method("LPM, anchored g", "lpm_anchored"),
    "curiosity_critic": Method("Curiosity-Critic", "curiosity_critic"),
    "pointwise": Method("Pointwise progress", "pointwise"),
    "forward_error": Method("Forward error", "forward_error"),
    "ngu": Method("NGU", "ngu"),
    "none": Method("No bonus", "none"),
    "random": Method("Random actions", "none", policy="uniform"),
    "oracle": Method("Oracle count", "none", policy="oracle"),
}
"""What the paper does not have: the release's reward form, error models that start from f's prior, other
learning-progress bonuses, the two floors, and the ceiling: counts of the environment's own cells."""

RIVALS: dict[str, Method] = {
    "gamma_progress": Method("γ-Progress", "gamma_progress"),
    "lbs": Method("LBS", "lbs"),
    "deir": Method("DEIR", "deir"),
    "byol_hindsight": Method("BYOL-Hindsight", "byol_hindsight"),
    "cig": Method("CIG", "cig"),
}
"""Other methods whose authors claim that noise does not fool them."""

ALL: dict[str, Method] = {**OURS, **PAPER, **ADDED, **RIVALS}


def parse_method(text: str, known: Mapping[str, Method] = ALL, **more: Any) -> Method:
    """A method as people write it: a known name, a registered bonus or another package's class, with fields if wanted.

    `more` are fields beside those in the text. Nothing is imported here: a name that no bonus has is refused by whoever
    builds it.

    >>> parse_method("lpm-exp:lr=1e-3").fields
    {'form': 'exp', 'lr': 0.001}
    >>> parse_method("my_package.bonuses:Mine:hidden=(64, 64),form=log").bonus
    'my_package.bonuses:Mine'
    """
    name, fields = _split(text)
    fields = {**fields, **more}
    found = known.get(name) or ALL.get(name) or Method(name.rpartition(":")[2], name)
    if fields and found.policy != "learnt":
        raise ValueError(f"{text!r}: {name} has no bonus, and so no fields")
    words = ", ".join(f"{field}={value}" for field, value in fields.items())
    return replace(found, label=f"{found.label}, {words}", fields={**found.fields, **fields}) if words else found


def method_name(text: str, **more: Any) -> str:
    """The same method in one spelling, whatever spaces were typed.

    >>> method_name("lgn: width = 64", reach=2)
    'lgn:width=64,reach=2'
    """
    name, fields = _split(text)
    words = ",".join(f"{field}={value}".replace(" ", "") for field, value in {**fields, **more}.items())
    return f"{name}:{words}" if words else name


def parse_fields(text: str) -> dict[str, Any]:
    """Fields from `name=value,name=value`; commas within brackets belong to the value."""
    fields: dict[str, Any] = {}
    for part in re.split(r",(?![^(\[]*[)\]])", text):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise ValueError(f"fields {text!r}: expected name=value, more of them after commas, got {part!r}")
        fields[name] = literal(value)
    return fields


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """The name, which may be `module:Class`, and the fields."""
    head, equals, _ = text.partition("=")
    if not equals:
        return text.strip(), {}
    name, colon, _ = head.rpartition(":")
    if not colon or not name.strip():
        raise ValueError(f"{text!r}: expected a bonus before its fields, as in lgn:width=64")
    return name.strip(), parse_fields(text[len(name) + 1 :])
