"""Claims, scores and the comparison over all conditions, as tables and charts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from lpm.report.analysis import Analysis, Cell, ClaimResult
from lpm.report.html_data import Payload
from lpm.report.html_parts import chart, chip, framed, grid, pane, swatch, table_cell, tabs
from lpm.report.text import as_printed, decimals, number, p_value, plus_minus, span


def claims(analysis: Analysis) -> str:
    """What the paper says, tested."""
    if not analysis.claims:
        return ""
    rows = "".join(_claim_row(analysis, result) for result in analysis.claims)
    head = "".join(
        f"<th>{h}</th>" for h in ("What the paper says", "Verdict", "Difference", "P(better)", "p, corrected")
    )
    return f"<h3>Claims</h3>{framed('claims', f'<tr>{head}</tr>', rows)}"


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
    test, improvement, shown = result.comparison, result.improvement, result.difference
    if test is None or improvement is None or shown is None or result.corrected is None:
        cells += [("", "")] * 3
    else:
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
    return f"<tr>{''.join(table_cell(label, cell) for label, cell in cells)}</tr>"


def scores(analysis: Analysis, payload: Payload) -> str:
    """Charts and tables of the scores, a pane per metric."""
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
            alt = f"{label}, {name}: seeds, mean and interval of {len(here)} methods"
            charts.append(chart(payload.strip(here, alt), name or label, label if name else ""))
        content = grid(charts) + _table(analysis, metric, conditions)
        panes.append(pane("scores", metric, label, index == 0, content))
    paper = any(cell.score.paper for cell in analysis.cells.values())
    note = "Small dots: seeds. Large dot and bar: mean and its 95 % bootstrap interval."
    if paper:
        note += (
            " Diamond: the paper's mean, dashed: its standard deviation. ✓ reproduced, ✗ not reproduced, ? undecided."
        )
    note += (
        " In the table: mean ± sample standard deviation, bold the best; 95 % interval of the mean; interquartile mean."
    )
    return f'<h3>Scores</h3>{tabs("scores", metrics)}{"".join(panes)}<p class="soft">{note}</p>'


def _table(analysis: Analysis, metric: str, conditions: Mapping[str, str]) -> str:
    """Methods × conditions; the paper's number stands beside ours, or below it when there are many conditions."""
    cells = {key[1:]: cell for key, cell in analysis.cells.items() if key[0] == metric}
    paper = {c: any(cell.score.paper for (condition, _), cell in cells.items() if condition == c) for c in conditions}
    beside = {c: paper[c] and len(conditions) <= 2 for c in conditions}
    pick = min if metric in analysis.evidence.lower_is_better else max
    best = {c: pick(cell.summary.mean for (condition, _), cell in cells.items() if condition == c) for c in conditions}
    groups = "".join(
        f'<th class="group" colspan="{2 if beside[c] else 1}">{escape(name) or "&nbsp;"}</th>'
        for c, name in conditions.items()
    )
    below = {c: "ours, and the paper's" if paper[c] else "ours" for c in conditions}
    heads = "".join("<th>ours</th><th>paper</th>" if beside[c] else f"<th>{below[c]}</th>" for c in conditions)
    rows = []
    for method, label in analysis.methods.items():
        if not any((c, method) in cells for c in conditions):
            continue
        row = [f'<tr><th scope="row">{swatch(method)}{escape(label)}</th>']
        for condition, name in conditions.items():
            cell = cells.get((condition, method))
            is_best = cell is not None and len(cells) > 1 and cell.summary.mean == best[condition]
            ours = _ours(cell) if cell else ""
            theirs = _paper(cell) if cell and (cell.score.paper or beside[condition]) else ""
            if theirs and not beside[condition]:
                ours = f'<span>{ours}<span class="below">{theirs}</span></span>'
            row.append(table_cell(name or "ours", ours, "best" if is_best else ""))
            if beside[condition]:
                row.append(table_cell("paper", theirs))
        rows.append("".join(row) + "</tr>")
    kind = "scores" if len(conditions) <= 2 else "scores many"
    return framed(kind, f"<tr><th></th>{groups}</tr><tr><th>method</th>{heads}</tr>", "".join(rows))


def _ours(cell: Cell) -> str:
    summary = cell.summary
    places = decimals(summary.std, summary.mean)
    interval = f"95 %: {span(summary.mean_interval, places)}" if summary.mean_interval else "one seed: no interval"
    iqm_interval = f" ({span(summary.iqm_interval, places)})" if summary.iqm_interval else ""
    return (
        f'<span><span class="mean">{plus_minus(summary.mean, summary.std, places)}</span>'
        f"<small>{interval}</small><small>IQM {number(summary.iqm, places)}{iqm_interval}</small>"
        f"<small>{summary.n} seed{'s' if summary.n != 1 else ''}</small></span>"
    )


def _paper(cell: Cell) -> str:
    paper = cell.score.paper
    if paper is None:
        return '<span class="soft">–</span>'
    runs = f"{paper.place} · {paper.seeds} runs" if paper.seeds else paper.place
    return (
        f'<span><span class="paper" title="{escape(runs)}">{as_printed(paper.value, paper.std)}</span> '
        f"{chip(cell.verdict, cell.why)}<small>{escape(cell.why)}</small></span>"
    )


def overall(analysis: Analysis, payload: Payload) -> str:
    """The main metric over all conditions: table and performance profiles."""
    result = analysis.overall
    if result is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{swatch(m)}{escape(analysis.methods[m])}</th>'
        + table_cell("IQM", f"<span>{estimate.value:.2f}</span>")
        + table_cell("95 % interval", span(estimate.interval, 2) if estimate.interval else "one seed: no interval")
        + "</tr>"
        for m, estimate in sorted(result.iqm.items(), key=lambda item: -item[1].value)
    )
    label = analysis.evidence.metrics.get(result.metric, result.metric)
    direction = ", turned round as less is better" if result.metric in analysis.evidence.lower_is_better else ""
    drawing = chart(
        payload.profile(analysis, f"Performance profiles of {len(result.iqm)} methods"), "Share of runs above a score"
    )
    return (
        f'<h3>Over all conditions</h3><p class="soft">{escape(label)}, scaled in each of {len(result.conditions)} '
        f"conditions so that the worst run is 0 and the best is 1{direction}. Interquartile mean over all runs with "
        "its stratified bootstrap interval, and the share of runs above each score: the higher, the better.</p>"
        f'<div class="charts">{drawing}'
        f"{framed('overall', '<tr><th>method</th><th>IQM</th><th>95 % interval</th></tr>', rows)}</div>"
    )
