"""The card as one self-contained page: what it says in words, its axes, the baselines beside it, maps and curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from lpm.report.analysis import Analysis, analyse
from lpm.report.charts import Payload
from lpm.report.html import document, section
from lpm.report.tables import fold, framed, heads, table_cell
from lpm.report.text import count_of, flatten
from lpm.suite.axes import AXES, LEAST, MOST
from lpm.suite.card import Card, family_of_card, hundredths, words
from lpm.suite.worlds import LABELS, WORLDS
from lpm.sweeps import Result

LEAD = "Exploration under families of noise: 0 is what random actions reach, 1 what a count of the true cells does."
LOWEST, HIGHEST = LEAST - 0.1, MOST + 0.1
"""Ends of the drawn scale; what lies beyond is drawn at the end, with its number beside it."""
STYLE = """
.dots { max-width: 60rem; margin: 1rem 0 1.6rem; } .dots h3 { margin: 1.4rem 0 .3rem; }
.dot { display: grid; grid-template-columns: minmax(8rem, 15rem) 1fr 9.5rem; gap: .9rem; align-items: center;
  min-height: 2rem; font-size: .95rem; font-variant-numeric: tabular-nums; }
.dot .track { position: relative; height: 1.5rem;
  background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; }
.dot .track > * { position: absolute; top: 50%; transform: translate(-50%, -50%); }
.dot .end { width: 1px; height: 100%; background: var(--soft); } .dot .end.one { background: var(--yes); width: 2px; }
.dot .range { height: .4rem; border-radius: .2rem; background: var(--own);
  opacity: .35; transform: translateY(-50%); }
.dot .own { width: .95rem; height: .95rem; border-radius: 50%; background: var(--own); }
.dot .other { width: .4rem; height: .4rem; border-radius: 50%; background: var(--soft); opacity: .55; }
.dot.main { font-weight: 700; font-size: 1.1rem; } .dot.main .own { width: 1.3rem; height: 1.3rem; }
.dot small { color: var(--soft); font-weight: 400; white-space: nowrap; }
.scale { color: var(--soft); font-size: .82rem; min-height: 1.2rem; } .scale .track { background: none; }
.scale .track span { white-space: nowrap; } #card { padding-top: 1.6rem; } td .whole { white-space: nowrap; }
table .own td, table .own th { font-weight: 700; }
table.beside { font-size: .92rem; } table.beside th, table.beside td { padding: .3rem .4rem; }
table.beside thead th { line-height: 1.25; font-size: .8rem; } table.beside .shade { min-width: 2.9rem; }
table.beside tbody th { white-space: normal; overflow-wrap: break-word; max-width: 14rem; }
table.beside th:first-child { position: sticky; left: 0; z-index: 1; background: var(--bg); }
@media (max-width: 640px) { .dot { grid-template-columns: 1fr auto; gap: .1rem .6rem; margin-bottom: .4rem; }
  .dot .track { grid-column: 1 / -1; grid-row: 2; } .scale.dot { margin: 0; } }
@media (max-width: 900px) { table.beside tbody th { min-width: 6.2rem; overflow-wrap: anywhere; } }
"""


def card_page(card: Card, others: Sequence[Card], results: Sequence[Result]) -> str:
    """`others` are cards to compare with, short ones too; `results` the bonus's runs and those of references."""
    payload = Payload()
    analyses = list(_analyses(card["name"], results))
    methods = dict.fromkeys(method for analysis in analyses for method in analysis.methods)
    places = {"card": "Card", "baselines": "Baselines", "families": "Noise"}
    places |= {analysis.name: analysis.evidence.name.removeprefix("suite-") for analysis in analyses}
    eyebrow = f"{count_of(len(card['seeds']), 'seed')} · {card['scale']} scale · suite version {card['suite']}"
    said = escape(words(card)).replace(" %", "\u00a0%")  # no line ends before the sign
    body = (
        f'<section id="card"><p class="eyebrow">{escape(eyebrow)}</p><p class="verdict">{said}</p>'
        f'<div style="--own: var(--{family_of_card(card)})">{_dots(card, others)}</div>{_settings(card)}</section>'
        f'<section id="baselines" class="experiment"><h2>Beside the baselines</h2>{_table(card, others)}</section>'
        f'<section id="families" class="experiment"><h2>World by world</h2>{_conditions(card)}</section>'
        f"{''.join(section(analysis, payload) for analysis in analyses)}"
    )
    return document(f"{card['label']}: score card", LEAD, places, body, payload, methods, STYLE)


def _analyses(name: str, results: Sequence[Result]) -> Iterable[Analysis]:
    """Curves, scores and maps of every world that has runs."""
    for world in WORLDS.values():
        experiment = world.experiment.opened([name])
        own = [result for result in results if result["settings"]["experiment"] == experiment.name]
        if own:
            yield analyse(experiment.evidence(own))


# ---- dots on a line from random actions to a count of the true cells ----------------------------------------------
def _dots(card: Card, others: Sequence[Card]) -> str:
    groups: list[tuple[str, list[tuple[str, str, str]]]] = [
        ("", [("total", "", "Total")]),
        ("Axes", [("axes", axis, words) for axis, words in AXES.items() if axis in card["axes"]]),
        ("Coverage by kind of noise", [("families", family, LABELS[family]) for family in card["families"]]),
        ("Tasks", [("worlds", world, WORLDS[world].label) for world in card["worlds"]]),
    ]
    ends = "".join(
        f'<span style="left:{_place(at):.1f}%">{text}</span>' for at, text in ((0.0, "0 random"), (1.0, "1 true count"))
    )
    parts = [f'<div class="dot scale"><span></span><div class="track">{ends}</div><span></span></div>']
    for title, rows in groups:
        parts.append(f"<h3>{escape(title)}</h3>" if title else "")
        for kind, key, label in rows:
            estimate = _of(card, kind, key)
            marks = [_of(other, kind, key).get("value") for other in others if other["name"] != card["name"]]
            parts.append(_dot(label, estimate, [mark for mark in marks if mark is not None], main=kind == "total"))
    key = " Small dots: the baselines." if others else ""
    return (
        f'<div class="dots">{"".join(parts)}</div><p class="soft">Large dot: this bonus, with the 95 % interval over '
        f"seeds.{key} Thin line at 0: random actions; line at 1: a count of the true cells.</p>"
    )


def _of(card: Mapping[str, Any], kind: str, key: str) -> dict[str, Any]:
    return dict(card["total"] if kind == "total" else card[kind].get(key, {}))


def _place(value: float) -> float:
    """In percent of the drawn scale."""
    return 100 * (min(max(value, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


def _dot(label: str, estimate: Mapping[str, Any], others: Sequence[float], main: bool) -> str:
    value, low, high = (estimate.get(key) for key in ("value", "low", "high"))
    marks = f'<i class="end" style="left:{_place(0):.1f}%"></i><i class="end one" style="left:{_place(1):.1f}%"></i>'
    marks += "".join(f'<i class="other" style="left:{_place(other):.1f}%"></i>' for other in others)
    number = "not run"
    if value is not None and low is not None and high is not None:
        left, right = _place(low), _place(high)
        marks += f'<i class="range" style="left:{left:.1f}%;width:{right - left:.1f}%"></i>'
        marks += f'<i class="own" style="left:{_place(value):.1f}%"></i>'
        number = f"{hundredths(value)} <small>{hundredths(low)} to {hundredths(high)}</small>"
    kind = "dot main" if main else "dot"
    return (
        f'<div class="{kind}"><span>{escape(label)}</span><div class="track" aria-hidden="true">{marks}</div>'
        f"<span>{number}</span></div>"
    )


# ---- tables -------------------------------------------------------------------------------------------------------
def _table(card: Card, others: Sequence[Card]) -> str:
    """Total, axes and cost of this card and of the others, best first."""
    rows = []
    everyone = [card, *(other for other in others if other["name"] != card["name"])]
    everyone.sort(key=lambda one: (len(one["missing"]), -(one["total"]["value"] or 0.0)))
    for one in everyone:
        part = f"<small>without {escape(', '.join(one['missing']))}</small>" if one["missing"] else ""
        total = one["total"]
        between = "" if total["value"] is None else f"{hundredths(total['low'])} to {hundredths(total['high'])}"
        cells = [f'<td>{hundredths(total["value"])}<small class="whole">{between}</small>{part}</td>']
        cells += [f"<td>{_shaded(one['axes'].get(axis, {}).get('value'))}</td>" for axis in AXES]
        cells.append(f"<td>{one['cost']:.2f}×</td>")
        own = ' class="own"' if one is card else ""
        rows.append(f'<tr{own}><th scope="row">{escape(one["label"])}</th>{"".join(cells)}</tr>')
    head = heads("bonus", "total", *map(escape, AXES.values()), "time")
    note = "" if len(everyone) > 1 else '<p class="soft">No stored cards of this scale and version to compare with.</p>'
    body = f'<table class="beside"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{body}</div>{note}'


def _shaded(value: float | None) -> str:
    """A score on a ground that is the darker the nearer it is to 1."""
    if value is None:
        return "–"
    return f'<span class="shade" style="--share:{100 * min(max(value, 0), 1):.0f}%">{hundredths(value)}</span>'


def _conditions(card: Card) -> str:
    """Scores by world and family; the darker the nearer to 1. And what they are computed from."""
    worlds = [world for world in WORLDS if world in card["worlds"]]
    shading, raw = [], []
    for family in LABELS:
        cells, known = [], False
        for world in worlds:
            numbers = card["conditions"].get(f"{world}/{family}")
            known = known or numbers is not None
            content = "" if numbers is None else _shaded(numbers["value"])
            if numbers is not None and not numbers["counts"]:
                content = "<small>not scored</small>"
            cells.append(table_cell(WORLDS[world].label, content))
            if numbers is not None:
                raw.append(_raw(world, family, numbers))
        if known:
            shading.append(f'<tr><th scope="row">{escape(LABELS[family])}</th>{"".join(cells)}</tr>')
    head = heads("noise", *(escape(WORLDS[world].label) for world in worlds))
    below = heads(
        "task", "noise", "random", "this bonus, seed by seed", "true count", "random / true count", "noise share"
    )
    note = (
        '<p class="soft">A condition is not scored where random actions reach more than two thirds of what a count '
        "of the true cells does. "
        f"In means a score counts as at least {LEAST} and at most {MOST}.</p>"
    )
    return (
        framed("ranked", head, "".join(shading))
        + note
        + fold("The numbers behind them", framed("", below, "".join(raw)))
    )


def _raw(world: str, family: str, numbers: Mapping[str, Any]) -> str:
    metric = WORLDS[world].metric
    low, high = numbers["random"][metric], numbers["oracle"][metric]
    seeds = ", ".join("–" if value is None else f"{value:.4g}" for value in numbers[metric])
    noise = [value for value in numbers["noise_share"] if value is not None]
    cells = [
        table_cell("noise", escape(LABELS[family])),
        table_cell("random", f"{low:.4g}"),
        table_cell("seeds", seeds),
        table_cell("true count", f"{high:.4g}"),
        table_cell("random / true count", f"{low / high:.2f}" if high else "–"),
        table_cell("noise share", f"{sum(noise) / len(noise):.2f}" if noise else "–"),
    ]
    return f'<tr><th scope="row">{escape(WORLDS[world].label)} ({escape(metric)})</th>{"".join(cells)}</tr>'


def _settings(card: Card) -> str:
    known = {"bonus": card["bonus"], "fields": card["fields"] or "library defaults", "seeds": card["seeds"]}
    known |= {"reference seeds": card["reference_seeds"], "machine": card["machine"]}
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in flatten(known))
    return fold("Settings, versions and machine", f'<table class="settings"><tbody>{rows}</tbody></table>')
