"""The card and the leaderboard as pictures, drawn with matplotlib."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from textwrap import fill
from typing import Any

from lpm.report.families import FAMILIES, RECOMMENDED
from lpm.report.text import count_of, plain
from lpm.suite.axes import AXES, LEAST, MOST
from lpm.suite.card import Card, family_of_card, hundredths, shown
from lpm.suite.worlds import LABELS, WORLDS

LOWEST, HIGHEST = LEAST, MOST
GREY = "#9aa2aa"
TIME, LONGEST = "time", 34
"""A column of the leaderboard, and the most characters of a label in it."""


def card_png(card: Card, others: Sequence[Card] = ()) -> bytes:
    """Dots with intervals from random actions (0) to a count of the true cells (1): total, axes, noise and tasks."""
    rows: list[tuple[str, str, str]] = [("total", "", "Total")]
    rows += [("axes", axis, words) for axis, words in AXES.items()]
    rows += [("families", family, LABELS[family]) for family in card["families"]]
    rows += [("worlds", world, WORLDS[world].label) for world in card["worlds"]]
    figure, axis = _figure(0.27 * len(rows) + 1.4)
    colour = FAMILIES[family_of_card(card)].light
    gap, y, ticks = {"axes": 0.5, "families": 0.7, "worlds": 0.7}, 0.0, []
    last = "total"
    for kind, key, label in rows:
        y += 1 + (gap[kind] if kind != last else 0)
        last = kind
        ticks.append((y, label))
        marks = [_value(other, kind, key) for other in others if other["name"] != card["name"]]
        known = [min(max(mark, LOWEST), HIGHEST) for mark in marks if mark is not None]
        axis.plot(known, [y] * len(known), "o", color=GREY, alpha=0.5, markersize=3.5, zorder=2)
        _interval(axis, y, card["total"] if kind == "total" else card[kind].get(key, {}), colour, kind == "total")
    axis.set_yticks([at for at, _ in ticks], [plain(label) for _, label in ticks], fontsize=9)
    axis.get_yticklabels()[0].set_fontweight("bold")
    axis.set_ylim(y + 0.7, 0.3)
    count = sum(other["name"] != card["name"] for other in others)
    beside = f"; grey: {count_of(count, 'other bonus')}" if count else ""
    part = f"; without {', '.join(WORLDS[world].label for world in card['missing'])}" if card["missing"] else ""
    figure.suptitle(plain(f"{card['label']}: {shown(card['total'])}"), x=0.02, ha="left", fontweight="bold")
    axis.set_title(plain(f"{len(card['seeds'])} seeds, 95 % intervals{beside}{part}"), loc="left", fontsize=9)
    return _encoded(figure, {"name": card["name"], "total": card["total"]})


def leaderboard_data(cards: Sequence[Card]) -> list[list[Any]]:
    """What the leaderboard's picture is drawn from."""
    return [
        [card["label"], card["bonus"], *card["total"].values(), *_columns(card).values(), len(card["missing"])]
        for card in cards
    ]


def leaderboard_png(cards: Sequence[Card]) -> bytes:
    """The total of every card, best first, and beside it its axes: the darker, the nearer to 1."""
    figure, axis = _figure(0.34 * len(cards) + 2.1, 12.8, (0.72, 1.28))
    axis, table = axis
    lows = [card["total"]["low"] for card in cards if card["total"]["low"] is not None]
    highs = [card["total"]["high"] for card in cards if card["total"]["high"] is not None]
    axis.set_xlim(max(min([-0.1, *lows]) - 0.04, LOWEST), min(max([1.1, *highs]) + 0.04, HIGHEST))
    for row, card in enumerate(cards):
        colour = FAMILIES[family_of_card(card)].light
        _interval(axis, row, card["total"], colour, card["name"] == RECOMMENDED, number=False)
    labels = [_short(card["label"]) + (" *" if card["missing"] else "") for card in cards]
    axis.set_yticks(range(len(cards)), [plain(label) for label in labels], fontsize=10)
    for tick, card in zip(axis.get_yticklabels(), cards, strict=True):
        tick.set_fontweight("bold" if card["name"] == RECOMMENDED else "normal")
    axis.set_title("Total, 95 % intervals over seeds", loc="left", fontsize=11, fontweight="bold")
    heads = list(_columns(cards[0])) if cards else []
    shares = [[min(max(v or 0.0, 0.0), 1.0) for v in list(_columns(card).values())[:-1]] for card in cards]
    if shares:
        # the last column, time, has no such scale
        table.imshow(
            shares, cmap="Blues", vmin=0, vmax=2, aspect="auto", extent=(-0.5, len(heads) - 1.5, *_ends(cards))
        )
    for row, card in enumerate(cards):
        for column, (head, value) in enumerate(_columns(card).items()):
            text = hundredths(value) + ("×" if head == TIME else "")
            weight = "bold" if card["name"] == RECOMMENDED else "normal"
            table.text(column, row, text.replace("-", "−"), ha="center", va="center", fontsize=9, fontweight=weight)
    table.set_xticks(range(len(heads)), [fill(head, 9) for head in heads], fontsize=8.5)
    table.tick_params(axis="both", length=0, labeltop=True, labelbottom=False, labelleft=False)
    table.set_xlim(-0.5, max(len(heads) - 0.5, 0.5))
    table.spines[:].set_visible(False)
    axis.set_ylim(*_ends(cards))
    _legend(figure, {family_of_card(card) for card in cards})
    if any(card["missing"] for card in cards):
        axis.set_xlabel("* without some tasks: do not compare with the others", loc="left", fontsize=9)
    return _encoded(figure, leaderboard_data(cards))


def _legend(figure: Any, families: set[str]) -> None:
    """What each colour means: what the bonuses of a family reward."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], marker="o", linestyle="", color=family.light, label=family.label)
               for name, family in FAMILIES.items() if name in families]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9)


def _ends(cards: Sequence[Card]) -> tuple[float, float]:
    return len(cards) - 0.5, -0.5


def _columns(card: Card) -> dict[str, float | None]:
    """Title to number: total, axes and time."""
    axes = {words: card["axes"].get(axis, {}).get("value") for axis, words in AXES.items()}
    return {"total": card["total"]["value"], **axes, TIME: card["cost"]}


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _figure(height: float, width: float = 8.2, columns: tuple[float, ...] = ()) -> tuple[Any, Any]:
    """A figure and the place for dots; with `columns`, shares of the width, all places."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(1, len(columns) or 1, squeeze=False, sharey=True, width_ratios=columns or None)[0]
    axis = places[0]
    axis.axvline(0, color="#555b62", linewidth=1)
    axis.axvline(1, color="#0d6b4f", linewidth=1.6)
    axis.set(xlim=(LOWEST - 0.02, HIGHEST + 0.25))
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nrandom", "0.25", "0.5", "0.75", "1\ntrue count"])
    axis.grid(axis="x", color="#e9e9e7")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    return figure, places if columns else axis


def _interval(axis: Any, y: float, estimate: Any, colour: str, strong: bool, number: bool = True) -> None:
    value = estimate.get("value")
    if value is None:
        axis.text(0.02, y, "not measured", va="center", fontsize=8, color=GREY)
        return
    low, high, at = (min(max(estimate[key], LOWEST), HIGHEST) for key in ("low", "high", "value"))
    axis.hlines(y, low, high, color=colour, linewidth=5 if strong else 3, alpha=0.4, zorder=3)
    axis.plot([at], [y], "o", color=colour, markersize=10 if strong else 6.5, zorder=4)
    if number:
        text = hundredths(value).replace("-", "−")
        axis.text(HIGHEST + 0.03, y, text, va="center", fontsize=9, fontweight="bold" if strong else "normal")


def _value(card: Card, kind: str, key: str) -> float | None:
    estimate = card["total"] if kind == "total" else card[kind].get(key, {})
    value = estimate.get("value")
    return None if value is None else float(value)


def _encoded(figure: Any, drawn_from: Any) -> bytes:
    stream = io.BytesIO()
    metadata = {"Description": json.dumps(drawn_from), "Software": None}
    figure.savefig(stream, format="png", dpi=150, facecolor="white", metadata=metadata)
    return stream.getvalue()
