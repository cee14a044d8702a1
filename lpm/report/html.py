"""One self-contained page of all evidence, from the templates: nothing is fetched, everything from a file is text."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lpm import __version__
from lpm.experiments.evidence import Evidence, size_of
from lpm.report import text
from lpm.report.analysis import POINTS, Analysis, families
from lpm.report.charts import KINDS, Payload, log_range
from lpm.report.claims import CLAIM_VERDICTS, NUMBER_VERDICTS, claims_once, numbers_once
from lpm.report.families import FAMILIES, NO_OTHERS, colours_css, family_of, looks
from lpm.report.ranking import rank, reasons
from lpm.report.seed_statistics import Floats
from lpm.storage.files import write_atomic

MOST_ROWS = 20
"""Of a table that is open from the start, and so is printed."""
PAGE_POINTS = 100_000
"""Points of all curves together; about 20 bytes each."""


def page(analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> str:
    """The whole page as HTML."""
    curves = sum(len(analysis.bands) for analysis in analyses)
    times, ranking, own = Counter(a.evidence.name for a in analyses), rank(analyses), families(analyses)
    # with the scale where there are several of one experiment
    titles = {a.name: a.evidence.name + (f" ({a.evidence.scale})" if times[a.evidence.name] > 1 else "")
              for a in analyses}  # fmt: skip
    paper = not analyses or any(a.verdicts or a.claims for a in analyses)
    noise = any("nois" in name for a in analyses for name in (*a.evidence.conditions.values(), a.evidence.name))
    present = {family_of(place.method, own) for place in ranking.places} if ranking else set()
    shown = "Every table and figure of the paper that was run, the paper's numbers beside ours" if paper else ""
    first = {"ranking": "Ranking"} if ranking else {}
    return document(
        "page.html",
        title="Does the bonus survive the noise?" if noise else "Runs side by side",
        lead=f"{shown or 'Curves and last values'}, with intervals over seeds.",
        sections={**first, **({"summary": "The paper"} if paper else {}), **titles},
        payload=Payload(points=max(20, min(POINTS, PAGE_POINTS // max(curves, 1)))),
        methods=[method for analysis in analyses for method in analysis.methods],
        own=own,
        analyses=analyses,
        warnings=warnings,
        titles=titles,
        ranking=ranking,
        families={name: family.label for name, family in FAMILIES.items() if name in present},
        unranked=[f"{a.evidence.name} ({why})" for a, why in zip(analyses, reasons(analyses), strict=True) if why],
        paper=paper,
        numbers=Counter(cell.verdict for cell in numbers_once(analyses).values()),
        claimed=Counter(result.verdict for _, result in claims_once(analyses).values()),
        runs=sum(cell.summary.n for a in analyses for cell in a.cells.values()),
        smaller=sorted({a.evidence.scale for a in analyses} - {"paper", ""}, key=size_of),
    )


def document(
    template: str,
    methods: Iterable[str],
    own: Mapping[str, str] = NO_OTHERS,
    packages: Sequence[str] = (),
    **values: Any,
) -> str:
    """A template that extends document.html, of this package or of `packages`, filled in.

    `methods` are all that its charts show; `own` has the families of those that the report does not know.
    """
    script, style = _asset("report.js"), f"{colours_css()}\n{_asset('report.css')}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("lpm.report", *packages)]),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip
    environment.globals |= {
        "KINDS": KINDS, "NUMBER_VERDICTS": NUMBER_VERDICTS, "CLAIM_VERDICTS": CLAIM_VERDICTS, "MOST_ROWS": MOST_ROWS,
        "version": __version__, "visit_maps": _visit_maps,
    }  # fmt: skip
    environment.filters |= {
        "number": text.number, "span": text.span, "short_number": text.short_number, "plus_minus": text.plus_minus,
        "as_printed": text.as_printed, "p_value": text.p_value, "count_of": text.count_of,
        "places": lambda summary: text.decimals(summary.std, summary.mean),
        "short": lambda value: text.number(value, text.decimals(None, value)), "configuration": _configuration,
        "json": json.dumps, "decided": lambda counts: any(KINDS[v] in ("yes", "no") for v in counts if counts[v]),
    }  # fmt: skip
    parts = {"script": Markup(script), "style": Markup(style), "digest": digest}
    return environment.get_template(template).render(methods=looks(methods, own), **parts, **values).lstrip()


def write_page(path: Path, analyses: Sequence[Analysis], warnings: Sequence[str] = ()) -> int:
    """Write the page whole or not at all; return its size in bytes."""
    content = page(analyses, warnings).encode()
    write_atomic(path, content)
    return len(content)


def _asset(name: str) -> str:
    return (resources.files("lpm.report") / "assets" / name).read_text(encoding="utf-8")


def _configuration(evidence: Evidence) -> dict[str, str]:
    versions = {f"version of {package}": str(version) for package, version in evidence.versions.items()}
    return dict(text.flatten(evidence.settings)) | versions


def _visit_maps(analysis: Analysis) -> tuple[float, float, dict[str, list[tuple[str, str, str, Floats]]]]:
    """Fewest and most visits, and for each condition's label the maps: method, label, what it reached, cells."""
    maps = analysis.maps
    found: dict[str, list[tuple[str, str, str, Floats]]] = {}
    for condition, name in analysis.conditions(condition for condition, _ in maps).items():
        for method, cells in ((method, cells) for (c, method), cells in maps.items() if c == condition):
            reached = f"{(cells > 0).sum():,} of {(~np.isnan(cells)).sum():,} cells by all seeds together"
            own = analysis.cells.get(("cells", condition, method))
            if own is not None:
                reached = f"{own.summary.mean:,.0f} cells per seed, {reached}"
            found.setdefault(name, []).append((method, analysis.methods.get(method, method), reached, cells))
    return *log_range(list(maps.values())), found
