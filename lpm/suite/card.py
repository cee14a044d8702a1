"""A card: what the suite says of one bonus, as plain values that a file holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lpm.core.registry import lookup
from lpm.experiments.experiment import Method
from lpm.report.families import family_of
from lpm.runs.machine import machine
from lpm.suite.axes import AXES, Estimate, Runs, counted, score
from lpm.suite.jobs import METRICS
from lpm.suite.worlds import CLEAN, LABELS, VERSION, WORLDS

FORMAT = "lpm-suite-card"
Card = dict[str, Any]


def make_card(name: str, method: Method, scale: str, own: Runs, random: Runs, oracle: Runs) -> Card:
    """Axes, total and the numbers behind them, in the worlds that all three were run in."""
    both = [cell for cell in own.cells if cell in random.cells and cell in oracle.cells]
    own = replace(own, cells={cell: own.cells[cell] for cell in both})
    scores = score(own, random, oracle, scale)
    cells = counted(random, oracle, scale)
    shares = [float(np.mean(metrics["bonus_share"])) for metrics in own.cells.values()]
    return {
        "format": FORMAT,
        "suite": VERSION,
        "scale": scale,
        "name": name,
        "label": method.label,
        "bonus": method.bonus,
        "fields": dict(method.fields),
        "family": lookup(method.bonus).bonus.family,
        "policy": method.policy,
        "seeds": list(own.seeds),
        "reference_seeds": list(oracle.seeds),
        "missing": [world for world in WORLDS if all(cell[0] != world for cell in both)],
        "total": _plain(scores.total),
        "axes": {axis: _plain(estimate) for axis, estimate in scores.axes.items()},
        "worlds": {world: _plain(estimate) for world, estimate in scores.worlds.items()},
        "families": {family: _plain(estimate) for family, estimate in scores.families.items()},
        "conditions": {
            f"{world}/{condition}": {
                **_plain(scores.conditions[world, condition]),
                "counts": (world, condition) in cells,
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


def family_of_card(card: Mapping[str, Any]) -> str:
    """The family of the card's bonus, for colours."""
    return family_of(card["bonus"], {card["bonus"]: card.get("family", "")})


def summary(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The card as lines of a table: what, and how much."""
    rows = [("total", shown(card["total"]))]
    rows += [(AXES[axis], shown(estimate)) for axis, estimate in card["axes"].items()]
    rows += [("cost, times the agent alone", f"{card['cost']:.2f}")]
    rows += [(f"task: {WORLDS[world].label}", shown(estimate)) for world, estimate in card["worlds"].items()]
    rows += [(f"noise: {LABELS[family]}", shown(estimate)) for family, estimate in card["families"].items()]
    return rows


def words(card: Mapping[str, Any]) -> str:
    """The card in plain words, made from its numbers."""
    value = {axis: estimate["value"] for axis, estimate in card["axes"].items()}
    clean = value["clean"]
    said = [f"{card['label']} scores {shown(card['total'])} in total."]
    if clean is not None:
        reach = f"goes {_percent(clean)} of the way from random actions to a count of the true cells"
        said.append(f"Without noise it {'reaches what random actions do' if clean < 0.05 else reach}.")
        if clean >= 0.05:
            said += _listed({family: _kept(card, family) for family in card["families"] if family != CLEAN})
    if value["focus"] is not None:
        said.append(f"It {_wasted(value['focus'])}.")
    if value["unpaid"] is not None:
        still = _percent(1 - value["unpaid"])
        said.append(f"After learning, pure noise gets {still} of the reward of something new.")
    if value["task"] is not None:
        gets = f"gets {_percent(value['task'])} of the success of a count of the true cells"
        said.append(f"In the task it {'does no better than random actions' if value['task'] < 0.05 else gets}.")
    said.append(f"A run takes {card['cost']:.2f} times as long as without a bonus.")
    if card["scale"] == "smoke":
        said.append("At the smoke scale runs are too short for any of this: it shows that everything runs.")
    if card["missing"]:
        names = ", ".join(WORLDS[world].label for world in card["missing"])
        said.append(f"Not run, and not in the total: {names}.")
    return " ".join(said)


def _wasted(focus: float) -> str:
    """Steps on noise, between those of random actions (0) and of the oracle (1)."""
    if abs(focus) < 0.05:
        return "spends as many steps on noise as random actions do"
    if focus < 0:
        return "spends more steps on noise than random actions do"
    return f"avoids {_percent(min(focus, 1))} of the steps on noise that a count of the true cells avoids"


def _kept(card: Mapping[str, Any], family: str) -> float:
    """The score under a family as a share of the clean score, over the worlds that have both."""
    pairs = [
        (numbers["value"], card["conditions"][f"{world}/{CLEAN}"]["value"])
        for key, numbers in card["conditions"].items()
        for world, _, condition in (key.partition("/"),)
        if condition == family and WORLDS[world].metric == "cells" and numbers["counts"]
    ]
    known = [(noisy, clean) for noisy, clean in pairs if noisy is not None and clean is not None]
    below = sum(clean for _, clean in known)
    return sum(noisy for noisy, _ in known) / below if below > 0 else math.nan


def _listed(kept: Mapping[str, float]) -> list[str]:
    """What is kept of the clean coverage: where nearly all is, and each family that costs, the worst first."""
    known = {family: share for family, share in kept.items() if math.isfinite(share)}
    safe = [LABELS[family] for family, share in known.items() if share >= 0.9]
    lost = sorted((share, LABELS[family]) for family, share in known.items() if share < 0.9)
    parts = []
    if safe:
        least = min(share for share in known.values() if share >= 0.9)
        all_or_part = "all" if least >= 0.995 else f"at least {_percent(least)}"
        parts.append(f"It keeps {all_or_part} of that under {_and(safe)}.")
    gone = [label for share, label in lost if share <= 0.1]
    if gone:
        parts.append(f"It loses nearly all of it to {_and(gone)}.")
    some = [f"{label} ({_percent(1 - share)})" for share, label in lost if share > 0.1]
    if some:
        parts.append(f"It loses part of it to {_and(some)}.")
    return parts


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def shown(estimate: Mapping[str, Any]) -> str:
    """A number with its interval."""
    if estimate["value"] is None:
        return "–"
    return f"{hundredths(estimate['value'])} [{hundredths(estimate['low'])}, {hundredths(estimate['high'])}]"


def hundredths(value: float | None) -> str:
    """Two digits after the point; never -0.00."""
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _references(runs: Runs, cell: tuple[str, str]) -> dict[str, Any]:
    return {metric: _rounded(np.mean(runs.cells[cell][metric])) for metric in METRICS}


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in dataclasses.asdict(estimate).items()}


def _rounded(value: Any) -> float | None:
    """Four digits after the point; None for what is not known, which JSON has no number for."""
    number = float(value)
    return round(number, 4) if math.isfinite(number) else None
