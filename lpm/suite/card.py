"""A card: what the suite says of one bonus, as plain values that a file holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lpm.experiments.experiment import Method
from lpm.runs.machine import machine
from lpm.suite.axes import AXES, Estimate, Runs, score
from lpm.suite.run import METRICS
from lpm.suite.worlds import LABELS, VERSION, WORLDS

FORMAT = "lpm-suite-card"
Card = dict[str, Any]


def make_card(name: str, method: Method, scale: str, own: Runs, random: Runs, oracle: Runs) -> Card:
    """Axes, total and the numbers behind them."""
    scores = score(own, random, oracle)
    shares = [float(np.mean(metrics["bonus_share"])) for metrics in own.cells.values()]
    return {
        "format": FORMAT,
        "suite": VERSION,
        "scale": scale,
        "name": name,
        "label": method.label,
        "bonus": method.bonus,
        "fields": dict(method.fields),
        "policy": method.policy,
        "seeds": list(own.seeds),
        "reference_seeds": list(oracle.seeds),
        "total": _plain(scores.total),
        "axes": {axis: _plain(estimate) for axis, estimate in scores.axes.items()},
        "worlds": {world: _plain(estimate) for world, estimate in scores.worlds.items()},
        "families": {family: _plain(estimate) for family, estimate in scores.families.items()},
        "conditions": {
            f"{world}/{condition}": {
                **_plain(scores.conditions[world, condition]),
                **{metric: [_rounded(value) for value in own.cells[world, condition][metric]] for metric in METRICS},
                "random": _references(random, (world, condition)),
                "oracle": _references(oracle, (world, condition)),
                "seconds": _rounded(np.mean(own.cells[world, condition]["seconds"])),
            }
            for world, condition in own.cells
        },
        "still_paid": [_rounded(value) for value in own.arms],
        # the loop's time, the bonus's own part included, as a multiple of the rest
        "cost": _rounded(1 / (1 - float(np.mean(shares)))),
        "machine": machine(),
    }


def summary(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The card as lines of a table: what, and how much."""
    rows = [("total", shown(card["total"]))]
    rows += [(AXES[axis], shown(estimate)) for axis, estimate in card["axes"].items()]
    rows += [("cost, times the agent alone", f"{card['cost']:.2f}")]
    rows += [(f"world: {WORLDS[world].label}", shown(estimate)) for world, estimate in card["worlds"].items()]
    rows += [(f"family: {LABELS[family]}", shown(estimate)) for family, estimate in card["families"].items()]
    return rows


def shown(estimate: Mapping[str, Any]) -> str:
    """A number with its interval."""
    if estimate["value"] is None:
        return "–"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def _references(runs: Runs, cell: tuple[str, str]) -> dict[str, Any]:
    return {metric: _rounded(np.mean(runs.cells[cell][metric])) for metric in METRICS}


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in dataclasses.asdict(estimate).items()}


def _rounded(value: Any) -> float | None:
    """Four digits after the point; None for what is not known, which JSON has no number for."""
    number = float(value)
    return round(number, 4) if math.isfinite(number) else None
