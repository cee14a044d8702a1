"""Figures and tables for papers and pages: PNG, SVG and PDF; CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from lpm.files import write_atomic
from lpm.report.analysis import Analysis, Band, Cell
from lpm.report.html_data import slots, usable
from lpm.report.text import as_printed, decimals, markdown_table, plus_minus, slug, span

FORMATS = ("png", "svg", "pdf")
_COLOURS = ("#0067b1", "#d55e00", "#00805a", "#b5438c", "#b98500", "#2fa3df", "#6a737c", "#7a1f4f")
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)))
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": r"$-$", "±": r"$\pm$", "–": "--", "\n": " ",
}  # fmt: skip


def export(analyses: Sequence[Analysis], folder: Path) -> list[Path]:
    """Write everything of every experiment into `folder`; return the files."""
    looks = slots(method for analysis in analyses for method in analysis.methods)
    files: dict[Path, bytes] = {}
    for analysis in analyses:
        stem = slug(f"{analysis.evidence.name}-{analysis.evidence.scale}")
        files[folder / f"{stem}-scores.csv"] = scores_csv(analysis).encode()
        if analysis.claims:
            files[folder / f"{stem}-claims.csv"] = claims_csv(analysis).encode()
        for metric in analysis.metrics("scores"):
            files[folder / f"{stem}-{slug(metric)}.tex"] = latex_table(analysis, metric).encode()
            files[folder / f"{stem}-{slug(metric)}.md"] = markdown_scores(analysis, metric).encode()
            files |= _drawn(folder / f"{stem}-{slug(metric)}-scores", _strips(analysis, metric, looks))
        for metric in analysis.metrics("curves"):
            files |= _drawn(folder / f"{stem}-{slug(metric)}-curves", _curves(analysis, metric, looks))
        if any(usable(heatmap) for heatmap in analysis.evidence.heatmaps):
            files |= _drawn(folder / f"{stem}-visits", _heatmaps(analysis))
    for path, content in files.items():
        write_atomic(path, content)
    return list(files)


def scores_csv(analysis: Analysis) -> str:
    """One line per metric, condition and method, with all digits."""
    header = ("metric", "condition", "method", "seeds", "mean", "std", "mean_low", "mean_high", "iqm", "iqm_low",
              "iqm_high", "paper_mean", "paper_std", "difference_low", "difference_high", "verdict",
              "values")  # fmt: skip
    rows = []
    for (metric, condition, method), cell in analysis.cells.items():
        summary, paper = cell.summary, cell.score.paper
        rows.append((
            metric, condition, method, summary.n, summary.mean, summary.std, *_ends(summary.mean_interval),
            summary.iqm, *_ends(summary.iqm_interval), paper and paper.value, paper and paper.std,
            *_ends(cell.difference), cell.verdict, " ".join(f"{s}:{v:.10g}" for s, v in cell.score.values.items()),
        ))  # fmt: skip
    return _csv(header, rows)


def claims_csv(analysis: Analysis) -> str:
    """One line per claim."""
    header = ("claim", "place", "condition", "metric", "better", "worse", "verdict", "difference", "p", "p_holm",
              "paired", "exact", "p_better", "p_better_low", "p_better_high", "why")  # fmt: skip
    rows = []
    for result in analysis.claims:
        claim, test, chance = result.claim, result.comparison, result.improvement
        rows.append((
            claim.text, claim.place, claim.condition, claim.metric, claim.better, claim.worse, result.verdict,
            result.difference, test and test.p, result.corrected, test and test.paired, test and test.exact,
            chance and chance.value, *_ends(chance and chance.interval), result.why,
        ))  # fmt: skip
    return _csv(header, rows)


def _ends(interval: Any) -> tuple[Any, Any]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)
    return stream.getvalue()


def _csv_cell(cell: Any) -> Any:
    if cell is None:
        return ""
    # a spreadsheet runs a text that starts like a formula
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) else cell


def latex(text: str) -> str:
    r"""Text as LaTeX source.

    >>> print(latex("50 % of a_b & ${x}"))
    50 \% of a\_b \& \$\{x\}
    """
    return "".join(_LATEX.get(character, character) for character in text)


def latex_table(analysis: Analysis, metric: str) -> str:
    """Methods × conditions, mean ± std, the best in bold, the paper's number beside ours. Needs booktabs."""
    cells = {key[1:]: cell for key, cell in analysis.cells.items() if key[0] == metric}
    conditions = analysis.conditions(condition for condition, _ in cells)
    paper = any(cell.score.paper for cell in cells.values())
    width = 2 if paper else 1
    groups = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{latex(name)}}}" for name in conditions.values())
    heads = " & ".join(["ours", "paper"][:width] * len(conditions))
    pick = min if metric in analysis.evidence.lower_is_better else max
    best = {c: pick(cell.summary.mean for (k, _), cell in cells.items() if k == c) for c in conditions}
    lines = []
    for method, label in analysis.methods.items():
        if not any((c, method) in cells for c in conditions):
            continue
        row = [latex(label)]
        for condition in conditions:
            row += _latex_cells(cells.get((condition, method)), best[condition], paper)
        lines.append(" & ".join(row) + r" \\")
    seeds = sorted({cell.summary.n for cell in cells.values()})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    label = analysis.metrics("scores")[metric]
    caption = f"{analysis.evidence.title}: {label}, mean ± sample standard deviation over {count} seeds."
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex(caption)}}}",
            rf"\begin{{tabular}}{{l{'c' * width * len(conditions)}}}",
            r"\toprule",
            rf" & {groups} \\",
            rf"Method & {heads} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def markdown_scores(analysis: Analysis, metric: str) -> str:
    """Methods × conditions: mean ± std [95 % interval of the mean], the paper's number in brackets."""
    cells = {key[1:]: cell for key, cell in analysis.cells.items() if key[0] == metric}
    conditions = analysis.conditions(condition for condition, _ in cells)
    rows = [
        (label, *(_markdown_cell(cells.get((condition, method))) for condition in conditions))
        for method, label in analysis.methods.items()
        if any((condition, method) in cells for condition in conditions)
    ]
    return markdown_table(("method", *conditions.values()), rows)


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    summary, paper = cell.summary, cell.score.paper
    places = decimals(summary.std, summary.mean)
    shown = plus_minus(summary.mean, summary.std, places)
    if summary.mean_interval is not None:
        shown += f" [{span(summary.mean_interval, places)}]"
    return shown + (f" (paper: {as_printed(paper.value, paper.std)}; {cell.verdict})" if paper else "")


def _latex_cells(cell: Cell | None, best: float, paper: bool) -> list[str]:
    if cell is None:
        return ["--"] * (2 if paper else 1)
    ours = latex(plus_minus(cell.summary.mean, cell.summary.std, decimals(cell.summary.std, cell.summary.mean)))
    shown = [rf"\textbf{{{ours}}}" if cell.summary.mean == best else ours]
    if paper:
        number = cell.score.paper
        shown.append("--" if number is None else latex(as_printed(number.value, number.std)))
    return shown


def _panels(
    count: int, width: float = 4.4, height: float = 3.2, columns: int = 3, square: bool = True
) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row; with `square` four of them two by two."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(2 if square and count == 4 else columns, count)
    figure = Figure(figsize=(width * columns, height * -(-count // columns)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(-(-count // columns), columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    for axis in axes[:count]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _plain(text: str) -> str:
    """Matplotlib reads $…$ as a formula; names are not formulas."""
    return text.replace("$", r"\$")


def _look(method: str, looks: Mapping[str, int]) -> dict[str, Any]:
    slot = looks[method]
    return {"color": _COLOURS[slot % 8], "linestyle": _DASHES[slot // 8 % 3]}


def _curves(analysis: Analysis, metric: str, looks: Mapping[str, int]) -> Any:
    bands = [band for band in analysis.bands if band.metric == metric]
    conditions = analysis.conditions(band.condition for band in bands)
    figure, axes = _panels(len(conditions))
    for axis, (condition, name) in zip(axes, conditions.items(), strict=False):
        for method, label in analysis.methods.items():
            for band in (b for b in bands if (b.condition, b.method) == (condition, method)):
                _line(axis, band, _plain(label), _look(method, looks))
        axis.set_title(_plain(name), fontsize=10)
        axis.set_xlabel(_plain(analysis.evidence.step_label))
    axes[0].set_ylabel(_plain(fill(analysis.metrics("curves")[metric], 32)))
    # from all panels: a method may have runs in one condition only
    handles = {h.get_label(): h for axis in axes for h in axis.get_lines()}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _line(axis: Any, band: Band, label: str, look: Mapping[str, Any]) -> None:
    axis.plot(band.steps, band.mean, label=label, linewidth=2.2 if band.method == "lpm" else 1.4, **look)
    if not np.isnan(band.low).all():
        axis.fill_between(band.steps, band.low, band.high, color=look["color"], alpha=0.15, linewidth=0)


def _strips(analysis: Analysis, metric: str, looks: Mapping[str, int]) -> Any:
    cells = {key[1:]: cell for key, cell in analysis.cells.items() if key[0] == metric}
    conditions = analysis.conditions(condition for condition, _ in cells)
    methods = [m for m in analysis.methods if any((c, m) in cells for c in conditions)]
    figure, axes = _panels(len(conditions), height=1.1 + 0.3 * len(methods))
    for axis, (condition, name) in zip(axes, conditions.items(), strict=False):
        for row, method in enumerate(methods):
            if (condition, method) in cells:
                _strip(axis, row, cells[condition, method], _look(method, looks)["color"])
        axis.set_yticks(range(len(methods)), [_plain(analysis.methods[m]) for m in methods], fontsize=9)
        axis.set_ylim(len(methods) - 0.4, -0.6)
        axis.set_title(_plain(name), fontsize=10)
        axis.set_xlabel(_plain(fill(analysis.metrics("scores")[metric], 40)))
        axis.grid(axis="x", alpha=0.3)
    return figure


def _strip(axis: Any, row: int, cell: Cell, colour: str) -> None:
    values = list(cell.score.values.values())
    axis.plot(values, [row] * len(values), "o", color=colour, alpha=0.4, markersize=3.5)
    if cell.summary.mean_interval is not None:
        axis.hlines(row, cell.summary.mean_interval.low, cell.summary.mean_interval.high, color=colour, linewidth=2.2)
    axis.plot([cell.summary.mean], [row], "o", color=colour, markersize=6.5)
    paper = cell.score.paper
    if paper is not None:
        axis.errorbar(
            paper.value, row + 0.27, xerr=paper.std, fmt="D", color="0.2", mfc="white", markersize=4, linewidth=0.8
        )


def _heatmaps(analysis: Analysis) -> Any:
    from matplotlib.colors import LogNorm

    maps = [heatmap for heatmap in analysis.evidence.heatmaps if usable(heatmap)]
    positive = np.concatenate([np.asarray(h.visits)[np.asarray(h.visits) > 0] for h in maps])
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (1.0, 10.0)
    conditions = list(analysis.conditions(h.condition for h in maps))
    rank = {method: place for place, method in enumerate(analysis.methods)}
    maps.sort(key=lambda h: (conditions.index(h.condition), rank.get(h.method, len(rank))))
    # a row per condition, where that lines the methods up
    counts = {sum(h.condition == condition for h in maps) for condition in conditions}
    aligned = len(counts) == 1 and max(counts) <= 10
    figure, axes = _panels(len(maps), 2.4, 2.0, columns=max(counts) if aligned else 6, square=False)
    image = None
    for axis, heatmap in zip(axes, maps, strict=False):
        visits = np.asarray(heatmap.visits, dtype=np.float64)
        # grey: never visited; white: out of reach
        axis.imshow(np.where(np.isnan(visits), 1.0, 0.85), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        visited = np.ma.masked_where(~(visits > 0), visits)
        image = axis.imshow(visited, norm=LogNorm(low, max(high, low * 1.01)), cmap="cividis", interpolation="nearest")
        axis.spines[:].set_visible(False)
        condition = analysis.evidence.conditions.get(heatmap.condition, heatmap.condition)
        method = analysis.methods.get(heatmap.method, heatmap.method)
        axis.set_title(_plain(f"{method}, {condition}"), fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(image, ax=axes, label="visits", shrink=0.6)
    return figure


def _drawn(stem: Path, figure: Any) -> dict[Path, bytes]:
    import matplotlib

    files = {}
    # the same input gives the same file: no date, no random names
    with matplotlib.rc_context({"svg.hashsalt": "lpm", "pdf.fonttype": 42}):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, not once per format
        for kind in FORMATS:
            stream = io.BytesIO()
            metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
            figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
            files[stem.with_name(f"{stem.name}.{kind}")] = stream.getvalue()
    return files
