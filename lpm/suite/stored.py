"""Scorecards and references in files.

The package holds the runs of both references as numbers, so that nobody must run them again, and the scorecards of the
project's leaderboard in short.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from lpm.storage.files import parse_json, read_regular
from lpm.suite.axes import Cell, Runs
from lpm.suite.environments import REFERENCES, VERSION
from lpm.suite.scorecard import FORMAT, METRICS, Scorecard

BASELINES = "baselines.json"
MOST_BYTES = 2_000_000
"""Of a scorecard; one of ours has about 20,000."""


def packaged() -> dict[str, Any]:
    """References and short scorecards by scale; empty where this version of the suite has none."""
    file = resources.files("lpm.suite") / BASELINES
    if not file.is_file():
        return {}
    stored = json.loads(file.read_text(encoding="utf-8"))
    return dict(stored["scales"]) if stored.get("suite") == VERSION else {}


def packaged_references(scale: str) -> dict[str, Runs]:
    """Random actions and the count of true cells, as far as the package has them."""
    found = packaged().get(scale, {}).get("references", {})
    return {name: runs_from(found[name]) for name in REFERENCES if name in found}


def packaged_scorecards(scale: str) -> list[Scorecard]:
    """The leaderboard's scorecards in short, best first."""
    return list(packaged().get(scale, {}).get("scorecards", ()))


def runs_from(plain: Mapping[str, Any]) -> Runs:
    """Runs from the plain values of a reference or of a scorecard."""
    cells: dict[Cell, dict[str, Any]] = {}
    for key, numbers in plain["conditions"].items():
        name, _, condition = key.partition("/")
        cells[name, condition] = {metric: _array(numbers[metric]) for metric in METRICS}
    return Runs(tuple(plain["seeds"]), cells, _array(plain.get("noise_rewards", [])))


def _array(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def read_scorecards(folder: Path) -> tuple[list[Scorecard], list[str]]:
    """The scorecards of a folder, best first, and a warning for each file that is none."""
    cards, warnings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            cards.append(read_scorecard(path))
        except ValueError as problem:
            warnings.append(str(problem))
    return in_order(cards), warnings


def read_scorecard(path: Path) -> Scorecard:
    """A scorecard of this version of the suite; a ValueError names the file, what was expected and what came."""
    try:
        card: Scorecard = parse_json(read_regular(path, MOST_BYTES))
        found = card["format"], card["suite"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise ValueError(f"{path}: expected a scorecard, got {type(problem).__name__}: {problem}") from None
    if found != (FORMAT, VERSION):
        raise ValueError(f"{path}: expected {FORMAT!r} of suite {VERSION}, got {found[0]!r} of suite {found[1]!r}")
    return card


def in_order(cards: Sequence[Scorecard]) -> list[Scorecard]:
    """Scorecards of most environments first, then by their total."""
    return sorted(cards, key=lambda card: (len(card["missing"]), -(card["total"]["value"] or 0.0), card["name"]))
