"""How many seeds would settle what is open: a normal approximation with the spread that was observed.

A difference that was observed by chance is larger or smaller than the true one, so these are orders of magnitude, not
promises: they tell "three more seeds" from "no affordable number of seeds".
"""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""How surely a difference as large as the observed one should be found."""
LEVEL = 0.05
"""A corrected p at or below this settles a claim."""
MOST = 10_000
"""More seeds than this are as good as none that would do."""


def seeds_to_decide(difference: float, std_a: float, std_b: float, claims: int = 1) -> int | None:
    """Seeds of each of two methods with which a one-sided test finds this difference; None if none would do.

    Welch's two-sample test by its normal approximation, n = (z(1 − level/claims) + z(power))² (s_a² + s_b²) / d²: each
    of several claims is held to its share of the level, which is what Holm's correction asks of the first one. At
    least as many as a permutation test of all runs needs to reach that level at all.

    >>> seeds_to_decide(1.0, 1.0, 1.0), seeds_to_decide(-0.5, 1.0, 1.0), seeds_to_decide(9.0, 1.0, 1.0, claims=8)
    (13, 50, 5)
    >>> seeds_to_decide(0.0, 1.0, 1.0) is None
    True
    """
    if difference == 0 or not all(map(math.isfinite, (difference, std_a, std_b))):
        return None
    reach = NormalDist().inv_cdf(1 - LEVEL / claims) + NormalDist().inv_cdf(POWER)
    needed = max(2, math.ceil(reach**2 * (std_a**2 + std_b**2) / difference**2 - 1e-9))
    while needed <= MOST and math.comb(2 * min(needed, 30), min(needed, 30)) * LEVEL < claims:
        needed += 1
    return needed if needed <= MOST else None


def seeds_to_agree(half_width: float, std: float, paper_std: float | None, paper_seeds: int | None) -> int | None:
    """Seeds with which the interval of ours − the paper's is at most this wide to either side; None if none would do.

    The paper's mean has an error of its own, which no seed of ours makes smaller.

    >>> seeds_to_agree(1.0, 2.0, None, None), seeds_to_agree(1.0, 2.0, 5.0, 5) is None
    (16, True)
    """
    theirs = paper_std**2 / paper_seeds if paper_std is not None and paper_seeds else 0.0
    left = (half_width / NormalDist().inv_cdf(1 - LEVEL / 2)) ** 2 - theirs
    if left <= 0 or not math.isfinite(std):
        return None
    needed = max(2, math.ceil(std**2 / left))
    return needed if needed <= MOST else None
