"""One self-contained page of all evidence, from the templates: nothing is fetched, everything from a file is text."""

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lpm import __version__
from lpm.experiments.evidence import Evidence, size_of
from lpm.report import text
from lpm.report.analysis import POINTS, Analysis, Band, Cell, families, log_range, spread
from lpm.report.claims import CLAIM_VERDICTS, NUMBER_VERDICTS, claims_once, numbers_once
from lpm.report.families import FAMILIES, NO_OTHERS, RECOMMENDED, Look, colours_css, family_of, looks
from lpm.report.ranking import Ranking, in_focus, rank, reasons
from lpm.report.seed_statistics import Floats, Interval
from lpm.storage.files import write_atomic

MOST_ROWS = 20
"""Of a table that is open from the start, and so is printed."""
PAGE_POINTS = 100_000
"""Points of all curves together; about 20 bytes each."""


def page(analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> str:
    """The whole page as HTML."""
    curves = sum(len(analysis.bands) for analysis in analyses)
    times, ranking, own = Counter(a.evidence.name for a in analyses), rank(analyses), families(analyses)
    # with the scale where there are several of one experiment
    titles = {a.name: a.evidence.name + (f" ({a.evidence.scale})" if times[a.evidence.name] > 1 else "")
              for a in analyses}  # fmt: skip
    paper = not analyses or any(a.verdicts or a.claims for a in analyses)
    noise = any("nois" in name for a in analyses for name in (*a.evidence.conditions.values(), a.evidence.name))
    present = {family_of(place.method, own) for place in ranking.places} if ranking else set()
    shown = "Every table and figure of the paper that was run, the paper's numbers beside ours" if paper else ""
    first = {"ranking": "Ranking"} if ranking else {}
    return document(
        "page.html",
        title="Does the bonus survive the noise?" if noise else "Runs side by side",
        lead=f"{shown or 'Curves and last values'}, with intervals over seeds.",
        sections={**first, **({"summary": "The paper"} if paper else {}), **titles},
        payload=Payload(points=max(20, min(POINTS, PAGE_POINTS // max(curves, 1)))),
        methods=[method for analysis in analyses for method in analysis.methods],
        own=own,
        analyses=analyses,
        warnings=warnings,
        titles=titles,
        ranking=ranking,
        families={name: family.label for name, family in FAMILIES.items() if name in present},
        unranked=[f"{a.evidence.name} ({why})" for a, why in zip(analyses, reasons(analyses), strict=True) if why],
        paper=paper,
        numbers=Counter(cell.verdict for cell in numbers_once(analyses).values()),
        claimed=Counter(result.verdict for _, result in claims_once(analyses).values()),
        runs=sum(cell.summary.n for a in analyses for cell in a.cells.values()),
        smaller=sorted({a.evidence.scale for a in analyses} - {"paper", ""}, key=size_of),
    )


def document(
    template: str,
    methods: Iterable[str],
    own: Mapping[str, str] = NO_OTHERS,
    packages: Sequence[str] = (),
    **values: Any,
) -> str:
    """A template that extends document.html, of this package or of `packages`, filled in.

    `methods` are all that its charts show; `own` has the families of those that the report does not know.
    """
    script, style = _asset("report.js"), f"{colours_css()}\n{_asset('report.css')}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("lpm.report", *packages)]),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip
    environment.globals |= {
        "KINDS": KINDS, "NUMBER_VERDICTS": NUMBER_VERDICTS, "CLAIM_VERDICTS": CLAIM_VERDICTS, "MOST_ROWS": MOST_ROWS,
        "version": __version__, "visit_maps": _visit_maps,
    }  # fmt: skip
    environment.filters |= {
        "number": text.number, "span": text.span, "short_number": text.short_number, "plus_minus": text.plus_minus,
        "as_printed": text.as_printed, "p_value": text.p_value, "count_of": text.count_of,
        "places": lambda summary: text.decimals(summary.std, summary.mean),
        "short": lambda value: text.number(value, text.decimals(None, value)), "configuration": _configuration,
        "json": json.dumps, "decided": lambda counts: any(KINDS[v] in ("yes", "no") for v in counts if counts[v]),
    }  # fmt: skip
    parts = {"script": Markup(script), "style": Markup(style), "digest": digest}
    return environment.get_template(template).render(methods=looks(methods, own), **parts, **values).lstrip()


def write_page(path: Path, analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> int:
    """Write the page whole or not at all; return its size in bytes."""
    content = page(analyses, warnings).encode()
    write_atomic(path, content)
    return len(content)


def _asset(name: str) -> str:
    return (resources.files("lpm.report") / "assets" / name).read_text(encoding="utf-8")


def _configuration(evidence: Evidence) -> dict[str, str]:
    versions = {f"version of {package}": str(version) for package, version in evidence.versions.items()}
    return dict(text.flatten(evidence.settings)) | versions


def _visit_maps(analysis: Analysis) -> tuple[float, float, dict[str, list[tuple[str, str, str, Floats]]]]:
    """Fewest and most visits, and for each condition's label the maps: method, label, what it reached, cells."""
    maps = analysis.maps
    found: dict[str, list[tuple[str, str, str, Floats]]] = {}
    for condition, name in analysis.conditions(condition for condition, _ in maps).items():
        for method, cells in ((method, cells) for (c, method), cells in maps.items() if c == condition):
            reached = f"{(cells > 0).sum():,} of {(~np.isnan(cells)).sum():,} cells by all seeds together"
            own = analysis.cells.get(("cells", condition, method))
            if own is not None:
                reached = f"{own.summary.mean:,.0f} cells per seed, {reached}"
            found.setdefault(name, []).append((method, analysis.methods.get(method, method), reached, cells))
    return *log_range(list(maps.values())), found


# ---- the numbers behind the charts ----------------------------------------------------------------------------
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
            rows.append(row | {"text": text.short_number(reached.value) if only else f"{reached.value:.2f}"})
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
        written = json.dumps(whole, separators=(",", ":"), allow_nan=False)
        return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

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


def _row(method: str, mean: float, interval: Interval | None, count: int) -> dict[str, Any]:
    ends = (None, None) if interval is None else (_round(interval.low), _round(interval.high))
    row = {"m": method, "mean": _round(mean), "lo": ends[0], "hi": ends[1], "count": count}
    return {**row, "seeds": [], "paper": None, "std": None, "kind": "none"}


def _rounded(values: Floats, digits: int = 4) -> list[float | None]:
    return [_round(float(v), digits) if math.isfinite(v) else None for v in values]


def _round(value: float, digits: int = 5) -> float:
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
