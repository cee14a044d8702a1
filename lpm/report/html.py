"""One self-contained page of all evidence: nothing is fetched, everything from a file is text."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from lpm import __version__
from lpm.files import write_atomic
from lpm.report.analysis import CLAIM_RULE, POINTS, VERDICT_RULE, Analysis
from lpm.report.html_data import KINDS, Payload, slots
from lpm.report.html_parts import chip, count_of, warning_list
from lpm.report.html_sections import anchor, section

TITLE = "Does the bonus survive the noise?"
LEAD = (
    "Learning Progress Monitoring and the methods it is compared with, run again: every table and figure of the paper "
    "that was run, the paper's numbers beside ours, with intervals over seeds."
)

PAGE_POINTS = 100_000
"""Points of all curves together; about 20 bytes each."""


def page(analyses: Sequence[Analysis], warnings: Sequence[str] = (), title: str = TITLE) -> str:
    """The whole page as HTML."""
    curves = sum(len(analysis.bands) for analysis in analyses)
    payload = Payload(points=max(20, min(POINTS, PAGE_POINTS // max(curves, 1))))
    sections = "".join(section(analysis, payload) for analysis in analyses)
    data = payload.json(slots(method for analysis in analyses for method in analysis.methods))
    script, style = _asset("report.js"), _asset("report.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The browser is told to run this one script and to fetch nothing.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    links = "".join(f'<a href="#{anchor(a)}">{escape(a.evidence.name)}</a>' for a in analyses)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f'<header class="top" id="top"><h1>{escape(title)}</h1><p class="lead">{escape(LEAD)}</p></header>'
        f'<nav class="bar" aria-label="Experiments"><div class="links"><a href="#summary">Summary</a>{links}</div>'
        '<button type="button" class="print">Print</button><button type="button" class="theme">Theme</button></nav>'
        f"<main>{_summary(analyses, warnings)}{sections}</main>"
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


def _summary(analyses: Sequence[Analysis], warnings: Sequence[str]) -> str:
    numbers = sum((a.verdicts for a in analyses), Counter())
    claims = sum((a.claim_verdicts for a in analyses), Counter())
    cells = [cell for a in analyses for cell in a.cells.values()]
    tiles = [
        _tile(
            "of the paper's numbers reproduced", numbers, "reproduced", ("reproduced", "not reproduced", "undecided")
        ),
        _tile("of the paper's claims hold", claims, "holds", ("holds", "contradicted", "undecided", "not run")),
        f'<div class="tile"><b>{len(analyses)}</b>experiment{"s" if len(analyses) != 1 else ""}'
        f'<div class="soft">{sum(cell.summary.n for cell in cells):,} scores of single runs</div></div>',
    ]
    rows = "".join(_summary_row(a) for a in analyses)
    named = warning_list(warnings, "about the files")
    smaller = sorted({a.evidence.scale for a in analyses} - {"paper", ""})
    caveat = (
        f"<p>Runs at the {' and '.join(map(escape, smaller))} scale have smaller budgets than the paper's. A number "
        "that differs there may differ because of the budget; each experiment says how large its runs are.</p>"
        if smaller
        else ""
    )
    return (
        f'<section id="summary"><div class="tiles">{"".join(tiles)}</div>{caveat}{named}'
        '<div class="scroll"><table class="cards summary"><thead><tr><th>experiment</th><th>in the paper</th>'
        f"<th>its numbers</th><th>its claims</th></tr></thead><tbody>{rows}</tbody></table></div>"
        "<details><summary>How the verdicts are reached</summary>"
        f"<p>{escape(VERDICT_RULE)}</p><p>{escape(CLAIM_RULE)}</p>"
        "<p>P(better) is the probability that a run of the first method scores better than a run of the second, a tie "
        "counting half. The interquartile mean (IQM) leaves out the lowest and the highest quarter of the runs. "
        "Intervals are 95 % percentile bootstrap intervals over seeds; with few seeds they are somewhat too narrow.</p>"
        "</details></section>"
    )


def _tile(what: str, counts: Counter[str], good: str, order: Sequence[str]) -> str:
    total = sum(counts.values())
    if not total:
        return f'<div class="tile"><b>–</b>{escape(what)}<div class="soft">none to compare with</div></div>'
    bar = "".join(
        f'<i class="{KINDS[v]}" style="width:{100 * counts[v] / total:.1f}%"></i>' for v in order if counts[v]
    )
    words = " · ".join(f"{counts[v]} {'hold' if v == 'holds' else v}" for v in order if counts[v])
    return (
        f'<div class="tile"><b>{counts[good]} <small>of {total}</small></b>{escape(what)}'
        f'<div class="share" aria-hidden="true">{bar}</div><div class="soft">{escape(words)}</div></div>'
    )


def _summary_row(analysis: Analysis) -> str:
    evidence = analysis.evidence
    warned = f"<small>{count_of(analysis.warnings, 'warning')}</small>" if analysis.warnings else ""
    place, scale = escape(evidence.place), escape(evidence.scale)
    return (
        f'<tr><th scope="row"><a href="#{anchor(analysis)}">{escape(evidence.title)}</a>{warned}</th>'
        f'<td data-label="in the paper"><span>{place}<small>{scale} scale</small></span></td>'
        f'<td data-label="its numbers"><span>{_counts(analysis.verdicts)}</span></td>'
        f'<td data-label="its claims"><span>{_counts(analysis.claim_verdicts)}</span></td></tr>'
    )


def _counts(counts: Counter[str]) -> str:
    shown = [chip(verdict, count=counts[verdict]) for verdict in KINDS if counts[verdict]]
    return " ".join(shown) or '<span class="soft">–</span>'
