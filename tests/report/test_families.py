"""Which methods look alike."""

from __future__ import annotations

import lpm
from lpm.core.registry import lookup
from lpm.report.families import FAMILIES, family_of, looks


def test_every_bonus_of_the_package_has_a_family() -> None:
    ours = [name for name in lpm.names() if lookup(name).bonus.__module__.startswith("lpm.bonuses.")]
    assert ours
    assert [name for name in ours if family_of(name) == "other"] == []


def test_a_method_looks_the_same_whatever_is_beside_it() -> None:
    known = [method for family in FAMILIES.values() for method in family.methods]
    together = looks(known)
    assert all(looks([method])[method] == together[method] for method in known)
    assert looks(["lpm-slow"])["lpm-slow"] == together["lpm_slow"]


def test_two_methods_of_a_family_look_different() -> None:
    for family in FAMILIES.values():
        found = looks(family.methods).values()
        assert len({(look.colour, look.dash) for look in found}) == min(len(family.methods), 9)
