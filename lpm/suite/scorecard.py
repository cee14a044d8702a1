"""A scorecard: what the suite says of one bonus, as plain values that a file holds.

The package holds the runs of both references as numbers, so that nobody must run them again, and the scorecards of the
project's leaderboard in short.
"""

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from lpm.core.registry import lookup
from lpm.experiments.experiment import Method
from lpm.runs.machine import machine
from lpm.storage.files import parse_json, read_regular
from lpm.suite.axes import AXES, Cell, Key, Runs, counted, score
from lpm.suite.environments import CLEAN, ENVIRONMENTS, LABELS, REFERENCES, VERSION

FORMAT = "lpm-suite-scorecard"
METRICS = ("cells", "noise_share", "success", "first_visits")
Scorecard = dict[str, Any]


def make_scorecard(name: str, method: Method, scale: str, own: Runs, random: Runs, cell_counts: Runs) -> Scorecard:
    """Axes, total and the numbers behind them, in the environments that all three were run in."""
    both = {cell: metrics for cell, metrics in own.cells.items() if cell in random.cells and cell in cell_counts.cells}
    own, entry = Runs(own.seeds, both, own.noise_rewards), lookup(method.bonus)
    scores, counting = score(own, random, cell_counts, scale), counted(random, cell_counts, scale)

    def estimate(key: Key) -> dict[str, float | None]:
        return dict(zip(("value", "low", "high"), map(rounded, scores[key]), strict=True))

    def means(runs: Runs, cell: tuple[str, str]) -> dict[str, float | None]:
        return {metric: rounded(np.mean(runs.cells[cell][metric])) for metric in METRICS}

    return {
        "format": FORMAT,
        "suite": VERSION,
        "scale": scale,
        "name": name,
        "label": entry.label if method.label == entry.name else method.label,
        "bonus": method.bonus,
        "fields": dict(method.fields),
        "family": entry.bonus.family,
        "policy": method.policy,
        "seeds": list(own.seeds),
        "reference_seeds": list(cell_counts.seeds),
        "missing": [name for name in ENVIRONMENTS if all(cell[0] != name for cell in both)],
        "total": estimate(("total", "")),
        **{kind: {key[1]: estimate(key) for key in scores if key[0] == kind}
           for kind in ("axes", "environments", "noise")},
        "conditions": {
            "/".join(cell): {
                **estimate(("conditions", cell)),
                "counts": cell in counting,
                **{metric: [rounded(value) for value in metrics[metric]] for metric in METRICS},
                "random": means(random, cell),
                "cell_counts": means(cell_counts, cell),
                "seconds": rounded(np.mean(metrics["seconds"])),
            }
            for cell, metrics in both.items()
        },
        "noise_rewards": [rounded(value) for value in own.noise_rewards],
        # the loop's time, the bonus's own part included, as a multiple of the rest
        "cost": rounded(1 / (1 - float(np.mean([np.mean(metrics["bonus_share"]) for metrics in both.values()])))),
        "machine": machine(),
    }  # fmt: skip


def rows_of(card: Scorecard) -> list[tuple[str, str, str]]:
    """Kind, name and words of every score: the total, the axes, each kind of noise, each environment."""
    rows = [("total", "", "total"), *(("axes", axis, words) for axis, words in AXES.items() if axis in card["axes"])]
    rows += [("noise", name, LABELS[name]) for name in card["noise"]]
    return [*rows, *(("environments", name, ENVIRONMENTS[name].label) for name in card["environments"])]


def estimate_of(card: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Value, low and high of a score; empty if the scorecard lacks it."""
    return dict(card["total"] if kind == "total" else card[kind].get(name, {}))


def summary(card: Scorecard) -> list[tuple[str, str]]:
    """The scorecard as lines of a table: what, and how much."""
    before = {"noise": "noise: ", "environments": "task: "}
    rows = [(before.get(kind, "") + words, shown(estimate_of(card, kind, name))) for kind, name, words in rows_of(card)]
    return [*rows, ("cost, times the agent alone", f"{card['cost']:.2f}")]


def in_words(card: Scorecard) -> str:
    """The scorecard in plain words, made from its numbers."""
    value = {axis: estimate["value"] for axis, estimate in card["axes"].items()}
    clean, focus, unpaid, task = (value[axis] for axis in ("clean", "focus", "unpaid", "task"))
    said = [f"{card['label']} scores {shown(card['total'])} in total."]
    if clean is not None and clean < 0.05:
        said.append("Without noise it reaches what random actions do.")
    elif clean is not None:
        said.append(f"Without noise it goes {clean:.0%} of the way from random actions to a count of the true cells.")
        said += _kept_under_noise(card)
    if focus is not None:
        more = "as many" if abs(focus) < 0.05 else "more" if focus < 0 else "fewer"
        said.append(f"It spends {more} steps on noise {'as' if more == 'as many' else 'than'} random actions do.")
    if unpaid is not None:
        said.append(f"After learning, pure noise gets {1 - unpaid:.0%} of the reward of something new.")
    if task is not None:
        gets = f"gets {task:.0%} of the success of a count of the true cells"
        said.append(f"In the task it {'does no better than random actions' if task < 0.05 else gets}.")
    said.append(f"A run takes {card['cost']:.2f} times as long as without a bonus.")
    if card["scale"] == "smoke":
        said.append("At the smoke scale runs are too short for any of this: it shows that everything runs.")
    if card["missing"]:
        said.append(f"Not run, and not in the total: {', '.join(ENVIRONMENTS[n].label for n in card['missing'])}.")
    return " ".join(said).replace("%", " %")


def _kept_under_noise(card: Scorecard) -> list[str]:
    """What is kept of the clean coverage under each kind of noise, over the environments that have both."""
    kept = {}
    for noise in card["noise"]:
        here = {name: card["conditions"].get(f"{name}/{noise}") for name in ENVIRONMENTS}
        pairs = [(numbers["value"], card["conditions"][f"{name}/{CLEAN}"]["value"]) for name, numbers in here.items()
                 if numbers and numbers["counts"] and ENVIRONMENTS[name].metric == "cells"]  # fmt: skip
        known = [pair for pair in pairs if None not in pair]
        if noise != CLEAN and (below := sum(clean for _, clean in known)) > 0:
            kept[LABELS[noise]] = sum(noisy for noisy, _ in known) / below
    safe = [label for label, share in kept.items() if share >= 0.9]
    lost = [f"{label} ({1 - min(max(s, 0), 1):.0%})" for label, s in sorted(kept.items(), key=itemgetter(1)) if s < 0.9]
    said = [f"It keeps nine tenths or more of that under {_listed(safe)}."] if safe else []
    return [*said, *([f"It loses part of it to {_listed(lost)}."] if lost else [])]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shown(estimate: Mapping[str, Any]) -> str:
    """A number with its interval."""
    if estimate["value"] is None:
        return "–"
    return f"{hundredths(estimate['value'])} [{hundredths(estimate['low'])}, {hundredths(estimate['high'])}]"


def hundredths(value: float | None) -> str:
    """Two digits after the point; never -0.00."""
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"


def rounded(value: Any) -> float | None:
    """Four digits after the point; None for what is not known, which JSON has no number for."""
    number = float(value)
    return round(number, 4) if math.isfinite(number) else None


# ---- in files -------------------------------------------------------------------------------------------------
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
