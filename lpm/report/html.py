"""One self-contained page of all evidence: nothing is fetched, everything from a file is text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from lpm import __version__
from lpm.experiments.evidence import size_of
from lpm.report.analysis import CLAIM_RULE, POINTS, VERDICT_RULE, Analysis, families
from lpm.report.charts import KINDS, Payload, log_range, shrink, usable
from lpm.report.claims import CLAIM_VERDICTS, NUMBER_VERDICTS, claims_once, numbers_once
from lpm.report.families import FAMILIES, NO_OTHERS, colours_css, family_of, looks
from lpm.report.ranking import RULE, RULE_OF_ONE, in_focus, rank, reasons
from lpm.report.tables import chart, chip, claims, fold, framed, heads, overall, panes, ranked, scores, table_cell
from lpm.report.text import count_of, decimals, flatten, number
from lpm.storage.files import write_atomic

TITLE = "Does the bonus survive the noise?"
OWN_TITLE = "Runs side by side"
"""Where nothing was run with noise."""
LEAD = "Every table and figure of the paper that was run, the paper's numbers beside ours, with intervals over seeds."
OWN_LEAD = "Curves and last values, with intervals over seeds."
"""Where the paper has nothing to compare with."""

PAGE_POINTS = 100_000
"""Points of all curves together; about 20 bytes each."""
FRAME_BYTES = 1_500_000
"""Frames of all experiments beyond this are left out, and the page says so."""


def page(analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> str:
    """The whole page as HTML."""
    curves = sum(len(analysis.bands) for analysis in analyses)
    payload = Payload(points=max(20, min(POINTS, PAGE_POINTS // max(curves, 1))))
    first = _ranking(analyses, payload)
    sections = "".join(section(analysis, payload) for analysis in analyses)
    paper = not analyses or any(a.verdicts or a.claims for a in analyses)
    second = _summary(analyses, warnings) if paper else _warnings(warnings, "about the files")
    places = {**({"ranking": "Ranking"} if first else {}), **({"summary": "The paper"} if paper else {})}
    places |= _titles(analyses)
    methods = [method for analysis in analyses for method in analysis.methods]
    noise = any("nois" in name for a in analyses for name in (*a.evidence.conditions.values(), a.evidence.name))
    title = TITLE if noise else OWN_TITLE
    return document(
        title,
        LEAD if paper else OWN_LEAD,
        places,
        f"{first}{second}{sections}",
        payload,
        methods,
        own=families(analyses),
    )


def document(
    title: str,
    lead: str,
    places: Mapping[str, str],
    body: str,
    payload: Payload,
    methods: Iterable[str],
    more_style: str = "",
    own: Mapping[str, str] = NO_OTHERS,
) -> str:
    """A page that holds everything it needs: `body` is HTML and `more_style` CSS, the rest is text.

    `places` are the sections by id.
    """
    data = payload.json(looks(methods, own))
    script, style = _asset("report.js"), f"{colours_css()}\n{_asset('report.css')}{more_style}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The browser is told to run this one script and to fetch nothing.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    links = "".join(f'<a href="#{name}">{escape(label)}</a>' for name, label in places.items())
    names = {"folds": "Open all", "print": "Print", "theme": "Theme"}
    buttons = "".join(f'<button type="button" class="{kind}">{label}</button>' for kind, label in names.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f'<header class="top" id="top"><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>'
        f'<nav class="bar" aria-label="Experiments"><div class="links">{links}</div>{buttons}</nav>'
        f"<main>{body}</main>"
        f"<footer>Made by lpm {escape(__version__)} from per-seed result files. "
        "Seeds are the unit of every statistic.</footer>"
        f'<noscript><p style="text-align:center">The charts need JavaScript; the tables do not.</p></noscript>'
        f'<script type="application/json" id="data">{data}</script><script>{script}</script></body></html>\n'
    )


def write_page(path: Path, analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> int:
    """Write the page whole or not at all; return its size in bytes."""
    content = page(analyses, warnings).encode()
    write_atomic(path, content)
    return len(content)


def _asset(name: str) -> str:
    return (resources.files("lpm.report") / "assets" / name).read_text(encoding="utf-8")


def _titles(analyses: Sequence[Analysis]) -> dict[str, str]:
    """Section to the name of its experiment, with the scale where there are several of one experiment."""
    times = Counter(a.evidence.name for a in analyses)
    return {
        a.name: f"{a.evidence.name} ({a.evidence.scale})" if times[a.evidence.name] > 1 else a.evidence.name
        for a in analyses
    }


# ---- the ranking ------------------------------------------------------------------------------------------------
def _ranking(analyses: Sequence[Analysis], payload: Payload) -> str:
    """Who leads over all experiments: a sentence, a picture, a table; nothing if nothing can be compared."""
    ranking = rank(analyses)
    if ranking is None:
        return ""
    titles = _titles(analyses)
    payload.labels["ranking"] = {place.method: place.label for place in ranking.places}
    payload.focus["ranking"] = [place.method for place in ranking.places]
    present = dict.fromkeys(family_of(place.method, families(analyses)) for place in ranking.places)
    key = "".join(
        f'<span class="family"><i style="background:var(--{name})"></i>{escape(FAMILIES[name].label)}</span>'
        for name in FAMILIES
        if name in present
    )
    only = ranking.only
    caption = f"{only.metric}, {only.label}" if only else "Score over all tasks, 0 the worst and 1 the best method"
    drawing = chart(payload.bars(ranking, ranking.sentence), caption)
    table = "" if only else fold("Every task", ranked(ranking, titles), True)
    left_out = f" Run in too few tasks to be ranked: {', '.join(ranking.left_out)}." if ranking.left_out else ""
    other = [f"{a.evidence.name} ({why})" for a, why in zip(analyses, reasons(analyses), strict=True) if why]
    eyebrow = f"{titles[only.section]}, {only.label}" if only else f"Over {len(ranking.tasks)} tasks"
    apart = f" Not ranked: {', '.join(other)}." if other else ""
    return (
        f'<section id="ranking"><p class="eyebrow">{escape(eyebrow)}</p>'
        f'<h2>{escape(ranking.title)}</h2><p class="verdict">{escape(ranking.sentence)}</p>'
        f'<div class="families">{key}</div>{drawing}'
        f'{table}<p class="soft">{escape((RULE_OF_ONE if only else RULE) + left_out + apart)}</p></section>'
    )


# ---- the summary ------------------------------------------------------------------------------------------------
def _summary(analyses: Sequence[Analysis], warnings: Sequence[str]) -> str:
    numbers = Counter[str](cell.verdict for cell in numbers_once(analyses).values())
    claimed = Counter[str](result.verdict for _, result in claims_once(analyses).values())
    runs = sum(cell.summary.n for a in analyses for cell in a.cells.values())
    tiles = (
        _tile("of the paper's numbers reproduced", numbers, NUMBER_VERDICTS)
        + _tile("of the paper's claims hold", claimed, list(CLAIM_VERDICTS))
        + f'<div class="tile"><b>{len(analyses)}</b>experiment{"s" if len(analyses) != 1 else ""}'
        f'<div class="soft">{runs:,} scores of single runs</div></div>'
    )
    smaller = sorted({a.evidence.scale for a in analyses} - {"paper", ""}, key=size_of)
    caveat = (
        f"<p>Runs at the {' and '.join(map(escape, smaller))} scale have smaller budgets than the paper's. A number "
        "that differs there may differ because of the budget; each experiment says how large its runs are.</p>"
        if smaller
        else ""
    )
    head = heads("experiment", "in the paper", "its numbers", "its claims")
    return (
        f'<section id="summary"><h2>The paper, run again</h2><div class="tiles">{tiles}</div>{caveat}'
        f"{_warnings(warnings, 'about the files')}"
        f"{framed('summary', head, ''.join(map(_summary_row, analyses)))}"
        "<details><summary>How the verdicts are reached</summary>"
        "<p>What was run at several scales counts once here: a claim at the largest that has as many seeds as could "
        "settle it, a number at the largest with two seeds or more.</p>"
        f"<p>{escape(VERDICT_RULE)}</p><p>{escape(CLAIM_RULE)}</p>"
        "<p>P(better) is the probability that a run of the first method scores better than a run of the second, a tie "
        "counting half. The interquartile mean (IQM) leaves out the lowest and the highest quarter of the runs. "
        "Intervals are 95 % percentile bootstrap intervals over seeds; with few seeds they are somewhat too narrow.</p>"
        "</details></section>"
    )


def _tile(what: str, counts: Counter[str], order: Sequence[str]) -> str:
    """How many have the first verdict of `order`, and the share of each; no number while nothing is decided."""
    total = sum(counts.values())
    if not total:
        return f'<div class="tile"><b>–</b>{escape(what)}<div class="soft">none to compare with</div></div>'
    present = [verdict for verdict in order if counts[verdict]]
    bar = "".join(f'<i class="{KINDS[v]}" style="width:{100 * counts[v] / total:.1f}%"></i>' for v in present)
    words = " · ".join(f"{counts[v]} {'hold' if v == 'holds' else v}" for v in present)
    decided = any(KINDS[verdict] in ("yes", "no") for verdict in present)
    head = f"{counts[order[0]]} <small>of {total}</small>" if decided else "–"
    return (
        f'<div class="tile"><b>{head}</b>{escape(what)}'
        f'<div class="share" aria-hidden="true">{bar}</div><div class="soft">{escape(words)}</div></div>'
    )


def _summary_row(analysis: Analysis) -> str:
    evidence = analysis.evidence
    warned = f"<small>{count_of(len(analysis.warnings), 'warning')}</small>" if analysis.warnings else ""
    place = f"{escape(evidence.place)}<small>{escape(evidence.scale)} scale</small>"
    cells = {
        "in the paper": place,
        "its numbers": _counts(analysis.verdicts),
        "its claims": _counts(analysis.claim_verdicts),
    }
    shown = "".join(table_cell(label, f"<span>{cell}</span>") for label, cell in cells.items())
    return f'<tr><th scope="row"><a href="#{analysis.name}">{escape(evidence.title)}</a>{warned}</th>{shown}</tr>'


def _counts(counts: Counter[str]) -> str:
    shown = [chip(verdict, count=counts[verdict]) for verdict in KINDS if counts[verdict]]
    return " ".join(shown) or '<span class="soft">–</span>'


def _warnings(warnings: Sequence[str], about: str = "") -> str:
    """Behind a line that says how many; nothing if there are none."""
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    summary = f"{count_of(len(warnings), 'warning')} {about}".strip()
    return f'<details class="warn"><summary>{summary}</summary><ul>{items}</ul></details>'


# ---- one experiment ---------------------------------------------------------------------------------------------
def section(analysis: Analysis, payload: Payload) -> str:
    """Everything about one experiment at one scale."""
    evidence = analysis.evidence
    payload.labels[analysis.name] = analysis.methods
    payload.focus[analysis.name] = in_focus(analysis)
    low, high = analysis.seeds
    seeds = count_of(low, "seed") if low == high else f"{low} to {high} seeds"
    scale = f"{evidence.scale} scale" if evidence.scale else ""
    eyebrow = " · ".join(part for part in (evidence.place, scale, seeds if high else "no runs") if part)
    versions = {f"version of {package}": str(version) for package, version in evidence.versions.items()}
    parts = [
        f'<section class="experiment" id="{analysis.name}"><p class="eyebrow">{escape(eyebrow)}</p>',
        f"<h2>{escape(evidence.title)}</h2>",
        _best(analysis),
        *(f"<p>{escape(paragraph)}</p>" for paragraph in evidence.about),
        f'<p class="soft">{escape(evidence.unfinished)}</p>' if evidence.unfinished else "",
        _warnings(analysis.warnings),
        fold("Curves", _curves(analysis, payload), True),
        fold("Scores", scores(analysis, payload), True),
        fold("Claims of the paper", claims(analysis)),
        fold("Over all conditions", overall(analysis, payload)),
        fold("Where the agents went", _heatmaps(analysis, payload)),
        fold("What the agent sees", _frames(analysis, payload)),
        fold("Configuration and versions", _settings(dict(flatten(evidence.settings)) | versions)),
        "</section>",
    ]
    return "".join(parts)


def _best(analysis: Analysis) -> str:
    """The best method of every condition, by the first metric."""
    metric, label = next(iter(analysis.metrics("scores").items()), ("", ""))
    table, found = analysis.table(metric), []
    for condition, name in table.conditions.items():
        best = [table.methods[m] for (c, m), cell in table.cells.items() if c == condition and table.is_best(c, cell)]
        if best:
            shown = number(table.best[condition], decimals(None, table.best[condition]))
            found.append(f"{name}: {' and '.join(best)} ({shown})" if name else f"{' and '.join(best)} ({shown})")
    return f'<p class="verdict">Best in {escape(label)}: {escape("; ".join(found))}.</p>' if found else ""


def _legend(methods: Iterable[str]) -> str:
    """A place for the buttons that colour, hide and show methods."""
    names = escape(json.dumps(list(methods)))
    return f'<div class="legend" role="group" aria-label="Methods shown" data-methods="{names}"></div>'


def _curves(analysis: Analysis, payload: Payload) -> str:
    metrics = analysis.metrics("curves")
    drawn = {band.method for band in analysis.bands} | {heatmap.method for heatmap in analysis.evidence.heatmaps}
    legend = _legend(m for m in analysis.methods if m in drawn)
    if not metrics:
        return legend if len(drawn) > 1 else ""

    panels = {metric: analysis.panels(metric) for metric in metrics}

    def content(metric: str, label: str) -> tuple[list[str], str]:
        charts = []
        for condition, name in analysis.conditions(panels[metric]).items():
            bands = panels[metric][condition]
            alt = f"{label}, {name}: mean over seeds of {len(bands)} methods against {analysis.evidence.step_label}"
            index = payload.curves(bands, analysis.evidence.step_label, alt)
            charts.append(chart(index, name or label, label if name else "", focus=True))
        return charts, ""

    log = '<div class="tabs"><button type="button" class="log" aria-pressed="false">Log scale</button></div>'
    controls, parts = panes("curves", metrics, content, log)
    note = "Mean over seeds; the band is its pointwise 95 % bootstrap interval."
    if any(band.seeds == 1 for band in analysis.bands):
        note += " A line without a band is a single seed."
    if any(band.condition not in panels[band.metric] for band in analysis.bands):
        note += " A condition in which a curve is zero for all methods has no chart of it."
    note += " A few methods have their colour; the others are grey until they are touched or clicked in the legend."
    return f'{controls}{legend}{parts}<p class="soft">{note}</p>'


def _heatmaps(analysis: Analysis, payload: Payload) -> str:
    maps = [h for h in analysis.evidence.heatmaps if usable(h)]
    if not maps:
        return ""
    grids = [shrink(np.asarray(h.visits, dtype=np.float64)) for h in maps]
    low, high = log_range(grids)
    parts = []
    for condition, name in analysis.conditions(h.condition for h in maps).items():
        figures = []
        for heatmap, cells in zip(maps, grids, strict=True):
            if heatmap.condition != condition:
                continue
            label = analysis.methods.get(heatmap.method, heatmap.method)
            full = np.asarray(heatmap.visits)
            count, reach = int((full > 0).sum()), int((~np.isnan(full)).sum())
            reached = f"{count:,} of {reach:,} cells by all seeds together"
            own = analysis.cells.get(("cells", condition, heatmap.method))
            if own is not None:
                reached = f"{own.summary.mean:,.0f} cells per seed, {reached}"
            index = payload.heatmap(cells, low, high)
            figures.append(
                f'<figure data-method="{escape(heatmap.method)}"><canvas class="heat" data-heat="{index}" role="img" '
                f'aria-label="{escape(f"{label}, {name}: {reached} visited")}"></canvas>'
                f"<figcaption>{escape(label)}: {reached}</figcaption></figure>"
            )
        parts.append(f'<h4>{escape(name)}</h4><div class="maps">{"".join(figures)}</div>')
    return (
        f'<p class="soft">Visits per cell, averaged over seeds, one log scale for all: '
        f'{number(low, 2 if low < 10 else 0)}<span class="ramp"></span>{number(high, 0)}. Grey: never visited; '
        "empty: out of reach. “By all seeds together” counts a cell that at least one seed visited; “per seed” is the "
        f"mean of the seeds' own counts, as in the scores.</p>{''.join(parts)}"
    )


def _frames(analysis: Analysis, payload: Payload) -> str:
    figures, dropped = [], 0
    for frame in analysis.evidence.frames:
        if payload.frame_bytes + len(frame.png) > FRAME_BYTES:
            dropped += 1
            continue
        payload.frame_bytes += len(frame.png)
        source = base64.b64encode(frame.png).decode()
        caption = escape(frame.caption)
        figures.append(
            f'<figure><img src="data:image/png;base64,{source}" alt="{caption}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if not figures and not dropped:
        return ""
    note = f'<p class="soft">{dropped} more left out to keep the page small.</p>' if dropped else ""
    return f'<div class="frames">{"".join(figures)}</div>{note}'


def _settings(settings: Mapping[str, str]) -> str:
    if not settings:
        return ""
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in settings.items())
    return f'<table class="settings"><tbody>{rows}</tbody></table>'
