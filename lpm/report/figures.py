"""Figures for papers and docs, drawn with matplotlib: curves, scores and maps of visits as PNG, SVG and PDF."""

import io
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from lpm.report.analysis import Analysis, Band, Cell, log_range
from lpm.report.families import RECOMMENDED, Look
from lpm.report.ranking import in_focus
from lpm.report.seed_statistics import Floats
from lpm.report.text import count_of, plain

FORMATS = ("png", "svg", "pdf")
MOST_COLUMNS = 5
"""Methods whose maps of visits stand beside each other: more could not be read."""
GREY = "#c3c8cd"
LEGEND_INCHES = 1.9
"""Width of a column of the legend: the longest labels fit."""
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)))


def draw_curves(analysis: Analysis, metric: str, looks: Mapping[str, Look]) -> Any:
    """Mean of every method; those in focus have their colour and a band, the others are grey and share one entry.

    A condition with one method alone compares nothing, and is left out where others have more.
    """
    every = analysis.panels(metric)
    panels = {condition: bands for condition, bands in every.items() if len(bands) > 1} or every
    figure, axes = _panels(list(analysis.conditions(panels).values()))
    focus = in_focus(analysis)
    others = {band.method for bands in panels.values() for band in bands} - set(focus)
    for axis, bands in zip(axes, panels.values(), strict=True):
        for band in bands:
            look, label = looks[band.method], plain(analysis.methods[band.method])
            if band.method in focus:
                _line(axis, band, label, look.colour, _DASHES[look.dash])
            else:
                _line(axis, band, count_of(len(others), "other method"), None, "solid")
        axis.set_xlabel(plain(analysis.evidence.step_label))
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:g}" if step < 1000 else f"{step / 1000:,g}k")
    axes[0].set_ylabel(plain(fill(analysis.metrics("curves")[metric], 32)))
    # from all panels: a method may have runs in one condition only; the grey ones last
    handles = {h.get_label(): h for axis in axes for h in axis.get_lines()}
    ordered = sorted(handles.values(), key=lambda handle: handle.get_color() == GREY)
    width, height = figure.get_size_inches()
    columns = min(4, int(width / LEGEND_INCHES))
    figure.set_size_inches(width, height + 0.18 * max(0, -(-len(handles) // columns) - 2))
    figure.legend(handles=ordered, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def draw_scores(analysis: Analysis, metric: str, looks: Mapping[str, Look]) -> Any:
    """Seeds, mean, interval and the paper's number of every method, a panel per condition."""
    table, focus = analysis.table(metric), in_focus(analysis)
    figure, axes = _panels(list(table.conditions.values()), height=1.1 + 0.24 * len(table.methods))
    for axis, condition in zip(axes, table.conditions, strict=True):
        for row, method in enumerate(table.methods):
            if (condition, method) in table.cells:
                colour = looks[method].colour if method in focus and looks[method].family != "other" else "#7d858d"
                _strip(axis, row, table.cells[condition, method], colour)
        first = axis.get_subplotspec().is_first_col()
        labels = [plain(label) for label in table.methods.values()] if first else []
        axis.set_yticks(range(len(table.methods)), labels or [""] * len(table.methods), fontsize=10)
        axis.set_ylim(len(table.methods) - 0.4, -0.6)
        axis.set_xlabel(plain(fill(analysis.metrics("scores")[metric], 40)))
        axis.grid(axis="both" if len(table.methods) > 8 else "x", alpha=0.3)
    return figure


def draw_heatmaps(analysis: Analysis) -> Any:
    """Where the agents went: a row per condition, a column per method in focus."""
    found = analysis.maps
    conditions, shown = analysis.conditions(condition for condition, _ in found), {method for _, method in found}
    columns = [method for method in in_focus(analysis) if method in shown][:MOST_COLUMNS]
    cells = [(c, m) for c in conditions for m in columns if (c, m) in found]
    titles = [f"{analysis.methods[method]}\n{conditions[condition]}" for condition, method in cells]
    aligned = len(cells) == len(conditions) * len(columns)
    return draw_visits(titles, [found[cell] for cell in cells], len(columns) if aligned else 4)


def draw_visits(titles: Sequence[str], grids: Sequence[Floats], columns: int = 1, size: float = 1.8) -> Any:
    """Maps of visits on one log scale. Grey: never visited; white: out of reach (NaN)."""
    from matplotlib.colors import LogNorm

    low, high = log_range(grids)
    figure, axes = _panels(titles, size, size, columns, square=False, fontsize=9)
    image = None
    for axis, visits in zip(axes, grids, strict=True):
        axis.imshow(np.where(np.isnan(visits), 1.0, 0.85), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        visited = np.ma.masked_where(~(visits > 0), visits)
        image = axis.imshow(visited, norm=LogNorm(low, max(high, low * 1.01)), cmap="cividis", interpolation="nearest")
        axis.spines[:].set_visible(False)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(image, ax=axes, label="visits", shrink=0.6)
    return figure


def encoded(figure: Any, kinds: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """Format to content. The same figure gives the same bytes: no date, no random names."""
    import matplotlib

    files = {}
    with matplotlib.rc_context({"svg.hashsalt": "lpm", "pdf.fonttype": 42}):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, not once per format
        for kind in kinds:
            stream = io.BytesIO()
            metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
            figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
            files[kind] = stream.getvalue()
    return files


def _panels(titles: Sequence[str], width: float = 3.5, height: float = 2.9, columns: int = 3, square: bool = True,
            fontsize: float = 10) -> tuple[Any, list[Any]]:  # fmt: skip
    """A figure and an axis per title, row by row; with `square` four of them two by two."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(titles)
    columns = min(2 if square and count == 4 else columns, count)
    width = 5.5 if square and count == 1 else width
    figure = Figure(figsize=(width * columns, height * -(-count // columns)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(-(-count // columns), columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    for axis, title in zip(axes, titles, strict=False):
        axis.spines[["top", "right"]].set_visible(False)
        lines = (fill(line, round(10 * width)) for line in plain(title).splitlines())
        axis.set_title("\n".join(lines), fontsize=fontsize)
    return figure, axes[:count]


def _line(axis: Any, band: Band, label: str, colour: str | None, dashes: Any) -> None:
    """A mean with its band; thin, grey and behind without a colour."""
    width = 1.0 if colour is None else 2.8 if band.method == RECOMMENDED else 2.0
    look = {"linewidth": width, "color": colour or GREY, "linestyle": dashes, "zorder": 2 if colour is None else 3}
    axis.plot(band.steps, band.mean, label=label, **look)
    if colour is not None and not np.isnan(band.low).all():
        axis.fill_between(band.steps, band.low, band.high, color=colour, alpha=0.11, linewidth=0)


def _strip(axis: Any, row: int, cell: Cell, colour: str) -> None:
    values, interval, paper = cell.dots, cell.summary.mean_interval, cell.score.paper
    axis.plot(values, [row] * len(values), "o", color=colour, alpha=0.4, markersize=3.5)
    if interval is not None:
        axis.hlines(row, interval.low, interval.high, color=colour, linewidth=2.2)
    axis.plot([cell.summary.mean], [row], "o", color=colour, markersize=6.5)
    if paper is not None:
        look = {"fmt": "D", "color": "0.2", "mfc": "white", "markersize": 4, "linewidth": 0.8}
        axis.errorbar(paper.value, row + 0.27, xerr=paper.std, **look)
