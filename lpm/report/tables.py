"""Small pieces of HTML, and the tables made of them. Every text passes through `escape`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from lpm.report.analysis import Analysis, Cell, ClaimResult
from lpm.report.charts import KINDS, Payload
from lpm.report.ranking import Ranking
from lpm.report.seed_statistics import Estimate
from lpm.report.text import as_printed, count_of, decimals, number, p_value, plus_minus, short_number, span

MOST_ROWS = 20
"""Of a table that is open from the start, and so is printed."""


def chip(verdict: str, title: str = "", count: int | None = None) -> str:
    """A verdict in its colour; the words carry the meaning, not the colour alone."""
    text = verdict if count is None else f"{count} {verdict}"
    return f'<span class="chip {KINDS[verdict]}" title="{escape(title)}">{escape(text)}</span>'


def named(method: str, label: str) -> str:
    """The head of a method's row, with its line style, which the script draws."""
    return f'<th scope="row"><svg class="swatch" data-method="{escape(method)}"></svg>{escape(label)}</th>'


def table_cell(label: str, cell: str, kind: str = "") -> str:
    """A cell of HTML; the label stands before it on a phone."""
    data = f' data-label="{escape(label)}"' if label else ""
    return f'<td{data} class="{kind if cell else "blank"}">{cell}</td>'


def framed(kind: str, head: str, rows: str) -> str:
    """A table that scrolls by itself when wide, and turns into cards on a phone."""
    return f'<div class="scroll"><table class="cards {kind}"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def heads(*titles: str) -> str:
    """A row of column titles."""
    return f"<tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"


def chart(index: int, caption: str, detail: str = "", focus: bool = False) -> str:
    """A place for a chart that the script draws; with `focus` the arrow keys move along it."""
    tab = ' tabindex="0"' if focus else ""
    small = f"<small>{escape(detail)}</small>" if detail else ""
    return f'<figure class="chart" data-chart="{index}"{tab}><figcaption>{escape(caption)}{small}</figcaption></figure>'


def fold(title: str, content: str, is_open: bool = False) -> str:
    """A part of a section that can be closed; nothing if there is nothing in it. Print shows what is open."""
    if not content:
        return ""
    return f'<details class="fold"{" open" if is_open else ""}><summary><h3>{title}</h3></summary>{content}</details>'


def panes(
    kind: str, metrics: Mapping[str, str], content: Callable[[str, str], tuple[Sequence[str], str]], extra: str = ""
) -> tuple[str, str]:
    """Buttons that choose the metric, if there are several, with other controls; and what belongs to each metric.

    `content` gives charts and the HTML below them. Only the first pane is shown until another is chosen.
    """
    buttons, parts = "", ""
    for index, (metric, label) in enumerate(metrics.items()):
        charts, below = content(metric, label)
        grid = f'<div class="{"charts four" if len(charts) == 4 else "charts"}">{"".join(charts)}</div>'
        place = f'data-kind="{kind}" data-pane="{escape(metric)}"'
        pressed = "true" if index == 0 else "false"
        buttons += f'<button type="button" {place} aria-pressed="{pressed}">{escape(label)}</button>'
        parts += f'<div class="pane" {place}{" hidden" if index else ""}><h4>{escape(label)}</h4>{grid}{below}</div>'
    tabs = f'<div class="tabs" role="group" aria-label="Metric">{buttons}</div>' if len(metrics) > 1 else ""
    return (f'<div class="controls">{tabs}{extra}</div>' if tabs or extra else ""), parts


def ranked(ranking: Ranking, titles: Mapping[str, str]) -> str:
    """The order of the methods, and each method's mean in every task; the darker, the nearer to the best."""
    groups: dict[str, int] = {}
    for task in ranking.tasks:
        groups[task.section] = groups.get(task.section, 0) + 1
    spans = "".join(
        f'<th class="group" colspan="{count}"><a href="#{section}">{escape(titles[section])}</a></th>'
        for section, count in groups.items()
    )
    head = heads("method", "score", "mean rank", "best in", *(escape(t.label or t.metric) for t in ranking.tasks))
    rows = []
    for index, place in enumerate(ranking.places):
        interval = f"<small>{span(place.score.interval, 2)}</small>"
        cells = [
            table_cell("score", f'<span><span class="mean">{place.score.value:.2f}</span>{interval}</span>'),
            table_cell("mean rank", f"<span>{place.rank:.1f}</span>"),
            table_cell("best in", f"<span>{place.wins} of {place.tasks}</span>"),
        ]
        for task in ranking.tasks:
            name = f"{titles[task.section]}: {task.label or task.metric}"
            cells.append(_task_cell(name, task.means.get(place.method), task.scaled.get(place.method, 0.0)))
        rows.append(f"<tr>{named(place.method, f'{index + 1}. {place.label}')}{''.join(cells)}</tr>")
    return framed("ranked", f'<tr><th colspan="4"></th>{spans}</tr>{head}', "".join(rows))


def _task_cell(label: str, mean: Estimate | None, scaled: float) -> str:
    if mean is None:
        return table_cell(label, '<span class="soft">–</span>')
    shade = f'<span class="shade{" top" if scaled == 1 else ""}" style="--share:{round(100 * scaled)}%">'
    return table_cell(label, f"<span>{shade}{short_number(mean.value)}</span></span>")


def claims(analysis: Analysis) -> str:
    """What the paper says, tested."""
    if not analysis.claims:
        return ""
    rows = "".join(_claim_row(analysis, result) for result in analysis.claims)
    head = heads("What the paper says", "Verdict", "Difference", "P(better)", "p, corrected")
    return framed("claims", head, rows)


def _claim_row(analysis: Analysis, result: ClaimResult) -> str:
    claim, evidence = result.claim, analysis.evidence
    better, worse = (evidence.methods.get(m, m) for m in (claim.better, claim.worse))
    where = evidence.conditions.get(claim.condition, claim.condition), evidence.metrics.get(claim.metric, claim.metric)
    detail = " · ".join((f"{better} over {worse}", *where, *([claim.place] if claim.place else [])))
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
        alone = f"{p_value(test.p)} alone · {method}"
        cells += [
            ("Difference", f"<span>{'+' if shown > 0 else ''}{number(shown, decimals(None, shown))}</span>"),
            ("P(better)", f"<span>{improvement.value:.2f}<small>{chance}</small></span>"),
            ("p, corrected", f"<span>{p_value(result.corrected)}<small>{alone}</small></span>"),
        ]
    return f"<tr>{''.join(table_cell(label, cell) for label, cell in cells)}</tr>"


def scores(analysis: Analysis, payload: Payload) -> str:
    """Charts and tables of the scores, a pane per metric."""
    metrics = analysis.metrics("scores")
    if not metrics:
        return ""

    def content(metric: str, label: str) -> tuple[list[str], str]:
        table = analysis.table(metric)
        charts = []
        for condition, name in table.conditions.items():
            here = [table.cells[condition, m] for m in table.methods if (condition, m) in table.cells]
            alt = f"{label}, {name}: seeds, mean and interval of {len(here)} methods"
            charts.append(chart(payload.strip(here, alt), name or label, label if name else ""))
        return charts, fold("The same as a table", _table(analysis, metric), len(table.methods) <= MOST_ROWS)

    controls, parts = panes("scores", metrics, content)
    note = "Every number is per seed. Small dots: seeds. Large dot and bar: mean and its 95 % bootstrap interval."
    if any(cell.score.paper for cell in analysis.cells.values()):
        note += (
            " Diamond: the paper's mean, dashed: its standard deviation. ✓ reproduced, ✗ not reproduced, ? undecided."
        )
    note += (
        " In the table: mean ± sample standard deviation, bold the best; 95 % interval of the mean; the interquartile "
        "mean on hovering."
    )
    return f'{controls}{parts}<p class="soft">{note}</p>'


def _table(analysis: Analysis, metric: str) -> str:
    """Methods × conditions; the paper's number stands beside ours, or below it when there are many conditions."""
    table = analysis.table(metric)
    conditions = table.conditions
    paper = {c: any(cell.score.paper for (k, _), cell in table.cells.items() if k == c) for c in conditions}
    beside = {c: paper[c] and len(conditions) <= 2 for c in conditions}
    groups = "".join(
        f'<th class="group" colspan="{2 if beside[c] else 1}">{escape(name) or "&nbsp;"}</th>'
        for c, name in conditions.items()
    )
    ours = {c: "ours" if beside[c] or not paper[c] else "ours, and the paper's" for c in conditions}
    titles = [title for c in conditions for title in (ours[c], *(["paper"] if beside[c] else []))]
    rows = []
    for method, label in table.methods.items():
        row = [f"<tr>{named(method, label)}"]
        for condition, name in conditions.items():
            cell = table.cells.get((condition, method))
            shown = _ours(cell) if cell else ""
            theirs = _paper(cell) if cell and (cell.score.paper or beside[condition]) else ""
            if theirs and not beside[condition]:
                shown = f'<span>{shown}<span class="below">{theirs}</span></span>'
            best = cell is not None and table.is_best(condition, cell)
            row.append(table_cell(name or "ours", shown, "best" if best else ""))
            if beside[condition]:
                row.append(table_cell("paper", theirs))
        rows.append("".join(row) + "</tr>")
    kind = "scores" if len(conditions) <= 2 else "scores many"
    return framed(kind, f"<tr><th></th>{groups}</tr>{heads('method', *titles)}", "".join(rows))


def _ours(cell: Cell) -> str:
    summary = cell.summary
    places = decimals(summary.std, summary.mean)
    interval = f"95 %: {span(summary.mean_interval, places)}" if summary.mean_interval else "one seed: no interval"
    iqm_interval = f" ({span(summary.iqm_interval, places)})" if summary.iqm_interval else ""
    diverged = f" · {len(cell.score.diverged)} diverged" if cell.score.diverged else ""
    return (
        f'<span title="interquartile mean {number(summary.iqm, places)}{iqm_interval}">'
        f'<span class="mean">{plus_minus(summary)}</span>'
        f"<small>{interval} · {count_of(summary.n, 'seed')}{diverged}</small></span>"
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
        f"<tr>{named(m, analysis.methods[m])}"
        + table_cell("IQM", f"<span>{estimate.value:.2f}</span>")
        + table_cell("95 % interval", span(estimate.interval, 2) if estimate.interval else "one seed: no interval")
        + "</tr>"
        for m, estimate in sorted(result.iqm.items(), key=lambda item: -item[1].value)
    )
    label = analysis.evidence.metrics.get(result.metric, result.metric)
    direction = ", turned round as less is better" if result.metric in analysis.evidence.lower_is_better else ""
    alt = f"Performance profiles of {len(result.iqm)} methods"
    return (
        f'<p class="soft">{escape(label)}, scaled in each of {len(result.conditions)} '
        f"conditions so that the worst run is 0 and the best is 1{direction}. Interquartile mean over all runs with "
        "its stratified bootstrap interval, and the share of runs above each score: the higher, the better.</p>"
        f'<div class="charts">{chart(payload.profile(analysis, alt), "Share of runs above a score")}'
        f"{framed('overall', heads('method', 'IQM', '95 % interval'), rows)}</div>"
    )
