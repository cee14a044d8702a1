"""Make the leaderboard's files anew from stored runs of `lpm suite`, and say how stable its ranks are.

    python tools/suite_cards.py RUNS…                # folders that `lpm suite --out` wrote
    python tools/suite_cards.py --pages FOLDER RUNS…  # pages of the scorecards as well

It writes a scorecard a bonus to results/suite/, and to lpm/suite/baselines.json what the package carries: the numbers
of both references and the scorecards in short. A bonus whose runs fill no single environment is left out, and said so.

The scale is made of the references' first seeds (`--references`). Runs of theirs with other seeds, as from
`lpm suite random --compare cell_counts --first-seed 5`, are scored on it like a bonus: they must come out at 0
and at 1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lpm.commands.suite import write_scorecard
from lpm.experiments.experiment import folder_name, parse_method
from lpm.storage.files import write_atomic
from lpm.suite.axes import Runs
from lpm.suite.environments import REFERENCES, SEEDS, VERSION
from lpm.suite.jobs import NOISE_TABLE, measured
from lpm.suite.scorecard import BASELINES, METRICS, Scorecard, in_order, make_scorecard, read_scorecards, rounded
from lpm_paper.leaderboard import FOLDER as CARDS
from lpm_paper.leaderboard import ranked, stability

ROOT = Path(__file__).resolve().parents[1]
SCALE = "short"
SHORT = ("name", "label", "seeds", "total", "axes", "environments", "noise", "cost", "missing")
"""What the package carries of a scorecard."""


def stored_runs(folders: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Method to its results, of this version and scale."""
    found: dict[str, list[dict[str, Any]]] = {}
    noise: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(path for folder in folders for path in (folder / "runs").glob("**/seed_*.json")):
        result = json.loads(path.read_bytes())
        settings = result["settings"]
        if settings.get("suite") != VERSION:
            continue
        if settings["experiment"] == NOISE_TABLE:
            noise.setdefault(path.parent.name, []).append(result)
        elif settings["scale"] == SCALE:
            found.setdefault(settings["method"], []).append(result)
    return {name: [*results, *noise.get(folder_name(name), [])] for name, results in found.items()}


def make_cards(results: dict[str, list[dict[str, Any]]], first: int) -> tuple[dict[str, Runs], list[Scorecard]]:
    """Both references by their first seeds, and a scorecard for everything else, their other seeds too."""

    def seeds(name: str, low: float, high: float) -> list[dict[str, Any]]:
        return [result for result in results[name] if low <= result["settings"]["seed"] < high]

    references = {name: measured(seeds(name, 0, first), SCALE) for name in REFERENCES}
    cards = []
    for name in results:
        own = seeds(name, first if name in REFERENCES else 0, float("inf"))
        if not own:
            continue
        try:
            cards.append(
                make_scorecard(
                    name,
                    parse_method(name),
                    SCALE,
                    measured(own, SCALE),
                    references["random"],
                    references["cell_counts"],
                )
            )
        except ValueError as problem:
            print(f"{name}: left out: {problem}")
    return references, in_order(cards)


def baselines(references: dict[str, Runs], cards: Sequence[Scorecard]) -> dict[str, Any]:
    """The content of lpm/suite/baselines.json."""
    plain = {}
    for name, runs in references.items():
        cells = {"/".join(cell): {m: [rounded(v) for v in metrics[m]] for m in METRICS}
                 for cell, metrics in runs.cells.items()}  # fmt: skip
        plain[name] = {"seeds": list(runs.seeds), "conditions": cells}
    short = [{key: card[key] for key in SHORT} for card in in_order(cards)]
    scales = {SCALE: {"references": plain, "scorecards": short}}
    return {"format": "lpm-suite-baselines", "suite": VERSION, "scales": scales}


def main(words: list[str] | None = None) -> int:
    """Write scorecards and baselines; print the leaderboard and its stability."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="folders of `lpm suite`; none: say how stable ranks are")
    parser.add_argument("--pages", type=Path, help="a folder for the pages")
    parser.add_argument("--references", type=int, default=SEEDS[SCALE], help="how many seeds of both make the scale")
    options = parser.parse_args(words)
    if options.runs:
        results = stored_runs(options.runs)
        references, cards = make_cards(results, options.references)
        for card in cards:
            text = json.dumps(card, indent=1, allow_nan=False) + "\n"
            write_atomic(CARDS / f"{folder_name(card['name'])}.json", text.encode())
            if options.pages:
                runs = [r for name in (card["name"], *REFERENCES) for r in results[name]]
                print(f"page: {write_scorecard(options.pages, card, cards, runs)}")
        content = json.dumps(baselines(references, ranked(cards)), separators=(",", ":"), allow_nan=False) + "\n"
        write_atomic(ROOT / "lpm" / "suite" / BASELINES, content.encode())
    cards, warnings = read_scorecards(CARDS)
    for warning in warnings:
        print(f"warning: {warning}")
    for card in cards:
        total = card["total"]
        print(f"{card['label']:24} {total['value']:6.3f} [{total['low']:.3f}, {total['high']:.3f}]  {card['missing']}")
    print(
        f"Spearman's correlation of the totals between two disjoint halves of the seeds: {stability(ranked(cards)):.2f}"
    )
    return int(bool(warnings))


if __name__ == "__main__":
    raise SystemExit(main())
