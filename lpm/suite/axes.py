"""From the runs of a bonus and of the two references to the axes of its card, and to one total.

A condition is scored by (x - random) / (oracle - random): 0 is what uniform random actions reach there, 1 what the same
agent reaches when its bonus counts visits to the environment's true cells. It counts only where random actions reach at
most two thirds of the oracle; elsewhere the scale is too short to read anything from. In every mean a score counts as
at least -0.5 and at most 1.5: one world in which the oracle is weak cannot make up for failing in others. All means are
linear, with no choice of the best or worst: on fresh seeds random actions get 0 and the oracle 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lpm.suite.worlds import CLEAN, WORLDS

Floats = NDArray[np.float64]
Cell = tuple[str, str]
"""World and condition."""
RESAMPLES = 2_000
LEVEL = 0.95
LEAST, MOST = -0.5, 1.5
"""What the score of a condition counts as, at least and at most."""
APART = {"smoke": 1.0, "desk": 2 / 3}
"""The largest share of the oracle that random actions may reach in a condition that counts."""

AXES: Mapping[str, str] = {
    "clean": "coverage without noise",
    "noisy": "coverage under noise",
    "focus": "steps not wasted on noise",
    "unpaid": "noise ignored after learning",
    "first": "first visits rewarded more",
    "task": "reward of the task",
    "steady": "worst seed",
}
"""Axis to its words, in the order of the card."""


@dataclass(frozen=True)
class Runs:
    """What the runs of one method measured, seed by seed."""

    seeds: tuple[int, ...]
    cells: Mapping[Cell, Mapping[str, Floats]]
    """World and condition to metric to one number a seed."""
    arms: Floats = field(default_factory=lambda: np.zeros(0))
    """The final reward of noise in the two arms, as a share of the reward of something new, one number a seed."""

    def picked(self, order: NDArray[np.int64]) -> Runs:
        """With these places in the list of seeds instead."""
        cells = {cell: {m: values[order] for m, values in metrics.items()} for cell, metrics in self.cells.items()}
        return Runs(self.seeds, cells, self.arms[order] if len(self.arms) else self.arms)


@dataclass(frozen=True)
class Estimate:
    """A number with its interval over seeds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """Everything that is computed from three sets of runs."""

    total: Estimate
    axes: Mapping[str, Estimate]
    worlds: Mapping[str, Estimate]
    families: Mapping[str, Estimate]
    conditions: Mapping[Cell, Estimate]


def counted(random: Runs, oracle: Runs, scale: str) -> frozenset[Cell]:
    """The conditions in which both references are far enough apart."""
    found = []
    for cell in random.cells:
        low, high = (float(runs.cells[cell][WORLDS[cell[0]].metric].mean()) for runs in (random, oracle))
        if high > low and low <= APART[scale] * high:
            found.append(cell)
    return frozenset(found)


def score(own: Runs, random: Runs, oracle: Runs, scale: str) -> Scores:
    """Values from all seeds; intervals by drawing seeds again, of the bonus and of both references."""
    cells = counted(random, oracle, scale)
    value = measure(own, random, oracle, cells)
    rng = np.random.default_rng(0)
    draws: dict[tuple[str, object], list[float]] = {key: [] for key in value}
    for _ in range(RESAMPLES):
        a, b, c = (runs.picked(rng.integers(len(runs.seeds), size=len(runs.seeds))) for runs in (own, random, oracle))
        for key, drawn in measure(a, b, c, cells).items():
            draws[key].append(drawn)

    def estimates(kind: str) -> dict[object, Estimate]:
        return {key[1]: _estimate(value[key], draws[key]) for key in value if key[0] == kind}

    found: dict[str, Mapping[object, Estimate]] = {
        kind: estimates(kind) for kind in ("total", "axes", "worlds", "families", "conditions")
    }
    return Scores(found.pop("total")[""], **found)  # type: ignore[arg-type]


def _estimate(value: float, draws: list[float]) -> Estimate:
    edge = 50 * (1 - LEVEL)
    finite = [draw for draw in draws if np.isfinite(draw)]
    if not finite or not np.isfinite(value):
        return Estimate(value, value, value)
    low, high = np.percentile(finite, (edge, 100 - edge))
    return Estimate(value, float(low), float(high))


def measure(own: Runs, random: Runs, oracle: Runs, cells: frozenset[Cell]) -> dict[tuple[str, object], float]:
    """(kind, name) to value, without intervals; the bonus is scored where it has runs."""
    by_seed = {cell: _normalised(cell, WORLDS[cell[0]].metric, own, random, oracle) for cell in own.cells}
    whole = {cell: float(values.mean()) for cell, values in by_seed.items()}
    means = {cell: _bounded(mean) for cell, mean in whole.items() if cell in cells}
    coverage = {cell: mean for cell, mean in means.items() if WORLDS[cell[0]].metric == "cells"}
    names = list(dict.fromkeys(world for world, _ in means))
    worlds = {world: _by_world({cell: mean for cell, mean in means.items() if cell[0] == world}) for world in names}
    families: dict[str, list[float]] = {}
    for (_, condition), mean in coverage.items():
        families.setdefault(condition, []).append(mean)
    watched = [cell for cell in own.cells if cell[1] in WORLDS[cell[0]].watched]
    axes = {
        "clean": _mean([mean for (_, condition), mean in coverage.items() if condition == CLEAN]),
        "noisy": _by_world({cell: mean for cell, mean in coverage.items() if cell[1] != CLEAN}),
        "focus": _mean(
            [_bounded(float(_normalised(cell, "noise_share", own, random, oracle).mean())) for cell in watched]
        ),
        "unpaid": float(1 - own.arms.mean()) if len(own.arms) else float("nan"),
        "first": _mean([_mean(own.cells[cell]["first_visits"]) for cell in own.cells if _clean_coverage(cell)]),
        "task": _by_world({cell: mean for cell, mean in means.items() if cell not in coverage}),
        "steady": _steady({cell: values.clip(LEAST, MOST) for cell, values in by_seed.items() if cell in cells}),
    }
    return {
        ("total", ""): _mean(list(worlds.values())),
        **{("axes", name): value for name, value in axes.items()},
        **{("worlds", name): value for name, value in worlds.items()},
        **{("families", name): _mean(values) for name, values in families.items()},
        **{("conditions", cell): value for cell, value in whole.items()},
    }


def _normalised(cell: Cell, metric: str, own: Runs, random: Runs, oracle: Runs) -> Floats:
    """One score a seed; NaN where the references are not apart."""
    low, high = (float(reference.cells[cell][metric].mean()) for reference in (random, oracle))
    values = own.cells[cell][metric]
    return (values - low) / (high - low) if abs(high - low) > 1e-9 else np.full(len(values), np.nan)


def _clean_coverage(cell: Cell) -> bool:
    return cell[1] == CLEAN and WORLDS[cell[0]].metric == "cells"


def _bounded(value: float) -> float:
    return min(max(value, LEAST), MOST) if np.isfinite(value) else value


def _by_world(cells: Mapping[Cell, float]) -> float:
    """The mean over worlds of the mean over each one's conditions: a world with many families counts once."""
    worlds = dict.fromkeys(world for world, _ in cells)
    return _mean([_mean([mean for cell, mean in cells.items() if cell[0] == world]) for world in worlds])


def _steady(by_seed: Mapping[Cell, Floats]) -> float:
    """The least, over seeds, of the mean over worlds of the mean over conditions."""
    known = {cell: values for cell, values in by_seed.items() if np.isfinite(values).all()}
    rows = [
        np.mean([v for cell, v in known.items() if cell[0] == world], axis=0)
        for world in dict.fromkeys(w for w, _ in known)
    ]
    return float(np.min(np.mean(rows, axis=0))) if rows else float("nan")


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
