"""From the runs of a bonus and of the two references to the axes of its scorecard, and to one total.

A condition is scored by (x - random) / (count - random): 0 is what uniform random actions reach there, 1 what the same
agent reaches when its bonus counts visits to the environment's true cells. It counts only where random actions reach at
most two thirds of the count; elsewhere the scale is too short to read anything from. In every mean a score counts as
at least -0.5 and at most 1.5: one environment in which the count is weak cannot make up for failing in others. All
means are linear, with no choice of the best or worst: on fresh seeds random actions get 0 and the count 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpm.suite.environments import CLEAN, ENVIRONMENTS

Floats = NDArray[np.float64]
Cell = tuple[str, str]
"""Environment and condition."""
Key = tuple[str, Any]
"""Kind of a number (total, axes, environments, noise, conditions) and its name."""
RESAMPLES = 2_000
TAILS = (2.5, 97.5)
LEAST, MOST = -0.5, 1.5
"""What the score of a condition counts as, at least and at most."""
APART = {"smoke": 1.0, "short": 2 / 3}
"""The largest share of the count that random actions may reach in a condition that counts."""

AXES: Mapping[str, str] = {
    "clean": "coverage without noise",
    "noisy": "coverage under noise",
    "focus": "steps not wasted on noise",
    "unpaid": "noise ignored after learning",
    "first": "first visits rewarded more",
    "task": "reward of the task",
    "steady": "worst seed",
}
"""Axis to its words, in the order of the scorecard."""


@dataclass(frozen=True)
class Runs:
    """What the runs of one method measured, seed by seed."""

    seeds: tuple[int, ...]
    cells: Mapping[Cell, Mapping[str, Floats]]
    """Environment and condition to metric to one number a seed."""
    noise_rewards: Floats = field(default_factory=lambda: np.zeros(0))
    """The final reward of noise in the noise table, as a share of the reward of something new, one number a seed."""

    def picked(self, order: NDArray[np.int64]) -> Self:
        """With these places in the list of seeds instead."""
        cells = {cell: {m: values[order] for m, values in metrics.items()} for cell, metrics in self.cells.items()}
        noise = self.noise_rewards[order] if len(self.noise_rewards) else self.noise_rewards
        return replace(self, cells=cells, noise_rewards=noise)


def counted(random: Runs, counts: Runs, scale: str) -> frozenset[Cell]:
    """The conditions in which both references are far enough apart."""
    found = []
    for cell in random.cells:
        low, high = (float(runs.cells[cell][ENVIRONMENTS[cell[0]].metric].mean()) for runs in (random, counts))
        if high > low and low <= APART[scale] * high:
            found.append(cell)
    return frozenset(found)


def score(own: Runs, random: Runs, counts: Runs, scale: str) -> dict[Key, tuple[float, float, float]]:
    """Value, low and high of everything that `measure` gives.

    Values are from all seeds; intervals from drawing seeds again, of the bonus and of both references.
    """
    cells = counted(random, counts, scale)
    values = measure(own, random, counts, cells)
    rng = np.random.default_rng(0)
    draws: dict[Key, list[float]] = {key: [] for key in values}
    for _ in range(RESAMPLES):
        a, b, c = (runs.picked(rng.integers(len(runs.seeds), size=len(runs.seeds))) for runs in (own, random, counts))
        for key, drawn in measure(a, b, c, cells).items():
            draws[key].append(drawn)
    estimates = {}
    for key, value in values.items():
        finite = [draw for draw in draws[key] if np.isfinite(draw)]
        low, high = np.percentile(finite, TAILS) if finite and np.isfinite(value) else (value, value)
        estimates[key] = value, float(low), float(high)
    return estimates


def measure(own: Runs, random: Runs, counts: Runs, cells: frozenset[Cell]) -> dict[Key, float]:
    """Every number of the scorecard without intervals; the bonus is scored where it has runs."""

    def normalised(cell: Cell, metric: str) -> Floats:
        """One score a seed; NaN where the references are not apart."""
        low, high = (float(reference.cells[cell][metric].mean()) for reference in (random, counts))
        values = own.cells[cell][metric]
        return (values - low) / (high - low) if abs(high - low) > 1e-9 else np.full(len(values), np.nan)

    by_seed = {cell: normalised(cell, ENVIRONMENTS[cell[0]].metric) for cell in own.cells}
    whole = {cell: float(values.mean()) for cell, values in by_seed.items()}
    means = {cell: _bounded(mean) for cell, mean in whole.items() if cell in cells}
    coverage = {cell: mean for cell, mean in means.items() if ENVIRONMENTS[cell[0]].metric == "cells"}
    watched = [cell for cell in own.cells if cell[1] in ENVIRONMENTS[cell[0]].watched]
    clean = [cell for cell in own.cells if cell[1] == CLEAN and ENVIRONMENTS[cell[0]].metric == "cells"]
    environments = {name: _by_environment({c: m for c, m in means.items() if c[0] == name}) for name, _ in means}
    axes = {
        "clean": _mean(mean for (_, condition), mean in coverage.items() if condition == CLEAN),
        "noisy": _by_environment({cell: mean for cell, mean in coverage.items() if cell[1] != CLEAN}),
        "focus": _mean(_bounded(float(normalised(cell, "noise_share").mean())) for cell in watched),
        "unpaid": float(1 - own.noise_rewards.mean()) if len(own.noise_rewards) else float("nan"),
        "first": _mean(_mean(own.cells[cell]["first_visits"]) for cell in clean),
        "task": _by_environment({cell: mean for cell, mean in means.items() if cell not in coverage}),
        "steady": _worst_seed({cell: values.clip(LEAST, MOST) for cell, values in by_seed.items() if cell in cells}),
    }
    noise = {c: _mean(mean for (_, condition), mean in coverage.items() if condition == c) for _, c in coverage}
    kinds: dict[str, Mapping[Any, float]] = {"axes": axes, "environments": environments, "noise": noise}
    kinds |= {"conditions": whole, "total": {"": _mean(environments.values())}}
    return {(kind, name): value for kind, values in kinds.items() for name, value in values.items()}


def _bounded(value: float) -> float:
    return min(max(value, LEAST), MOST) if np.isfinite(value) else value


def _by_environment(cells: Mapping[Cell, float]) -> float:
    """The mean over environments of the mean over each one's conditions: one with many conditions counts once."""
    names = dict.fromkeys(name for name, _ in cells)
    return _mean(_mean(mean for cell, mean in cells.items() if cell[0] == name) for name in names)


def _worst_seed(by_seed: Mapping[Cell, Floats]) -> float:
    """The least, over seeds, of the mean over environments of the mean over conditions."""
    known = {cell: values for cell, values in by_seed.items() if np.isfinite(values).all()}
    names = dict.fromkeys(name for name, _ in known)
    rows = [np.mean([values for cell, values in known.items() if cell[0] == name], axis=0) for name in names]
    return float(np.min(np.mean(rows, axis=0))) if rows else float("nan")


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
