"""The numbers behind the charts of the page, as JSON."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lpm.report.analysis import POINTS, Analysis, Band, Cell, spread
from lpm.report.families import RECOMMENDED, Look
from lpm.report.ranking import Ranking, in_focus
from lpm.report.seed_statistics import Floats, Interval
from lpm.report.text import short_number

KINDS = {"reproduced": "yes", "holds": "yes", "not reproduced": "no", "contradicted": "no", "undecided": "open",
         "not run": "none", "not compared": "none", "no number": "none"}  # fmt: skip
"""Verdict to the class of its colour."""


@dataclass
class Payload:
    """Collects charts while the page is written; each gets a number by which the page refers to it."""

    charts: list[dict[str, Any]] = field(default_factory=list)
    heat: list[dict[str, Any]] = field(default_factory=list)
    steps: list[list[float | None]] = field(default_factory=list)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """Section to method to name: two experiments may call a method differently."""
    focus: dict[str, list[str]] = field(default_factory=dict)
    """Section to the methods drawn in colour at first; the others are grey until touched."""
    points: int = POINTS
    """Most points of a curve; fewer on a page with very many curves."""
    _seen: dict[tuple[float | None, ...], int] = field(default_factory=dict)

    def open_section(self, analysis: Analysis) -> None:
        self.labels[analysis.name], self.focus[analysis.name] = analysis.methods, in_focus(analysis)

    def curves(self, bands: Sequence[Band], step_label: str, alt: str) -> int:
        """Lines with bands."""
        series = []
        for b in bands:
            kept = spread(len(b.steps), self.points)
            series.append(self._line(b.method, b.steps[kept], b.mean[kept], b.low[kept], b.high[kept]))
        return self._chart({"x": step_label, "alt": alt, "series": series})

    def strip(self, cells: Sequence[Cell], alt: str) -> int:
        """Seeds, mean and interval of each method, the paper's number below."""
        rows = []
        for cell in cells:
            paper, summary = cell.score.paper, cell.summary
            row = _row(cell.score.method, summary.mean, summary.mean_interval, summary.n)
            row |= {"seeds": [_round(value) for value in cell.dots], "kind": KINDS[cell.verdict]}
            row["verdict"] = "no number in the paper" if paper is None else cell.verdict
            if paper is not None:
                row |= {"paper": _round(paper.value), "std": None if paper.std is None else _round(paper.std)}
            rows.append(row)
        return self._chart({"alt": alt, "rows": rows})

    def bars(self, ranking: Ranking, alt: str) -> int:
        """Every ranked method, best first: its score, or what it reached in the only task."""
        only, rows = ranking.only, []
        self.labels["ranking"] = {place.method: place.label for place in ranking.places}
        self.focus["ranking"] = list(self.labels["ranking"])
        for place in ranking.places:
            reached = only.means[place.method] if only else place.score
            row = _row(place.method, reached.value, reached.interval, only.seeds[place.method] if only else place.tasks)
            rows.append(row | {"text": short_number(reached.value) if only else f"{reached.value:.2f}"})
        return self._chart({"alt": alt, "rows": rows, "bars": "mean" if only else "score"})

    def heatmap(self, visits: Floats, low: float, high: float) -> int:
        """A grid of visits, one byte per cell: 0 never, 1 to 254 on a log scale from low to high, 255 out of reach."""
        span = math.log(high / low) if high > low else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            level = 1 + np.clip(np.log(visits / low) / span, 0, 1) * 253
        cells = np.where(np.isnan(visits), 255, np.where(visits > 0, level, 0)).round().astype(np.uint8)
        drawn = base64.b64encode(cells.tobytes()).decode()
        rows, columns = cells.shape
        self.heat.append({"rows": rows, "columns": columns, "low": low, "high": max(high, low), "cells": drawn})
        return len(self.heat) - 1

    def json(self, methods: Mapping[str, Look]) -> str:
        """Everything, safe inside a script element: no `<` is left that could end it."""
        drawn = {method: asdict(look) for method, look in methods.items()}
        whole = {"recommended": RECOMMENDED, "methods": drawn, "labels": self.labels, "focus": self.focus,
                 "steps": self.steps, "charts": self.charts, "heat": self.heat}  # fmt: skip
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    def _chart(self, chart: dict[str, Any]) -> int:
        self.charts.append(chart)
        return len(self.charts) - 1

    def _line(self, method: str, steps: Floats, mean: Floats, low: Floats, high: Floats) -> dict[str, Any]:
        key = tuple(_rounded(steps, 9))
        if key not in self._seen:
            self._seen[key] = len(self.steps)
            self.steps.append(list(key))
        line: dict[str, Any] = {"m": method, "x": self._seen[key], "y": _rounded(mean)}
        if not np.isnan(low).all():
            line |= {"lo": _rounded(low), "hi": _rounded(high)}
        return line


def log_range(grids: Sequence[Floats]) -> tuple[float, float]:
    """Fewest and most visits of a visited cell: the ends of one colour scale for all grids."""
    positive = np.concatenate([np.zeros(0), *(grid[grid > 0] for grid in grids)])
    return (float(positive.min()), float(positive.max())) if positive.size else (1.0, 1.0)


def _row(method: str, mean: float, interval: Interval | None, count: int) -> dict[str, Any]:
    ends = (None, None) if interval is None else (_round(interval.low), _round(interval.high))
    row = {"m": method, "mean": _round(mean), "lo": ends[0], "hi": ends[1], "count": count}
    return {**row, "seeds": [], "paper": None, "std": None, "kind": "none"}


def _rounded(values: Floats, digits: int = 4) -> list[float | None]:
    return [_round(float(v), digits) if math.isfinite(v) else None for v in values]


def _round(value: float, digits: int = 5) -> float:
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
