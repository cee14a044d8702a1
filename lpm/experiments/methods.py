"""Methods as people write them: a bonus by name, with fields if wanted."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lpm.experiments.experiment import Method
from lpm.sweeps.fields import literal

BASELINES: dict[str, Method] = {
    "none": Method("No bonus", "none"),
    "random": Method("Random actions", "none", policy="uniform"),
    "cell_counts": Method("Count of true cells", "none", policy="cell_counts"),
}
"""References: no bonus, random actions, and a count of the environment's own cells, which no bonus sees."""


def parse_method(text: str, known: Mapping[str, Method] = BASELINES) -> Method:
    """A method as people write it: a known name, a registered bonus or another package's class, with fields if wanted.

    Nothing is imported here: a name that no bonus has is refused by whoever builds it.

    >>> parse_method("lpm:lr=1e-3").fields
    {'lr': 0.001}
    >>> parse_method("my_package.bonuses:Mine:hidden=(64, 64),form=log").bonus
    'my_package.bonuses:Mine'
    """
    name, fields = _split(text)
    found = known.get(name) or BASELINES.get(name) or Method(name.rpartition(":")[2], name)
    if fields and found.policy != "learnt":
        raise ValueError(f"{text!r}: {name} has no bonus, and so no fields")
    words = ", ".join(f"{field}={value}" for field, value in fields.items())
    return replace(found, label=f"{found.label}, {words}", fields={**found.fields, **fields}) if words else found


def method_name(text: str) -> str:
    """The same method in one spelling, whatever spaces were typed.

    >>> method_name("lgn: width = 64")
    'lgn:width=64'
    """
    name, fields = _split(text)
    words = ",".join(f"{field}={value}".replace(" ", "") for field, value in fields.items())
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
