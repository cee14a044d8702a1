"""The leaderboard of the suite, from the scorecards in results/suite: tables, picture, and how stable its order is."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from lpm.experiments.experiment import BASELINES
from lpm.report.families import FAMILIES, RECOMMENDED, family_of
from lpm.report.text import markdown_table, plain
from lpm.suite.axes import AXES, LEAST, MOST, counted, measure
from lpm.suite.environments import ENVIRONMENTS, LABELS, REFERENCES
from lpm.suite.scorecard import Scorecard, hundredths, packaged_references, read_scorecards, runs_from, shown
from lpm_paper.benchmark_results import save
from lpm_paper.methods import LABELS as NAMES

FOLDER = Path(__file__).resolve().parents[1] / "results" / "suite"
TIME = "time"
LONGEST = 34
"""Characters of a label in the picture."""
GREY = "#9aa2aa"


def ranked(cards: Sequence[Scorecard]) -> list[Scorecard]:
    """The scorecards of bonuses: without those of the two references, which may be scored on fresh seeds."""
    return [card for card in cards if card["policy"] == "learnt"]


def scorecards() -> list[Scorecard]:
    """That of every bonus, best first, under the name that all tables have for it."""
    cards = ranked(read_scorecards(FOLDER)[0])
    if not cards:
        raise SystemExit("no scorecards in results/suite")
    return [{**card, "label": NAMES.get(card["name"], card["label"])} for card in cards]


def stability(cards: Sequence[Scorecard]) -> float:
    """Spearman's correlation of the totals between two disjoint halves of the seeds; NaN for fewer than three.

    Each half has its own seeds of the bonus and of both references.
    """
    from scipy.stats import spearmanr

    whole = [card for card in cards if len(card["seeds"]) > 1]
    totals: list[list[float]] = [[], []]
    for card in whole:
        own = runs_from(card)
        random, cell_counts = (packaged_references(card["scale"])[name] for name in REFERENCES)
        cells = counted(random, cell_counts, card["scale"])
        for half, found in enumerate(totals):
            a, b, c = (runs.picked(np.arange(half, len(runs.seeds), 2)) for runs in (own, random, cell_counts))
            found.append(measure(a, b, c, cells)["total", ""])
    return float(spearmanr(*totals).statistic) if len(whole) > 2 else math.nan


# ---- parts of a page ------------------------------------------------------------------------------------------
def picture() -> str:
    """The picture's place in the page."""
    return f"![Total score of {len(scorecards())} bonuses with intervals, and what it consists of](images/suite.png)\n"


def table() -> str:
    """A row a bonus: total, coverage, success, time; folded below: the interval and the other axes."""
    first, rest = ("clean", "noisy", "task"), ("focus", "unpaid", "first", "steady")
    cards, short, long = scorecards(), [], []
    for place, card in enumerate(cards, 1):
        value = {axis: hundredths(card["axes"][axis]["value"]) for axis in AXES}
        name = f"`{card['name'].replace('`', '')}`" + ("†" if card["missing"] else "")
        total, time = hundredths(card["total"]["value"]), f"{card['cost']:.1f}"
        row = [f"{place}", name, total, *(value[axis] for axis in first), time]
        short.append([f"**{cell}**" for cell in row] if card["name"] == RECOMMENDED else row)
        long.append([name, shown(card["total"]), *(value[axis] for axis in rest), f"{len(card['seeds'])}"])
    above = markdown_table(("", "bonus", "total", *(AXES[axis] for axis in first), "time, × no bonus"), short)
    below = markdown_table(("bonus", "total [95 %]", *(AXES[axis] for axis in rest), "seeds"), long)
    part = [f"`{card['name']}` without {', '.join(card['missing'])}" for card in cards if card["missing"]]
    note = f"† not all tasks, so the totals do not compare: {'; '.join(part)}.\n\n" if part else ""
    return f"{above}\n{note}{folded('Intervals, seeds and the other axes', below)}"


def folded(title: str, content: str) -> str:
    """What opens with a click, on the site and on GitHub."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{content}\n</details>\n'


def references() -> str:
    """What random actions and a count of the true cells reach in every condition, and how far apart they are."""
    random, cell_counts = (packaged_references("short")[name] for name in REFERENCES)
    counts, rows = counted(random, cell_counts, "short"), []
    for cell in random.cells:
        environment = ENVIRONMENTS[cell[0]]
        low, high = (float(runs.cells[cell][environment.metric].mean()) for runs in (random, cell_counts))
        row = [environment.label, LABELS[cell[1]], environment.metric, f"{low:.3g}", f"{high:.4g}"]
        rows.append([*row, f"{low / high:.2f}" if high else "–", "yes" if cell in counts else "no"])
    heads = ("task", "noise", "measured", "random actions", "count of true cells", "ratio", "scored")
    return markdown_table(heads, rows)


def ends() -> str:
    """Both references on fresh seeds, scored like a bonus."""
    cards = {card["policy"]: card for card in read_scorecards(FOLDER)[0]}
    axes, rows = ("clean", "noisy", "focus", "task"), []
    for name, policy, exact in (("random", "uniform", 0), ("cell_counts", "cell_counts", 1)):
        if policy not in cards:
            raise SystemExit(f"results/suite has no scorecard of policy {policy}")
        card = cards[policy]
        numbers = [hundredths(card["axes"][axis]["value"]) for axis in axes]
        rows.append([BASELINES[name].label, f"{exact}", shown(card["total"]), *numbers, f"{len(card['seeds'])}"])
    heads = ("", "by construction", "total [95 %]", *(AXES[axis] for axis in axes), "fresh seeds")
    return markdown_table(heads, rows)


def stability_sentence() -> str:
    """How far the order depends on the seeds."""
    cards = scorecards()
    halves, found = sum(len(card["seeds"]) > 1 for card in cards), stability(cards)
    return f"Over {halves} bonuses, Spearman's correlation of the totals between the two halves is {found:.2f}.\n"


PARTS = {"picture": picture, "leaderboard": table, "references": references, "ends": ends,
         "stability": stability_sentence}  # fmt: skip
"""Part of the page to what writes it."""


# ---- the picture ----------------------------------------------------------------------------------------------
def picture_data(cards: Sequence[Scorecard]) -> list[list[Any]]:
    """What the picture is drawn from."""
    return [[card["label"], card["bonus"], *card["total"].values(), *_columns(card).values(), len(card["missing"])]
            for card in cards]  # fmt: skip


def _columns(card: Scorecard) -> dict[str, float | None]:
    """Title to number: total, axes and time."""
    axes = {words: card["axes"].get(axis, {}).get("value") for axis, words in AXES.items()}
    return {"total": card["total"]["value"], **axes, TIME: card["cost"]}


def _family(card: Scorecard) -> str:
    return family_of(card["bonus"], {card["bonus"]: card.get("family", "")})


def png(cards: Sequence[Scorecard]) -> bytes:
    """The total of every scorecard, best first, and beside it its axes: the darker, the nearer to 1."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(12.8, 0.34 * len(cards) + 2.1), layout="constrained")
    totals, axes = figure.subplots(1, 2, sharey=True, width_ratios=(0.72, 1.28))
    _draw_totals(totals, cards)
    _draw_axes(axes, cards)
    totals.set_ylim(len(cards) - 0.5, -0.5)
    present = {_family(card) for card in cards}
    handles = [Line2D([], [], marker="o", linestyle="", color=family.light, label=family.label)
               for name, family in FAMILIES.items() if name in present]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9)
    stream = io.BytesIO()
    save(figure, stream, picture_data(cards), dpi=150)
    return stream.getvalue()


def _draw_totals(axis: Any, cards: Sequence[Scorecard]) -> None:
    axis.axvline(0, color="#555b62", linewidth=1)
    axis.axvline(1, color="#0d6b4f", linewidth=1.6)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nrandom", "0.25", "0.5", "0.75", "1\ntrue count"])
    known = [card["total"] for card in cards if card["total"]["value"] is not None]
    low, high = min([-0.1, *(total["low"] for total in known)]), max([1.1, *(total["high"] for total in known)])
    axis.set_xlim(max(low - 0.04, LEAST), min(high + 0.04, MOST))
    axis.grid(axis="x", color="#e9e9e7")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    for row, card in enumerate(cards):
        strong, colour, total = card["name"] == RECOMMENDED, FAMILIES[_family(card)].light, card["total"]
        if total["value"] is None:
            axis.text(0.02, row, "not measured", va="center", fontsize=8, color=GREY)
            continue
        low, high, at = (min(max(total[key], LEAST), MOST) for key in ("low", "high", "value"))
        axis.hlines(row, low, high, color=colour, linewidth=5 if strong else 3, alpha=0.4, zorder=3)
        axis.plot([at], [row], "o", color=colour, markersize=10 if strong else 6.5, zorder=4)
    short = [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label in (c["label"] for c in cards)]
    labels = [plain(label + (" *" if card["missing"] else "")) for label, card in zip(short, cards, strict=True)]
    axis.set_yticks(range(len(cards)), labels, fontsize=10)
    for tick, card in zip(axis.get_yticklabels(), cards, strict=True):
        tick.set_fontweight("bold" if card["name"] == RECOMMENDED else "normal")
    axis.set_title("Total, 95 % intervals over seeds", loc="left", fontsize=11, fontweight="bold")
    if any(card["missing"] for card in cards):
        axis.set_xlabel("* without some tasks: do not compare with the others", loc="left", fontsize=9)


def _draw_axes(axis: Any, cards: Sequence[Scorecard]) -> None:
    columns = [_columns(card) for card in cards]
    heads = list(columns[0])
    # the last column, time, has no such scale
    shares = [[min(max(value or 0.0, 0.0), 1.0) for value in list(row.values())[:-1]] for row in columns]
    extent = (-0.5, len(heads) - 1.5, len(cards) - 0.5, -0.5)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=2, aspect="auto", extent=extent)
    for row, card in enumerate(cards):
        for column, (head, value) in enumerate(columns[row].items()):
            text = (hundredths(value) + ("×" if head == TIME else "")).replace("-", "−")
            weight = "bold" if card["name"] == RECOMMENDED else "normal"
            axis.text(column, row, text, ha="center", va="center", fontsize=9, fontweight=weight)
    axis.set_xticks(range(len(heads)), [fill(head, 9) for head in heads], fontsize=8.5)
    axis.tick_params(axis="both", length=0, labeltop=True, labelbottom=False, labelleft=False)
    axis.set_xlim(-0.5, len(heads) - 0.5)
    axis.spines[:].set_visible(False)
