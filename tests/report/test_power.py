"""How many seeds would decide: checked by hand, against simulation and at the edges."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from lpm.report.seed_statistics import seeds_to_agree, seeds_to_decide


def test_the_formula_by_hand():
    # (1.6449 + 0.8416)² · (1 + 1) / 1² = 12.36
    assert seeds_to_decide(1.0, 1.0, 1.0) == 13
    # (1.6449 + 0.8416)² · (3² + 4²) / 10² = 1.5, and three against three is the least that 0.05 can come from
    assert seeds_to_decide(10.0, 3.0, 4.0) == 3
    # 0.05 / 8: (2.4977 + 0.8416)² · (100² + 150²) / 100² = 36.2
    assert seeds_to_decide(100.0, 100.0, 150.0, claims=8) == 37
    # (1.96 / 1)² · 2² = 15.4
    assert seeds_to_agree(1.0, 2.0, None, None) == 16


def test_the_sign_of_a_difference_does_not_matter():
    assert seeds_to_decide(-3.0, 2.0, 5.0, 4) == seeds_to_decide(3.0, 2.0, 5.0, 4)


@pytest.mark.parametrize("claims", [1, 2, 8, 16])
def test_without_spread_the_permutation_test_sets_the_least(claims):
    needed = seeds_to_decide(1.0, 0.0, 0.0, claims)
    assert needed is not None
    assert claims / math.comb(2 * needed, needed) <= 0.05
    assert claims / math.comb(2 * needed - 2, needed - 1) > 0.05


def test_what_no_number_of_seeds_decides():
    assert seeds_to_decide(0.0, 1.0, 1.0) is None
    assert seeds_to_decide(1e-6, 1.0, 1.0) is None
    assert seeds_to_decide(float("nan"), 1.0, 1.0) is None
    assert seeds_to_agree(1.0, 2.0, 12.0, 5) is None  # the paper's own error is wider


def test_the_number_has_the_power_it_promises():
    rng = np.random.default_rng(0)
    needed = seeds_to_decide(0.7, 1.0, 0.5)
    assert needed is not None
    a, b = rng.normal(0.7, 1.0, (4000, needed)), rng.normal(0.0, 0.5, (4000, needed))
    z = (a.mean(1) - b.mean(1)) / np.sqrt(a.var(1, ddof=1) / needed + b.var(1, ddof=1) / needed)
    assert (z > 1.645).mean() == pytest.approx(0.8, abs=0.04)


def test_two_seeds_fewer_have_less_power_than_promised():
    needed = seeds_to_decide(0.7, 1.0, 0.5)
    assert needed is not None

    def power_with(seeds: int) -> float:
        return NormalDist().cdf(0.7 / math.sqrt((1.0**2 + 0.5**2) / seeds) - NormalDist().inv_cdf(0.95))

    assert power_with(needed) == pytest.approx(0.8, abs=0.02)
    assert power_with(needed - 2) < 0.8
