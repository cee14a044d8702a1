"""Small pieces of HTML. Every text passes through `escape`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from lpm.report.html_data import KINDS


def chip(verdict: str, title: str = "", count: int | None = None) -> str:
    """A verdict in its colour; the words carry the meaning, not the colour alone."""
    text = verdict if count is None else f"{count} {verdict}"
    return f'<span class="chip {KINDS[verdict]}" title="{escape(title)}">{escape(text)}</span>'


def swatch(method: str) -> str:
    """The line style of a method, drawn by the script."""
    return f'<svg class="swatch" data-method="{escape(method)}"></svg>'


def count_of(things: Sequence[object], noun: str) -> str:
    """A number and its noun.

    >>> count_of([1], "warning"), count_of([1, 2], "warning")
    ('1 warning', '2 warnings')
    """
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def warning_list(warnings: Sequence[str], about: str = "") -> str:
    """Warnings behind a line that says how many; nothing if there are none."""
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    summary = f"{count_of(warnings, 'warning')} {about}".strip()
    return f'<details class="warn"><summary>{summary}</summary><ul>{items}</ul></details>'


def table_cell(label: str, cell: str, kind: str = "") -> str:
    """A cell of HTML; the label stands before it on a phone."""
    named = f' data-label="{escape(label)}"' if label else ""
    return f'<td{named} class="{kind if cell else "blank"}">{cell}</td>'


def framed(kind: str, head: str, rows: str) -> str:
    """A table that scrolls by itself when wide, and turns into cards on a phone."""
    return f'<div class="scroll"><table class="cards {kind}"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def tabs(kind: str, metrics: Mapping[str, str], extra: str = "") -> str:
    """Buttons that choose the metric, if there are several, and other controls."""
    buttons = ""
    if len(metrics) > 1:
        buttons = "".join(
            f'<button type="button" data-kind="{kind}" data-pane="{escape(metric)}" '
            f'aria-pressed="{"true" if index == 0 else "false"}">{escape(label)}</button>'
            for index, (metric, label) in enumerate(metrics.items())
        )
        buttons = f'<div class="tabs" role="group" aria-label="Metric">{buttons}</div>'
    return f'<div class="controls">{buttons}{extra}</div>' if buttons or extra else ""


def pane(kind: str, metric: str, label: str, first: bool, content: str) -> str:
    """What belongs to one metric; only the first is shown until another is chosen. Print shows all."""
    hidden = "" if first else " hidden"
    attributes = f'data-kind="{kind}" data-pane="{escape(metric)}"{hidden}'
    return f'<div class="pane" {attributes}><h4>{escape(label)}</h4>{content}</div>'


def chart(index: int, caption: str, detail: str = "", focus: bool = False) -> str:
    """A place for a chart that the script draws; with `focus` the arrow keys move along it."""
    tab = ' tabindex="0"' if focus else ""
    small = f"<small>{escape(detail)}</small>" if detail else ""
    return f'<figure class="chart" data-chart="{index}"{tab}><figcaption>{escape(caption)}{small}</figcaption></figure>'


def grid(charts: Sequence[str]) -> str:
    """Charts side by side; four of them two by two."""
    kind = "charts four" if len(charts) == 4 else "charts"
    return f'<div class="{kind}">{"".join(charts)}</div>'


def legend(methods: Iterable[str]) -> str:
    """A place for the buttons that hide and show methods."""
    names = escape(json.dumps(list(methods)))
    return f'<div class="legend" role="group" aria-label="Methods shown" data-methods="{names}"></div>'
