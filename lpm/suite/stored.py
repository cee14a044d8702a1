"""Cards and references in files.

The package holds the runs of both references as numbers, so that nobody must run them again, and the cards of the
project's leaderboard in short.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from lpm.storage.files import parse_json, read_regular
from lpm.suite.axes import Cell, Runs, counted, measure
from lpm.suite.card import FORMAT, Card
from lpm.suite.jobs import METRICS
from lpm.suite.worlds import REFERENCES, VERSION

BASELINES = "baselines.json"
MOST_BYTES = 2_000_000
"""Of a card; one of ours has about 20,000."""
SHORT = ("name", "label", "seeds", "total", "axes", "worlds", "families", "cost", "missing")
"""What the package carries of a card."""


# ---- what the package carries -------------------------------------------------------------------------------------
def packaged() -> dict[str, Any]:
    """References and short cards by scale; empty where this version of the suite has none."""
    file = resources.files("lpm.suite") / BASELINES
    if not file.is_file():
        return {}
    stored = json.loads(file.read_text(encoding="utf-8"))
    return dict(stored["scales"]) if stored.get("suite") == VERSION else {}


def packaged_references(scale: str) -> dict[str, Runs]:
    """Random actions and the oracle, as far as the package has them."""
    found = packaged().get(scale, {}).get("references", {})
    return {name: runs_from(found[name]) for name in REFERENCES if name in found}


def packaged_cards(scale: str) -> list[Card]:
    """The leaderboard's cards in short, best first."""
    return list(packaged().get(scale, {}).get("cards", ()))


def baselines(scales: Mapping[str, tuple[Mapping[str, Runs], Sequence[Card]]]) -> dict[str, Any]:
    """The content of the packaged file, from references and cards of each scale."""
    return {
        "format": "lpm-suite-baselines",
        "suite": VERSION,
        "scales": {
            scale: {
                "references": {name: runs_as_plain(runs) for name, runs in references.items()},
                "cards": [{key: card[key] for key in SHORT} for card in in_order(cards)],
            }
            for scale, (references, cards) in scales.items()
        },
    }


def runs_as_plain(runs: Runs) -> dict[str, Any]:
    """Runs as plain values; None for what is not known."""
    cells = {
        "/".join(cell): {
            metric: [round(float(value), 4) if math.isfinite(value) else None for value in metrics[metric]]
            for metric in METRICS
        }
        for cell, metrics in runs.cells.items()
    }
    return {"seeds": list(runs.seeds), "conditions": cells}


def runs_from(plain: Mapping[str, Any]) -> Runs:
    """Runs from plain values, of a card as well."""
    cells: dict[Cell, dict[str, Any]] = {}
    for key, numbers in plain["conditions"].items():
        world, _, condition = key.partition("/")
        cells[world, condition] = {metric: _array(numbers[metric]) for metric in METRICS}
    return Runs(tuple(plain["seeds"]), cells, _array(plain.get("still_paid", [])))


def _array(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


# ---- cards in files -----------------------------------------------------------------------------------------------
def read_cards(folder: Path) -> tuple[list[Card], list[str]]:
    """The cards of a folder, best first, and a warning for each file that is none."""
    cards, warnings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            cards.append(read_card(path))
        except ValueError as problem:
            warnings.append(str(problem))
    return in_order(cards), warnings


def read_card(path: Path) -> Card:
    """A card of this version of the suite; a ValueError names the file, what was expected and what came."""
    try:
        card: Card = parse_json(read_regular(path, MOST_BYTES))
        found = card["format"], card["suite"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise ValueError(f"{path}: expected a card of lpm suite, got {type(problem).__name__}: {problem}") from None
    if found != (FORMAT, VERSION):
        raise ValueError(f"{path}: expected {FORMAT!r} of suite {VERSION}, got {found[0]!r} of suite {found[1]!r}")
    return card


def _means(card: Card) -> tuple[Runs, Runs]:
    """Both references as the card has them: one number instead of one a seed."""

    def runs(name: str) -> Runs:
        means = {key: {m: [numbers[name][m]] for m in METRICS} for key, numbers in card["conditions"].items()}
        return runs_from({"seeds": [0], "conditions": means})

    return runs("random"), runs("oracle")


# ---- the leaderboard ----------------------------------------------------------------------------------------------
def in_order(cards: Sequence[Card]) -> list[Card]:
    """Cards of most worlds first, then by their total."""
    return sorted(cards, key=lambda card: (len(card["missing"]), -(card["total"]["value"] or 0.0), card["name"]))


def ranked(cards: Sequence[Card]) -> list[Card]:
    """The cards of bonuses: without those of the two references, which may be scored on fresh seeds."""
    return [card for card in cards if card["policy"] == "learnt"]


def stability(cards: Sequence[Card]) -> float:
    """Spearman's correlation of the totals between two disjoint halves of the seeds; NaN for fewer than three cards.

    Each half has its own seeds of the bonus and, where the package has them, of both references.
    """
    from scipy.stats import spearmanr

    whole = [card for card in cards if len(card["seeds"]) > 1]
    totals: list[list[float]] = [[], []]
    for card in whole:
        own, stored = runs_from(card), packaged_references(card["scale"])
        apart = len(stored) == len(REFERENCES) and all(set(own.cells) <= set(runs.cells) for runs in stored.values())
        for half in (0, 1):
            random, oracle = (_half(stored[name], half) for name in REFERENCES) if apart else _means(card)
            cells = counted(*_means(card), card["scale"])
            totals[half].append(measure(_half(own, half), random, oracle, cells)["total", ""])
    return float(spearmanr(*totals).statistic) if len(whole) > 2 else math.nan


def _half(runs: Runs, half: int) -> Runs:
    """Every other seed."""
    return runs.picked(np.arange(half, len(runs.seeds), 2))
