"""The parts of the page that show one experiment. Every text passes through `escape`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from lpm.report.analysis import Analysis, Cell, ClaimResult
from lpm.report.html_data import KINDS, Payload, shrink, usable
from lpm.report.text import decimals, flatten, number, p_value, plus_minus, slug, span

FRAME_BYTES = 1_500_000
"""An experiment's frames beyond this are left out, and the page says so."""


def anchor(analysis: Analysis) -> str:
    """The id of an experiment's section."""
    return slug(f"{analysis.evidence.name}-{analysis.evidence.scale}")


def chip(verdict: str, title: str = "", count: int | None = None) -> str:
    """A verdict in its colour; the words carry the meaning, not the colour alone."""
    text = verdict if count is None else f"{count} {verdict}"
    return f'<span class="chip {KINDS[verdict]}" title="{escape(title)}">{escape(text)}</span>'


def swatch(method: str) -> str:
    """The line style of a method, drawn by the script."""
    return f'<svg class="swatch" data-method="{escape(method)}"></svg>'


def section(analysis: Analysis, payload: Payload) -> str:
    """One experiment."""
    evidence = analysis.evidence
    payload.labels.update({m: label for m, label in analysis.methods.items() if m not in payload.labels})
    low, high = analysis.seeds
    seeds = f"{low} seed{'s' if low != 1 else ''}" if low == high else f"{low} to {high} seeds"
    scale = f"{evidence.scale} scale" if evidence.scale else ""
    eyebrow = " · ".join(part for part in (evidence.place, scale, seeds if high else "no runs") if part)
    parts = [
        f'<section class="experiment" id="{anchor(analysis)}"><p class="eyebrow">{escape(eyebrow)}</p>',
        f"<h2>{escape(evidence.title)}</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in evidence.about),
        _warnings(analysis.warnings),
        _claims(analysis),
        _curves(analysis, payload),
        _scores(analysis, payload),
        _overall(analysis, payload),
        _heatmaps(analysis, payload),
        _frames(analysis),
        _settings("Configuration", dict(flatten(evidence.settings))),
        _settings("Versions", {str(k): str(v) for k, v in evidence.versions.items()}),
        "</section>",
    ]
    return "".join(parts)


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    noun = "warning" if len(warnings) == 1 else "warnings"
    return f'<details class="warn"><summary>{len(warnings)} {noun}</summary><ul>{items}</ul></details>'


def _claims(analysis: Analysis) -> str:
    if not analysis.claims:
        return ""
    rows = "".join(_claim_row(analysis, result) for result in analysis.claims)
    head = "".join(
        f"<th>{h}</th>" for h in ("What the paper says", "Verdict", "Difference", "P(better)", "p, corrected")
    )
    return f"<h3>Claims</h3>{_framed('claims', f'<tr>{head}</tr>', rows)}"


def _claim_row(analysis: Analysis, result: ClaimResult) -> str:
    claim, evidence = result.claim, analysis.evidence
    names = [evidence.methods.get(m, m) for m in (claim.better, claim.worse)]
    where = evidence.conditions.get(claim.condition, claim.condition), evidence.metrics.get(claim.metric, claim.metric)
    detail = f"{names[0]} over {names[1]} · {' · '.join(where)}"
    if claim.place:
        detail += f" · {claim.place}"
    cells = [
        ("", f"{escape(claim.text)}<small>{escape(detail)}</small>"),
        ("Verdict", f"<span>{chip(result.verdict, result.why)}<small>{escape(result.why)}</small></span>"),
    ]
    test, improvement = result.comparison, result.improvement
    if test is None or improvement is None or result.corrected is None:
        cells += [("", "")] * 3
    else:
        # the test looks at minus the score where less is better; people read the score itself
        shown = -test.difference if claim.metric in evidence.lower_is_better else test.difference
        method = f"{'paired' if test.paired else 'unpaired'}, {'exact' if test.exact else 'sampled'}"
        chance = span(improvement.interval, 2) if improvement.interval else "no interval"
        cells += [
            ("Difference", f"<span>{'+' if shown > 0 else ''}{number(shown, decimals(None, shown))}</span>"),
            ("P(better)", f"<span>{improvement.value:.2f}<small>{chance}</small></span>"),
            (
                "p, corrected",
                f"<span>{p_value(result.corrected)}<small>{p_value(test.p)} alone · {method}</small></span>",
            ),
        ]
    return f"<tr>{''.join(_td(label, cell) for label, cell in cells)}</tr>"


def _td(label: str, cell: str, kind: str = "") -> str:
    attributes = f' data-label="{escape(label)}"' if label else ""
    classes = " ".join(c for c in (kind, "" if cell else "blank") if c)
    return f"<td{attributes}{f' class={chr(34)}{classes}{chr(34)}' if classes else ''}>{cell}</td>"


def _framed(kind: str, head: str, rows: str) -> str:
    """A table that scrolls by itself when wide, and turns into cards on a phone."""
    return f'<div class="scroll"><table class="cards {kind}"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _tabs(kind: str, metrics: Mapping[str, str], extra: str = "") -> str:
    buttons = ""
    if len(metrics) > 1:
        buttons = "".join(
            f'<button type="button" data-kind="{kind}" data-pane="{escape(metric)}" '
            f'aria-pressed="{"true" if index == 0 else "false"}">{escape(label)}</button>'
            for index, (metric, label) in enumerate(metrics.items())
        )
        buttons = f'<div class="tabs" role="group" aria-label="Metric">{buttons}</div>'
    return f'<div class="controls">{buttons}{extra}</div>' if buttons or extra else ""


def _pane(kind: str, metric: str, label: str, first: bool, content: str) -> str:
    hidden = "" if first else " hidden"
    attributes = f'data-kind="{kind}" data-pane="{escape(metric)}"{hidden}'
    return f'<div class="pane" {attributes}><h4>{escape(label)}</h4>{content}</div>'


def _chart(index: int, caption: str, focus: bool = False) -> str:
    tab = ' tabindex="0"' if focus else ""
    return f'<figure class="chart" data-chart="{index}"{tab}><figcaption>{escape(caption)}</figcaption></figure>'


def _legend(methods: Iterable[str]) -> str:
    names = escape(json.dumps(list(methods)))
    return f'<div class="legend" role="group" aria-label="Methods shown" data-methods="{names}"></div>'


def _curves(analysis: Analysis, payload: Payload) -> str:
    metrics = analysis.metrics("curves")
    if not metrics:
        maps = {h.method for h in analysis.evidence.heatmaps}
        return _legend(m for m in analysis.methods if m in maps) if len(maps) > 1 else ""
    panes = []
    for index, (metric, label) in enumerate(metrics.items()):
        bands = [band for band in analysis.bands if band.metric == metric]
        charts = []
        for condition, name in analysis.conditions(band.condition for band in bands).items():
            here = [band for method in analysis.methods for band in bands
                    if band.method == method and band.condition == condition]  # fmt: skip
            caption = f"{label}, {name}" if name else label
            alt = f"{caption}: mean over seeds of {len(here)} methods against {analysis.evidence.step_label}"
            charts.append(_chart(payload.curves(here, analysis.evidence.step_label, alt), caption, focus=True))
        panes.append(_pane("curves", metric, label, index == 0, f'<div class="charts">{"".join(charts)}</div>'))
    drawn = {band.method for band in analysis.bands} | {heatmap.method for heatmap in analysis.evidence.heatmaps}
    log = '<button type="button" class="log" aria-pressed="false">Log scale</button>'
    alone = any(band.seeds == 1 for band in analysis.bands)
    note = "Mean over seeds; the band is its pointwise 95 % bootstrap interval."
    if alone:
        note += " A line without a band is a single seed."
    return (
        f"<h3>Curves</h3>{_tabs('curves', metrics, f'<div class={chr(34)}tabs{chr(34)}>{log}</div>')}"
        f"{_legend(m for m in analysis.methods if m in drawn)}{''.join(panes)}"
        f'<p class="soft">{note}</p>'
    )


def _scores(analysis: Analysis, payload: Payload) -> str:
    metrics = analysis.metrics("scores")
    if not metrics:
        return ""
    panes = []
    for index, (metric, label) in enumerate(metrics.items()):
        cells = [cell for key, cell in analysis.cells.items() if key[0] == metric]
        conditions = analysis.conditions(cell.score.condition for cell in cells)
        charts = []
        for condition, name in conditions.items():
            here = [
                analysis.cells[metric, condition, m]
                for m in analysis.methods
                if (metric, condition, m) in analysis.cells
            ]
            caption = f"{label}, {name}" if name else label
            charts.append(
                _chart(payload.strip(here, f"{caption}: seeds, mean and interval of {len(here)} methods"), caption)
            )
        content = f'<div class="charts">{"".join(charts)}</div>{_table(analysis, metric, conditions)}'
        panes.append(_pane("scores", metric, label, index == 0, content))
    paper = any(cell.score.paper for cell in analysis.cells.values())
    note = "Small dots: seeds. Large dot and bar: mean and its 95 % bootstrap interval."
    if paper:
        note += (
            " Diamond: the paper's mean, dashed: its standard deviation. ✓ reproduced, ✗ not reproduced, ? undecided."
        )
    note += (
        " In the table: mean ± sample standard deviation, bold the best; 95 % interval of the mean; interquartile mean."
    )
    return f'<h3>Scores</h3>{_tabs("scores", metrics)}{"".join(panes)}<p class="soft">{note}</p>'


def _table(analysis: Analysis, metric: str, conditions: Mapping[str, str]) -> str:
    cells = {key[1:]: cell for key, cell in analysis.cells.items() if key[0] == metric}
    paper = {c: any(cell.score.paper for (condition, _), cell in cells.items() if condition == c) for c in conditions}
    pick = min if metric in analysis.evidence.lower_is_better else max
    best = {c: pick(cell.summary.mean for (condition, _), cell in cells.items() if condition == c) for c in conditions}
    groups = "".join(
        f'<th class="group" colspan="{2 if paper[c] else 1}">{escape(name) or "&nbsp;"}</th>'
        for c, name in conditions.items()
    )
    heads = "".join("<th>ours</th><th>paper</th>" if paper[c] else "<th>ours</th>" for c in conditions)
    rows = []
    for method, label in analysis.methods.items():
        if not any((c, method) in cells for c in conditions):
            continue
        row = [f'<tr><th scope="row">{swatch(method)}{escape(label)}</th>']
        for condition, name in conditions.items():
            cell = cells.get((condition, method))
            is_best = cell is not None and len(cells) > 1 and cell.summary.mean == best[condition]
            row.append(_td(name or "ours", _ours(cell) if cell else "", "best" if is_best else ""))
            if paper[condition]:
                row.append(_td("paper", _paper(cell) if cell else ""))
        rows.append("".join(row) + "</tr>")
    return _framed("scores", f"<tr><th></th>{groups}</tr><tr><th>method</th>{heads}</tr>", "".join(rows))


def _ours(cell: Cell) -> str:
    summary = cell.summary
    places = decimals(summary.std, summary.mean)
    interval = f"95 %: {span(summary.mean_interval, places)}" if summary.mean_interval else "one seed: no interval"
    count = f" · n = {summary.n}" if summary.n > 1 else ""
    iqm_interval = f" ({span(summary.iqm_interval, places)})" if summary.iqm_interval else ""
    return (
        f'<span><span class="mean">{plus_minus(summary.mean, summary.std, places)}</span>'
        f"<small>{interval}{count}</small><small>IQM {number(summary.iqm, places)}{iqm_interval}</small></span>"
    )


def _paper(cell: Cell) -> str:
    paper = cell.score.paper
    if paper is None:
        return '<span class="soft">–</span>'
    places = decimals(paper.std, paper.value)
    place = f"<small>{escape(paper.place)}</small>" if paper.place else ""
    return (
        f'<span><span class="paper">{plus_minus(paper.value, paper.std, places)}</span>{place}'
        f"{chip(cell.verdict, cell.why)}<small>{escape(cell.why)}</small></span>"
    )


def _overall(analysis: Analysis, payload: Payload) -> str:
    overall = analysis.overall
    if overall is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{swatch(m)}{escape(analysis.methods[m])}</th>'
        + _td("IQM", f"<span>{estimate.value:.2f}</span>")
        + _td("95 % interval", span(estimate.interval, 2) if estimate.interval else "one seed: no interval")
        + "</tr>"
        for m, estimate in sorted(overall.iqm.items(), key=lambda item: -item[1].value)
    )
    label = analysis.evidence.metrics.get(overall.metric, overall.metric)
    direction = ", turned round as less is better" if overall.metric in analysis.evidence.lower_is_better else ""
    chart = _chart(
        payload.profile(analysis, f"Performance profiles of {len(overall.iqm)} methods"), "Share of runs above a score"
    )
    return (
        f'<h3>Over all conditions</h3><p class="soft">{escape(label)}, scaled in each of {len(overall.conditions)} '
        f"conditions so that the worst run is 0 and the best is 1{direction}. Interquartile mean over all runs with "
        "its stratified bootstrap interval, and the share of runs above each score: the higher, the better.</p>"
        f'<div class="charts">{chart}'
        f"{_framed('overall', '<tr><th>method</th><th>IQM</th><th>95 % interval</th></tr>', rows)}</div>"
    )


def _heatmaps(analysis: Analysis, payload: Payload) -> str:
    maps = [h for h in analysis.evidence.heatmaps if usable(h)]
    if not maps:
        return ""
    grids = [shrink(np.asarray(h.visits, dtype=np.float64)) for h in maps]
    positive = np.concatenate([grid[grid > 0] for grid in grids])
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (1.0, 1.0)
    parts = []
    for condition, name in analysis.conditions(h.condition for h in maps).items():
        figures = []
        for heatmap, grid in zip(maps, grids, strict=True):
            if heatmap.condition != condition:
                continue
            label = analysis.methods.get(heatmap.method, heatmap.method)
            full = np.asarray(heatmap.visits)
            reached = f"{int((full > 0).sum()):,} of {int((~np.isnan(full)).sum()):,} cells"
            index = payload.heatmap(grid, low, high)
            figures.append(
                f'<figure data-method="{escape(heatmap.method)}"><canvas class="heat" data-heat="{index}" role="img" '
                f'aria-label="{escape(f"{label}, {name}: {reached} visited")}"></canvas>'
                f"<figcaption>{escape(label)}: {reached}</figcaption></figure>"
            )
        parts.append(f'<h4>{escape(name)}</h4><div class="maps">{"".join(figures)}</div>')
    return (
        f'<h3>Where the agents went</h3><p class="soft">Visits per cell, averaged over seeds, one log scale for all: '
        f'{number(low, 2 if low < 10 else 0)}<span class="ramp"></span>{number(high, 0)}. Grey: never visited; '
        f"empty: out of reach. The count is of cells that at least one seed visited.</p>{''.join(parts)}"
    )


def _frames(analysis: Analysis) -> str:
    figures, size, dropped = [], 0, 0
    for frame in analysis.evidence.frames:
        size += len(frame.png)
        if size > FRAME_BYTES:
            dropped += 1
            continue
        source = base64.b64encode(frame.png).decode()
        caption = escape(frame.caption)
        figures.append(
            f'<figure><img src="data:image/png;base64,{source}" alt="{caption}" loading="lazy">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if not figures and not dropped:
        return ""
    note = f'<p class="soft">{dropped} more left out to keep the page small.</p>' if dropped else ""
    return f'<h3>What the agent sees</h3><div class="frames">{"".join(figures)}</div>{note}'


def _settings(title: str, settings: Mapping[str, str]) -> str:
    if not settings:
        return ""
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in settings.items())
    return f"<details><summary>{title}</summary><table><tbody>{rows}</tbody></table></details>"
