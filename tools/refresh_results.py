"""Make every number of the README and the docs anew from the per-seed files in `results/`, and their figures.

    python tools/refresh_results.py            # write
    python tools/refresh_results.py --check    # write nothing; exit 1 and say what is out of date

Marked places, in README.md and in every page under docs/, EXPERIMENT as `mountain-car-desk`:

    <!-- table NAME -->…<!-- end -->                                 the table exported as NAME.md
    <!-- means EXPERIMENT METRIC METHOD… -->…<!-- end -->            short: mean over seeds, methods × conditions
    <!-- number EXPERIMENT CONDITION METRIC METHOD -->…<!-- end -->  one mean, inside a sentence
    <!-- kills REPORT -->…<!-- end -->                               what a campaign of kills found

A run that is not in `results/` is shown as a dash, a table without any by a sentence.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lpm.files import write_atomic
from lpm.report.analysis import Analysis
from lpm.report.export import export, markdown_scores
from lpm.report.families import RECOMMENDED, looks
from lpm.report.pages import write_pages
from lpm.report.text import markdown_table, slug

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "results"
FRONT = ROOT / "docs" / "images" / "noise.png"
PLACE = re.compile(r"<!-- (table|means|number|kills) ([^>]*?) -->.*?<!-- end -->", re.DOTALL)
PICTURE = re.compile(r"\]\(results/([\w.-]+\.png)\)")
NOT_RUN = "–"
NO_RUNS = "No runs of this in `results/` at present."


def documents() -> list[Path]:
    """Every page that may have marked places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def refreshed(text: str, analyses: Mapping[str, Analysis]) -> str:
    """A page with its marked places made anew."""

    def filled(match: re.Match[str]) -> str:
        kind, words = match[1], match[2].split()
        opening = match[0][: match[0].index("-->") + 3]
        if kind == "number":
            return f"{opening}{mean_of(analyses, *words)}<!-- end -->"
        if kind == "kills":
            return f"{opening}\n\n{kills_table(words[0])}\n<!-- end -->"
        made = full_table(analyses, words[0]) if kind == "table" else short_table(analyses, *words)
        # Markdown: a table that follows a comment without an empty line is part of the comment
        return f"{opening}\n{made}<!-- end -->" if kind == "table" else f"{opening}\n\n{made}\n<!-- end -->"

    return PLACE.sub(filled, text)


def full_table(analyses: Mapping[str, Analysis], name: str) -> str:
    """The table that `lpm report --figures` exports under this name."""
    for stem, analysis in analyses.items():
        for metric in analysis.metrics("scores"):
            if name == f"{stem}-{slug(metric)}":
                return markdown_scores(analysis, metric)
    return f"{NO_RUNS}\n"


def short_table(analyses: Mapping[str, Analysis], stem: str, metric: str, *methods: str) -> str:
    """Means over seeds, rounded: a row a method, a column a condition. Those that the project recommends are bold."""
    table = analysis_of(analyses, stem).table(metric)
    rows = []
    for method in methods:
        cells = [mean_of(analyses, stem, condition, metric, method) for condition in table.conditions]
        row = [f"`{bonus_of(method)}`", *cells]
        rows.append([f"**{cell}**" for cell in row] if method == RECOMMENDED else row)
    return markdown_table(("bonus", *table.conditions.values()), rows)


def kills_table(report: str) -> str:
    """What `tools/kill_campaign.py` wrote to this file."""
    path = ROOT / report
    if not path.exists():
        return NO_RUNS
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = [[fault, str(n["kills"]), str(n["identical"])] for fault, n in found["faults"].items()]
    rows.append(["**all**", f"**{found['kills']}**", f"**{found['identical']}**"])
    whole = (
        f"{found['victims']} victims of {found['cases']} kinds, {found['cpu_seconds'] / 60:.0f} minutes of one core, "
        f"torch {found['versions'].get('torch', 'unknown')}."
    )
    return f"{markdown_table(('killed', 'times', 'identical in the end'), rows)}\n\n{whole}"


def mean_of(analyses: Mapping[str, Analysis], stem: str, condition: str, metric: str, method: str) -> str:
    """A mean over seeds as it is shown: an integer, or two digits if it is small; a dash if there are no runs."""
    analysis = analysis_of(analyses, stem)
    if metric not in analysis.evidence.metrics or condition not in analysis.evidence.conditions:
        raise SystemExit(f"{stem} has no metric {metric!r} in a condition {condition!r}")
    cell = analysis.cells.get((metric, condition, method))
    if cell is None:
        return NOT_RUN
    mean = cell.summary.mean
    return f"{mean:,.0f}" if abs(mean) >= 10 else f"{mean:.2g}"


def analysis_of(analyses: Mapping[str, Analysis], stem: str) -> Analysis:
    """An experiment at a scale."""
    if stem not in analyses:
        raise SystemExit(f"no results of {stem}; there are {', '.join(analyses)}")
    return analyses[stem]


def bonus_of(method: str) -> str:
    """The registered name of a method's bonus, as it is typed."""
    from lpm.experiments.methods import ALL

    return method if method in ("none", "random") else ALL[method].bonus


# ---- the picture of the README -----------------------------------------------------------------------------
def front_data(analysis: Analysis) -> dict[str, list[float]]:
    """Method to mean bins without and with the noise action, the best under noise first."""
    table = analysis.table("cells")
    means = {
        method: [round(table.cells[condition, method].summary.mean, 2) for condition in table.conditions]
        for method in table.methods
        if all((condition, method) in table.cells for condition in table.conditions)
    }
    return dict(sorted(means.items(), key=lambda item: -item[1][1]))


def draw_front(analysis: Analysis, path: Path) -> None:
    """A row a method: where it is without noise, and where noise takes it."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    data, styles = front_data(analysis), looks(analysis.methods)
    figure, axis = pyplot.subplots(figsize=(8.6, 0.36 * len(data) + 1.5))
    for row, (method, (clean, noisy)) in enumerate(data.items()):
        ours = method == RECOMMENDED
        colour = styles[method].colour if ours else "#5b6770"
        width, size = (5.0, 170) if ours else (1.6, 46)
        axis.plot([clean, noisy], [row, row], color=colour, linewidth=width, alpha=1 if ours else 0.5, zorder=2)
        axis.scatter(
            [clean], [row], s=size, facecolor="white", edgecolor=colour, linewidth=2 if ours else 1.4, zorder=3
        )
        axis.scatter([noisy], [row], s=size, color=colour, zorder=4)
        axis.text(min(clean, noisy) - (2.2 if ours else 1.6), row, f"{noisy:.0f}", ha="right", va="center",
                  color=colour, fontsize=13 if ours else 9.5, fontweight="bold" if ours else "normal")  # fmt: skip
    axis.set_yticks(range(len(data)), [analysis.methods[method] for method in data])
    for tick, method in zip(axis.get_yticklabels(), data, strict=True):
        ours = method == RECOMMENDED
        tick.set(color=styles[method].colour if ours else "#333333", fontweight="bold" if ours else "normal")
        tick.set_fontsize(13 if ours else 10)
    axis.set(xlim=(10, 100), ylim=(len(data) - 0.4, -0.8), xlabel="bins of position and velocity visited, of 100")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    seeds = max(cell.summary.n for cell in analysis.cells.values())
    title = "What a noisy TV costs: MountainCar, from no noise (○) to noise (●)"
    axis.set_title(f"{title}, {seeds} seeds", loc="left", fontsize=12, fontweight="bold", x=-0.2)
    figure.tight_layout()
    figure.savefig(path, dpi=150, facecolor="white", metadata={"Description": json.dumps(data), "Software": None})
    pyplot.close(figure)


def drawn_from(path: Path) -> Any:
    """The numbers that a picture was made from."""
    from PIL import Image

    if not path.exists():
        return None
    with Image.open(path) as image:
        return json.loads(image.info.get("Description", "null"))


# ---- all of it ------------------------------------------------------------------------------------------------
def main(words: list[str] | None = None) -> int:
    """Refresh, or check; 1 if something is out of date or missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is out of date")
    options = parser.parse_args(words)
    stale: list[str] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        pages = write_pages([ROOT / "results"], folder / "index.html")
        for warning in pages.warnings:
            print(f"warning: {warning}")
        analyses = {analysis.name: analysis for analysis in pages.analyses}
        for path in documents():
            text = path.read_text(encoding="utf-8")
            fresh = refreshed(text, analyses)
            if fresh != text:
                stale.append(str(path.relative_to(ROOT)))
                if not options.check:
                    write_atomic(path, fresh.encode())
        front = analyses["mountain-car-desk"]
        if drawn_from(FRONT) != front_data(front):
            stale.append(str(FRONT.relative_to(ROOT)))
            if not options.check:
                draw_front(front, FRONT)
        if not options.check:
            export(pages.analyses, folder)
            FIGURES.mkdir(exist_ok=True)
            for picture in PICTURE.findall((ROOT / "docs" / "results.md").read_text(encoding="utf-8")):
                if (folder / picture).exists():
                    shutil.copyfile(folder / picture, FIGURES / picture)
    for what in stale:
        print(f"{'out of date' if options.check else 'refreshed'}: {what}")
    if options.check and stale:
        print("python tools/refresh_results.py makes them anew", file=sys.stderr)
    return int(options.check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
