"""Cards and references in files: what the package carries, and cards that others send.

The package holds the runs of both references as numbers, so that nobody must run them again, and the cards of the
project's leaderboard in short. A file from elsewhere is read as text, checked against the form of a card, and its axes
are computed anew from its own numbers per seed: a card that does not follow from them is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from lpm.files import parse_json, read_regular
from lpm.suite.axes import AXES, Cell, Runs, counted, measure
from lpm.suite.card import FORMAT, Card
from lpm.suite.run import METRICS, conditions
from lpm.suite.worlds import LABELS, REFERENCES, SEEDS, VERSION, WORLDS

BASELINES = "baselines.json"
MOST_BYTES = 2_000_000
"""Of a card; one of ours has about 20,000."""
TOLERANCE = 0.02
"""Between a stored score and the same from the stored numbers, which have four digits."""
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


# ---- cards of others ----------------------------------------------------------------------------------------------
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
    """A card; a ValueError names the file, what was expected and what came."""
    try:
        content = read_regular(path, MOST_BYTES)
        try:
            card = parse_json(content)
        except ValueError as problem:
            raise ValueError(f"expected JSON, got {type(problem).__name__}: {problem}") from None
        check_card(card)
    except (ValueError, OSError) as problem:
        raise ValueError(f"{path}: not a card of lpm suite: {problem}") from None
    except (LookupError, TypeError, AttributeError, OverflowError) as problem:
        unlike = f"expected the form of one, got {type(problem).__name__}: {problem}"
        raise ValueError(f"{path}: not a card of lpm suite: {unlike}") from None
    return dict(card)


def check_card(card: Any) -> None:
    """Whether the value has the form of a card of this version, and its scores follow from its numbers."""
    _expect("the file", card, dict)
    for key, value in (("format", FORMAT), ("suite", VERSION)):
        if card.get(key) != value:
            raise ValueError(f"{key}: expected {value!r}, got {_short(card.get(key))}")
    if card.get("scale") not in SEEDS:
        raise ValueError(f"scale: expected one of {', '.join(SEEDS)}, got {_short(card.get('scale'))}")
    for key in ("name", "label", "bonus", "policy"):
        text = _expect(key, card.get(key), str)
        if not 0 < len(text) <= 200 or not text.isprintable():
            raise ValueError(f"{key}: expected 1 to 200 printable characters, got {_short(text)}")
    _expect("fields", card.get("fields"), dict)
    _expect("machine", card.get("machine"), dict)
    seeds = _expect("seeds", card.get("seeds"), list)
    if not seeds or len(set(map(str, seeds))) < len(seeds) or not all(_is_int(seed) for seed in seeds):
        raise ValueError(f"seeds: expected different integers from 0, got {_short(seeds)}")
    _estimate("total", card.get("total"))
    for kind, known in (("axes", AXES), ("worlds", WORLDS), ("families", LABELS)):
        for key, estimate in _expect(kind, card.get(kind), dict).items():
            if key not in known:
                raise ValueError(f"{kind}: expected some of {', '.join(known)}, got {_short(key)}")
            _estimate(f"{kind}.{key}", estimate)
    absent = [axis for axis in AXES if axis not in card["axes"]]
    if absent:
        raise ValueError(f"axes: expected {', '.join(AXES)}, got none of {', '.join(absent)}")
    _check_conditions(card, len(seeds))
    paid = _numbers("still_paid", card.get("still_paid"))
    if len(paid) not in (0, len(seeds)):
        raise ValueError(f"still_paid: expected a number for each of {len(seeds)} seeds, got {len(paid)}")
    _number("cost", card.get("cost"))
    if card.get("cost") is None or card["cost"] <= 0:
        raise ValueError(f"cost: expected a number above 0, got {_short(card.get('cost'))}")
    _check_scores(card)


def _check_conditions(card: Card, seeds: int) -> None:
    """Whole worlds, and in each condition a number a seed and the means of both references."""
    known = ["/".join(cell) for cell in conditions(card["scale"])]
    found = _expect("conditions", card.get("conditions"), dict)
    for key, numbers in found.items():
        if key not in known:
            raise ValueError(f"conditions: expected some of {', '.join(known)}, got {_short(key)}")
        _expect(f"conditions.{key}", numbers, dict)
        for metric in METRICS:
            values = _numbers(f"conditions.{key}.{metric}", numbers.get(metric))
            if len(values) != seeds:
                raise ValueError(f"conditions.{key}.{metric}: expected {seeds} numbers, got {len(values)}")
            for reference in REFERENCES:
                means = _expect(f"conditions.{key}.{reference}", numbers.get(reference), dict)
                _number(f"conditions.{key}.{reference}.{metric}", means.get(metric))
    worlds = {key.partition("/")[0] for key in found}
    parts = [key for key in known if key.partition("/")[0] in worlds and key not in found]
    if not found or parts:
        raise ValueError(f"conditions: expected all of a world, got none of {', '.join(parts or known)}")
    missing = [world for world in WORLDS if world not in worlds]
    if card.get("missing") != missing:
        raise ValueError(f"missing: expected {missing}, the worlds without runs, got {_short(card.get('missing'))}")


def _check_scores(card: Card) -> None:
    """The scores once more from the numbers per seed, and the references against those of the package."""
    for name, runs in packaged_references(card["scale"]).items():
        for key, numbers in card["conditions"].items():
            world, _, condition = key.partition("/")
            for metric, values in runs.cells.get((world, condition), {}).items():
                ours, theirs = float(values.mean()), numbers[name][metric]
                if math.isfinite(ours) and (theirs is None or abs(ours - theirs) > 1e-3):
                    expected = f"the package's reference, {ours:.4g} {metric}"
                    raise ValueError(
                        f"conditions.{key}.{name}: expected {expected}, got {theirs}; run without --own-references"
                    )
    random, oracle = _means(card)
    cells = counted(random, oracle, card["scale"])
    for key, numbers in card["conditions"].items():
        if numbers.get("counts") is not (tuple(key.split("/")) in cells):
            raise ValueError(f"conditions.{key}.counts: expected {not numbers.get('counts')}, from its references")
    for (kind, what), value in measure(runs_from(card), random, oracle, cells).items():
        key = "/".join(what) if isinstance(what, tuple) else str(what)
        stored = card["total"] if kind == "total" else card[kind].get(key, {"value": None})
        given = math.nan if stored["value"] is None else float(stored["value"])
        if math.isfinite(value) != math.isfinite(given) or (math.isfinite(value) and abs(value - given) > TOLERANCE):
            where = kind if kind == "total" else f"{kind}.{key}"
            raise ValueError(f"{where}: expected {value:.4f}, which follows from its numbers per seed, got {given}")


def _means(card: Card) -> tuple[Runs, Runs]:
    """Both references as the card has them: one number instead of one a seed."""

    def runs(name: str) -> Runs:
        means = {key: {m: [numbers[name][m]] for m in METRICS} for key, numbers in card["conditions"].items()}
        return runs_from({"seeds": [0], "conditions": means})

    return runs("random"), runs("oracle")


def _expect(key: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        words = {"dict": "an object", "list": "a list", "str": "a text"}[kind.__name__]
        raise ValueError(f"{key}: expected {words}, got {_short(value)}")
    return value


def _estimate(key: str, value: Any) -> None:
    ends = {end: _expect(key, value, dict).get(end) for end in ("value", "low", "high")}
    for end, number in ends.items():
        _number(f"{key}.{end}", number)
    if None in ends.values() and set(ends.values()) != {None}:
        raise ValueError(f"{key}: expected value, low and high, or null for all, got {_short(value)}")


def _numbers(key: str, values: Any) -> list[Any]:
    for value in _expect(key, values, list):
        _number(key, value)
    return list(values)


def _number(key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e9:
        raise ValueError(f"{key}: expected a number or null, got {_short(value)}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


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
