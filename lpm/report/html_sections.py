"""The section of one experiment: text, claims, curves, scores, heat maps, frames, settings."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape

import numpy as np

from lpm.report.analysis import Analysis
from lpm.report.html_data import Payload, shrink, usable
from lpm.report.html_parts import chart, grid, legend, pane, tabs, warning_list
from lpm.report.html_tables import claims, overall, scores
from lpm.report.text import flatten, number, slug

FRAME_BYTES = 1_500_000
"""Frames of all experiments beyond this are left out, and the page says so."""


def anchor(analysis: Analysis) -> str:
    """The id of an experiment's section."""
    return slug(f"{analysis.evidence.name}-{analysis.evidence.scale}")


def section(analysis: Analysis, payload: Payload) -> str:
    """One experiment."""
    evidence = analysis.evidence
    payload.labels[anchor(analysis)] = analysis.methods
    low, high = analysis.seeds
    seeds = f"{low} seed{'s' if low != 1 else ''}" if low == high else f"{low} to {high} seeds"
    scale = f"{evidence.scale} scale" if evidence.scale else ""
    eyebrow = " · ".join(part for part in (evidence.place, scale, seeds if high else "no runs") if part)
    parts = [
        f'<section class="experiment" id="{anchor(analysis)}"><p class="eyebrow">{escape(eyebrow)}</p>',
        f"<h2>{escape(evidence.title)}</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in evidence.about),
        warning_list(analysis.warnings),
        claims(analysis),
        _curves(analysis, payload),
        scores(analysis, payload),
        overall(analysis, payload),
        _heatmaps(analysis, payload),
        _frames(analysis, payload),
        _settings("Configuration", dict(flatten(evidence.settings))),
        _settings("Versions", {str(k): str(v) for k, v in evidence.versions.items()}),
        "</section>",
    ]
    return "".join(parts)


def _curves(analysis: Analysis, payload: Payload) -> str:
    metrics = analysis.metrics("curves")
    if not metrics:
        maps = {h.method for h in analysis.evidence.heatmaps}
        return legend(m for m in analysis.methods if m in maps) if len(maps) > 1 else ""
    panes = []
    for index, (metric, label) in enumerate(metrics.items()):
        bands = [band for band in analysis.bands if band.metric == metric]
        charts = []
        for condition, name in analysis.conditions(band.condition for band in bands).items():
            here = [band for method in analysis.methods for band in bands
                    if band.method == method and band.condition == condition]  # fmt: skip
            alt = f"{label}, {name}: mean over seeds of {len(here)} methods against {analysis.evidence.step_label}"
            charts.append(
                chart(
                    payload.curves(here, analysis.evidence.step_label, alt),
                    name or label,
                    label if name else "",
                    focus=True,
                )
            )
        panes.append(pane("curves", metric, label, index == 0, grid(charts)))
    drawn = {band.method for band in analysis.bands} | {heatmap.method for heatmap in analysis.evidence.heatmaps}
    log = '<div class="tabs"><button type="button" class="log" aria-pressed="false">Log scale</button></div>'
    alone = any(band.seeds == 1 for band in analysis.bands)
    note = "Mean over seeds; the band is its pointwise 95 % bootstrap interval."
    if alone:
        note += " A line without a band is a single seed."
    return (
        f"<h3>Curves</h3>{tabs('curves', metrics, log)}"
        f"{legend(m for m in analysis.methods if m in drawn)}{''.join(panes)}"
        f'<p class="soft">{note}</p>'
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
        for heatmap, cells in zip(maps, grids, strict=True):
            if heatmap.condition != condition:
                continue
            label = analysis.methods.get(heatmap.method, heatmap.method)
            full = np.asarray(heatmap.visits)
            reached = f"{int((full > 0).sum()):,} of {int((~np.isnan(full)).sum()):,} cells"
            index = payload.heatmap(cells, low, high)
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
    return f'<h3>What the agent sees</h3><div class="frames">{"".join(figures)}</div>{note}'


def _settings(title: str, settings: Mapping[str, str]) -> str:
    if not settings:
        return ""
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in settings.items())
    return f"<details><summary>{title}</summary><table><tbody>{rows}</tbody></table></details>"
