"""Which methods look alike."""

from __future__ import annotations

import lpm
from lpm.core.registry import lookup
from lpm.report.families import family_of


def test_every_bonus_of_the_package_has_a_family() -> None:
    ours = [name for name in lpm.names() if lookup(name).bonus.__module__.startswith("lpm.bonuses.")]
    assert ours
    assert [name for name in ours if family_of(name) == "other"] == []
