"""Which methods look alike."""

from __future__ import annotations

import subprocess
import sys

import lpm
from lpm.core.registry import lookup
from lpm.report.families import FAMILIES, declared, family_of, looks


def test_the_family_of_every_bonus_is_what_its_class_says() -> None:
    classes = {name: lookup(name).bonus for name in lpm.names() if ":" not in name}
    ours = {
        name: bonus.family for name, bonus in classes.items() if bonus.__module__.startswith(("lpm.", "lpm_paper."))
    }
    assert {name: family_of(name) for name in ours} == ours


def test_families_and_reports_import_no_bonus() -> None:
    code = (
        "import sys, lpm.report.html; from lpm.report.families import declared; assert declared()['rnd'] == 'novelty';"
        "from lpm.experiments.experiment import load_experiment; load_experiment('mountain-car');"
        "print([m for m in sys.modules if m.startswith('lpm.bonuses')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_bonus_looks_the_same_whatever_is_beside_it() -> None:
    together = looks(declared())
    assert all(looks([method])[method] == together[method] for method in declared())
    assert looks(["lpm-slow"])["lpm-slow"] == together["lpm_slow"]


def test_two_bonuses_of_a_family_look_different() -> None:
    for name in FAMILIES:
        members = [bonus for bonus, family in declared().items() if family == name]
        found = looks(members).values()
        assert len({(look.colour, look.dash) for look in found}) == len(members)
