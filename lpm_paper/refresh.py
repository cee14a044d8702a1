"""Make every number of the README and the docs anew from the per-seed files in `results/`, and their figures.

    python -m lpm_paper.refresh            # write
    python -m lpm_paper.refresh --check    # write nothing; exit 1 and say what is out of date

Marked places, in README.md and in every page under docs/, EXPERIMENT as `mountain-car-desk`:

    <!-- table NAME -->…<!-- end -->                                 means, the best first; below them, folded, the
                                                                     table exported as NAME.md, with the spread;
                                                                     with `spread` after the name, that one alone
    <!-- means EXPERIMENT METRIC METHOD… -->…<!-- end -->            short: mean over seeds, methods × conditions
    <!-- spread EXPERIMENT METRIC METHOD… -->…<!-- end -->           the same with ± std [95 % interval]
    <!-- number EXPERIMENT CONDITION METRIC METHOD -->…<!-- end -->  one mean, inside a sentence; with `std` after
                                                                     the method, mean ± std
    <!-- sb3 table -->…<!-- end -->                                  results/sb3, a row a learner and bonus
    <!-- sb3 ALGORITHM BONUS METRIC -->…<!-- end -->                 one mean of it: cells, noise or return
    <!-- stored NAME -->…<!-- end -->                                results/benchmarks/NAME.json: columns and rows
    <!-- kills REPORT -->…<!-- end -->                               what a campaign of kills found
    <!-- fuzz REPORT -->…<!-- end -->                                what a campaign of fuzzing tried and found
    <!-- two-arms FOLDER -->…<!-- end -->                            the noise table, from its per-seed files
    <!-- verdicts WHAT -->…<!-- end -->                              summary, cost, or an experiment: its claims judged;
                                                                     `sentence`: the summary inside a paragraph
    <!-- headline EXPERIMENT/CONDITION/METRIC… -->…<!-- end -->      a row each: no bonus, RND, the best other, LGN
    <!-- suite WHAT -->…<!-- end -->                                 picture, leaderboard, references, ends or stability
    <!-- peers FOLDER -->…<!-- end -->                               MiniGrid with SB3's PPO: lpm and RLeXplore
    <!-- bonus NAME -->…<!-- end -->                                 cost and score of one bonus, from all of these

A marker that names what is not in `results/` ends the program with the page and the marker. Inside a table, a method
that was not run in a condition is shown as a dash. Figures under docs/results are drawn if a page shows them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from lpm.experiments.methods import BASELINES
from lpm.report.analysis import Analysis
from lpm.report.export import drawings, markdown_scores
from lpm.report.families import RECOMMENDED, REFERENCES, looks
from lpm.report.figures import encoded
from lpm.report.pages import write_pages
from lpm.report.seed_statistics import Summary
from lpm.report.text import markdown_table, plus_minus, slug, with_interval
from lpm.storage.files import write_atomic
from lpm.suite import two_arms
from lpm.suite.axes import AXES, counted
from lpm.suite.card import Card, hundredths, shown
from lpm.suite.picture import leaderboard_data, leaderboard_png
from lpm.suite.stored import packaged_references, ranked, read_cards, stability
from lpm.suite.worlds import LABELS, WORLDS
from lpm_paper import PAPER
from lpm_paper.methods import FORMER
from lpm_paper.report_picture import PICTURE as REPORT
from lpm_paper.report_picture import shown as ranking_shown
from lpm_paper.verdicts import claims_table, cost_table, summary

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "results"
FRONT = ROOT / "docs" / "images" / "noise.png"
SB3 = ROOT / "results" / "sb3"
SB3_FIGURE = ROOT / "docs" / "adapters" / "sb3_mountain_car.png"
SB3_METRICS = ("cells", "noise", "return")
BENCHMARKS = ROOT / "results" / "benchmarks"
CARDS = ROOT / "results" / "suite"
CARDS_FIGURE = ROOT / "docs" / "images" / "suite.png"
KINDS = "table|means|headline|spread|number|sb3|stored|verdicts|kills|fuzz|two-arms|suite|bonus|defaults|peers"
PLACE = re.compile(rf"<!-- ({KINDS}) ([^>]*?) -->.*?<!-- end -->", re.DOTALL)
PICTURE = re.compile(r"\]\(([\w./-]+\.png)\)")
NOT_RUN = "–"
Show = Callable[[Summary], str]
"""How the scores of a cell are written."""


def documents() -> list[Path]:
    """Every page that may have marked places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def pictures_of(page: Path) -> list[Path]:
    """The figures under docs/results that a page shows."""
    linked = [(page.parent / name).resolve() for name in PICTURE.findall(page.read_text(encoding="utf-8"))]
    return [path for path in linked if path.parent == FIGURES]


def refreshed(text: str, analyses: Mapping[str, Analysis], page: str = "page") -> str:
    """A page with its marked places made anew; a marker that cannot be filled is named with its page."""

    def filled(match: re.Match[str]) -> str:
        try:
            return fill_marker(match, analyses)
        except SystemExit as problem:
            raise SystemExit(f"{page}: <!-- {match[1]} {match[2]} -->: {problem}") from None

    return PLACE.sub(filled, text)


def fill_marker(match: re.Match[str], analyses: Mapping[str, Analysis]) -> str:
    """One marked place with its marker."""
    kind, words = match[1], match[2].split()
    opening = match[0][: match[0].index("-->") + 3]
    if kind == "number":
        show = plus_minus if words[4:] == ["std"] else short_mean
        return f"{opening}{cell_of(analyses, show, *words[:4])}<!-- end -->"
    if (kind, *words) == ("verdicts", "sentence"):
        return f"{opening}{summary(list(analyses.values())).strip()}<!-- end -->"
    if kind == "sb3" and words != ["table"]:
        return f"{opening}{sb3_mean(*words)}<!-- end -->"
    made: dict[str, Callable[[], str]] = {
        "table": lambda: full_table(analyses, *words),
        "means": lambda: short_table(analyses, short_mean, *words),
        "spread": lambda: short_table(analyses, with_interval, *words),
        "headline": lambda: headline(analyses, *words),
        "sb3": sb3_table,
        "stored": lambda: stored(words[0]),
        "verdicts": lambda: judged(analyses, words[0]),
        "kills": lambda: kills_table(words[0]),
        "fuzz": lambda: fuzz_table(words[0]),
        "two-arms": lambda: two_arms_table(words[0]),
        "suite": lambda: suite_part(words[0]),
        "bonus": lambda: bonus_table(analyses, words[0]),
        "defaults": lambda: defaults_table(*words),
        "peers": lambda: peers_table(words[0]),
    }
    # Markdown: a table that follows a comment without an empty line is part of the comment
    return f"{opening}\n\n{made[kind]()}\n<!-- end -->"


def judged(analyses: Mapping[str, Analysis], what: str) -> str:
    """What the page of verdicts says of the whole, of its cost, or of one experiment's claims."""
    given = list(analyses.values())
    if what == "summary":
        return summary(given)
    if what == "cost":
        return cost_table(given)
    if what not in PAPER.experiments:
        raise SystemExit(f"verdicts: expected summary, cost or one of {', '.join(PAPER.experiments)}, got {what!r}")
    return claims_table(given, what)


def full_table(analyses: Mapping[str, Analysis], name: str, part: str = "") -> str:
    """Means of one metric, the best first; folded below: the table that `lpm report --figures` exports as NAME.md."""
    if part not in ("", "spread"):
        raise SystemExit(f"expected 'spread' or nothing after the name, got {part!r}")
    for stem, analysis in analyses.items():
        for metric in analysis.metrics("scores"):
            if name == f"{stem}-{slug(metric)}":
                spread = markdown_scores(analysis, metric)
                return spread if part else f"{sorted_means(analysis, metric)}\n{folded(FOLDED, spread)}"
    raise SystemExit(f"no results; there are {', '.join(analyses)}")


def sorted_means(analysis: Analysis, metric: str) -> str:
    """A row a method, a column a condition, sorted by the column that most methods have, the last of such columns."""
    table = analysis.table(metric)
    moving = {c for (c, _), cell in table.cells.items() if any(cell.score.values.values())} or set(table.conditions)
    shown = [c for c in table.conditions if c in moving]
    by = max(shown, key=lambda c: (sum((c, m) in table.cells for m in table.methods), shown.index(c)))
    sign = 1 if metric in analysis.evidence.lower_is_better else -1
    means = {key: cell.summary.mean for key, cell in table.cells.items()}
    order = sorted(table.methods, key=lambda m: sign * means[by, m] if (by, m) in means else math.inf)
    rows = []
    for method in order:
        row = [f"*{table.methods[method]}*" if method in REFERENCES else table.methods[method]]
        for condition in shown:
            cell = table.cells.get((condition, method))
            text = NOT_RUN if cell is None else rounded(cell.summary.mean)
            row.append(f"**{text}**" if cell and table.is_best(condition, cell) else text)
        rows.append(row)
    heads = [f"{table.conditions[c]} ▾" if c == by and len(shown) > 1 else table.conditions[c] for c in shown]
    return markdown_table(("method", *heads), rows)


FOLDED = "Spread over seeds, 95 % intervals, the paper's numbers"


def folded(title: str, content: str) -> str:
    """What opens with a click, on the site and on GitHub."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{content}\n</details>\n'


def short_table(analyses: Mapping[str, Analysis], show: Show, stem: str, metric: str, *methods: str) -> str:
    """Cells shown in one way: a row a method, a column a condition. Bold: the best, and the recommended one's name."""
    analysis = analysis_of(analyses, stem)
    if metric not in analysis.evidence.metrics:
        raise SystemExit(f"{stem} has no metric {metric!r}; it has {', '.join(analysis.evidence.metrics)}")
    table = analysis.table(metric)
    rows = []
    for method in methods:
        if method not in table.methods:
            raise SystemExit(f"no results of {method!r} in {stem}; there are {', '.join(table.methods)}")
        name = table.methods[method] if method in (*REFERENCES, *FORMER) else f"`{bonus_of(method)}`"
        row = [f"**{name}**" if method == RECOMMENDED else name]
        for condition in table.conditions:
            cell = table.cells.get((condition, method))
            shown = NOT_RUN if cell is None else show(cell.summary)
            row.append(f"**{shown}**" if cell and table.is_best(condition, cell) else shown)
        rows.append(row)
    return markdown_table(("bonus", *table.conditions.values()), rows)


def headline(analyses: Mapping[str, Analysis], *places: str) -> str:
    """A row a task: no bonus, RND, the best of all other bonuses by name, and the recommended one. Bold: the best."""
    rows = []
    for place in places:
        stem, condition, metric = place.split("/")
        evidence = analysis_of(analyses, stem).evidence
        cells = analysis_of(analyses, stem).table(metric).cells
        means = {method: cell.summary.mean for (c, method), cell in cells.items() if c == condition}
        ours = next((method for method in (RECOMMENDED, *FORMER) if method in means), None)
        if ours is None:
            raise SystemExit(f"headline {place}: expected a condition with runs of {RECOMMENDED}")
        direction = -1 if metric in evidence.lower_is_better else 1
        others = [m for m in means if m not in (RECOMMENDED, *FORMER, "none", "rnd", "random", *REFERENCES)]
        best = max(others, key=lambda method: direction * means[method])
        shown = {m: rounded(means[m]) if m in means else NOT_RUN for m in ("none", "rnd", best, ours)}
        leader = max((m for m in shown if m in means), key=lambda method: direction * means[method])
        shown[leader] = f"**{shown[leader]}**"
        shown[best] += f" (`{bonus_of(best)}`)"
        shown[ours] += "" if ours == RECOMMENDED else " (first form)"
        task = evidence.title.partition(":")[0]
        where = f"{task}, {evidence.conditions[condition]}: {evidence.metrics[metric]}"
        rows.append([where, *shown.values()])
    return markdown_table(("task", "no bonus", "RND", "best other", "**LGN**"), rows)


def bonus_table(analyses: Mapping[str, Analysis], bonus: str) -> str:
    """Cost and score of one bonus: a row a measurement that it was in."""
    from lpm_paper.methods import ALL

    arms = {arm.method: arm for arm in two_arms.summarise(arm_curves("results/noise_table"))}
    if bonus not in arms:
        raise SystemExit(f"results/noise_table has no {bonus!r}; it has {', '.join(arms)}")
    cards = suite_cards()
    own = {place: card for place, card in enumerate(cards, 1) if card["name"] == bonus}
    rows = [["[Suite](../suite.md): total score", f"{hundredths(card['total']['value'])}, place {at} of {len(cards)}"]
            for at, card in own.items()]  # fmt: skip
    method = next((m for m in ALL if ALL[m].bonus == bonus and ALL[m].policy == "learnt"), bonus)
    for title, stem, metric in SCORES:
        table = analysis_of(analyses, stem).table(metric)
        if method in table.methods:
            cells = {label: table.cells.get((c, method)) for c, label in table.conditions.items()}
            said = [f"{rounded(cell.summary.mean)} ({label})" for label, cell in cells.items() if cell]
            rows.append([title, ", ".join(said)])
    rows.append(["[Two arms](../noise_table.md): bonus left on noise after learning", percent(arms[bonus].share)])
    rows += [
        ["Time of training in the suite, as a multiple of no bonus", f"{card['cost']:.1f}"] for card in own.values()
    ]
    return markdown_table(("measured", "result"), rows)


def percent(share: float) -> str:
    """A share in percent; a dash if there is none.

    >>> percent(0.085), percent(-1e-6), percent(float("nan"))
    ('8.5 %', '0.0 %', '–')
    """
    return NOT_RUN if math.isnan(share) else f"{round(100 * share, 1) or 0.0:.1f} %".replace("-", "−")


SCORES = (
    ("[MountainCar](../results/mountain_car.md): grid cells visited of 100", "mountain-car-desk", "cells"),
    ("[Maze](../results/maze.md), 10,000 steps: grid cells visited", "maze-desk", "cells"),
    ("[LavaCrossing](../results/lava_crossing.md): success rate", "lava-desk", "success"),
    ("[Overhead](../results/overhead.md): processor time added, %", "overhead-desk", "overhead"),
)
"""What a bonus's page shows: title, experiment at a scale, metric."""


def kills_table(report: str) -> str:
    """What `tools/kill_campaign.py` wrote to this file."""
    path = ROOT / report
    if not path.exists():
        raise SystemExit(f"no {report}")
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = [[fault, str(n["kills"]), str(n["identical"])] for fault, n in found["faults"].items()]
    rows.append(["**all**", f"**{found['kills']}**", f"**{found['identical']}**"])
    whole = (
        f"{found['victims']} victims of {found['cases']} kinds, {found['cpu_seconds'] / 60:.0f} minutes of one core, "
        f"torch {found['versions'].get('torch', 'unknown')}."
    )
    return f"{markdown_table(('killed', 'times', 'identical in the end'), rows)}\n\n{whole}"


def fuzz_table(report: str) -> str:
    """What `tools/fuzz_campaign.py` wrote to this file."""
    path = ROOT / report
    if not path.exists():
        raise SystemExit(f"no {report}")
    found = json.loads(path.read_text(encoding="utf-8"))
    tried, calls = found["tried"], found["calls"]
    rows = [
        ["cases", f"{tried['cases']:,}"],
        ["calls", f"{sum(calls.values()):,}"],
        ["accepted: finite rewards, metrics and parameters", f"{tried['accepted']:,}"],
        ["refused with a ValueError, the bonus unchanged", f"{tried['refused']:,}"],
        ["bonuses", f"{len(calls)}"],
        ["calls of the one called least", f"{min(calls.values()):,}"],
        ["**found**", f"**{len(found['found'])}**"],
    ]
    whole = f"{found['cpu_seconds'] / 60:.0f} minutes of one core, torch {found['versions'].get('torch', 'unknown')}."
    return f"{markdown_table(('', ''), rows)}\n\n{whole}"


def arm_curves(folder: str) -> list[two_arms.ArmCurves]:
    """The per-seed files of `lpm bonuses --noise-table`."""
    files = sorted((ROOT / folder).glob("*/seed_*.json"))
    if not files:
        raise SystemExit(f"no files in {folder}")
    return [two_arms.ArmCurves(**json.loads(file.read_text(encoding="utf-8"))["curves"]) for file in files]


def two_arms_table(folder: str) -> str:
    """The bonus of a learnable and of a noisy transition."""
    return markdown_table(two_arms.HEADER, two_arms.table_rows(two_arms.summarise(arm_curves(folder))))


def cell_of(analyses: Mapping[str, Analysis], show: Show, stem: str, condition: str, metric: str, method: str) -> str:
    """One cell as text."""
    analysis = analysis_of(analyses, stem)
    if metric not in analysis.evidence.metrics or condition not in analysis.evidence.conditions:
        raise SystemExit(f"{stem} has no metric {metric!r} in a condition {condition!r}")
    cell = analysis.cells.get((metric, condition, method))
    if cell is None:
        raise SystemExit(f"no results of {method!r} in {stem}")
    return show(cell.summary)


def short_mean(summary: Summary) -> str:
    """The mean alone."""
    return rounded(summary.mean)


def analysis_of(analyses: Mapping[str, Analysis], stem: str) -> Analysis:
    """An experiment at a scale."""
    if stem not in analyses:
        raise SystemExit(f"no results of {stem}; there are {', '.join(analyses)}")
    return analyses[stem]


def bonus_of(method: str) -> str:
    """The registered name of a method's bonus, as it is typed; the method's own where there is none."""
    from lpm_paper.methods import ALL

    return method if method not in ALL or ALL[method].bonus == "none" else ALL[method].bonus


def rounded(mean: float) -> str:
    """As a mean is shown: an integer, or two digits if it is small."""
    return (f"{mean:,.0f}" if abs(mean) >= 10 else f"{mean:.2g}").replace("-", "−", 1)


def stored(name: str) -> str:
    """A measured table as its benchmark left it."""
    path = BENCHMARKS / f"{name}.json"
    if not path.exists():
        raise SystemExit(
            f"no {path.relative_to(ROOT)}; there are {', '.join(sorted(p.stem for p in BENCHMARKS.glob('*.json')))}"
        )
    table = json.loads(path.read_text(encoding="utf-8"))
    return markdown_table(table["columns"], table["rows"])


def defaults_table(measure: str, *methods: str) -> str:
    """Runs of benchmarks/defaults.py, a row a task: each method's mean "return" or steps until "solved", and seeds."""
    rows = []
    for folder in sorted((ROOT / "results" / "defaults").iterdir()):
        cells = []
        found = {m: [json.loads(p.read_text()) for p in sorted((folder / m).glob("seed_*.json"))] for m in methods}
        if measure == "solved" and any(not 0 <= run["return"] <= 1 for runs in found.values() for run in runs):
            continue  # a task of which a return above 0 is no success
        for runs in found.values():
            values = [run[{"return": "return", "solved": "solved_at"}[measure]] for run in runs]
            reached = [value for value in values if value is not None]
            mean = rounded(fmean(reached)) if reached else "never"
            part = "" if len(reached) == len(values) else f", {len(reached)} of them"
            cells.append(f"{mean} ({len(values)}{part})" if values else NOT_RUN)
        if set(cells) != {NOT_RUN}:
            rows.append([f"`{next(run for runs in found.values() for run in runs)['env_id']}`", *cells])
    return markdown_table(("task", *(f"`{method}`" for method in methods)), rows)


def peers_table(folder: str) -> str:
    """Runs of examples/sb3_minigrid.py and benchmarks/rlexplore.py, a row a task and bonus."""
    found: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((ROOT / "results" / folder).glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        settings = run["settings"]
        bonus = settings["bonus"] + (", observations standardised" if settings["norm_obs"] else "")
        found.setdefault((settings["env_id"], bonus), []).append(run)
    rows = []
    for (env_id, bonus), runs in found.items():
        solved = [run for run in runs if run["steps_90"] is not None]
        steps, seconds = (
            rounded(fmean(run[key] for run in solved)) if solved else "never" for key in ("steps_90", "cpu_seconds_90")
        )
        success = rounded(fmean(run["curve"][-1][1] for run in runs))
        budget = f"{runs[0]['settings']['steps']:,}"
        rows.append([env_id, bonus, f"{len(solved)} of {len(runs)}", steps, seconds, f"{success} at {budget}"])
    columns = ("task", "bonus", "seeds solved", "steps to 90 %", "CPU seconds to 90 %", "success, last 100 episodes")
    return markdown_table(columns, rows)


# ---- Stable-Baselines3, from examples/sb3_mountain_car.py ---------------------------------------------------------
def sb3_runs() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(algorithm, bonus) to its runs by seed, the bare learner first and what the project recommends last."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in SB3.glob("*.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault((run["settings"]["algorithm"], run["settings"]["bonus"]), []).append(run)
    for key, runs in found.items():
        runs.sort(key=lambda run: run["settings"]["seed"])
        first = {**runs[0]["settings"], **runs[0]["bonus_settings"]}
        for run in runs:  # settings that one of them does not know yet, or no more, do not count
            other = {**run["settings"], **run["bonus_settings"]}
            apart = {k for k in first.keys() & other.keys() if k != "seed" and first[k] != other[k]}
            if apart:
                raise SystemExit(f"results/sb3: runs of {' '.join(key)} differ in {', '.join(sorted(apart))}")
    order = ["none", "lpm"]
    return dict(sorted(found.items(), key=lambda item: (item[0][0], *(-(item[0][1] == name) for name in order))))


def sb3_values(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Per seed: cells visited and steps on the noise in the last half, both in percent, and the task's return."""
    return {
        "cells": [100 * run["curve"][-1][1] for run in runs],
        "noise": [100 * fmean(point[2] for point in run["curve"][len(run["curve"]) // 2 :]) for run in runs],
        "return": [fmean(run["returns"]) for run in runs if run["returns"]],
    }


def sb3_table() -> str:
    """Mean and range over seeds, a row a learner and bonus."""
    rows = []
    for (algorithm, bonus), runs in sb3_runs().items():
        values = sb3_values(runs)
        cells = f"{fmean(values['cells']):.1f} [{min(values['cells']):.0f}–{max(values['cells']):.0f}]"
        task = f"{fmean(values['return']):.2f}" if values["return"] else NOT_RUN
        row = [algorithm, f"`{bonus}`", f"{len(runs)}", cells, f"{fmean(values['noise']):.0f}", task]
        rows.append([f"**{cell}**" for cell in row] if bonus.startswith(RECOMMENDED) else row)
    columns = ("learner", "bonus", "seeds", "cells visited, %", "steps on the noise in the last half, %", "task return")
    return markdown_table(columns, rows)


def sb3_mean(algorithm: str, bonus: str, metric: str) -> str:
    """One mean over seeds."""
    if metric not in SB3_METRICS:
        raise SystemExit(f"sb3: expected one of {', '.join(SB3_METRICS)}, got {metric!r}")
    runs = sb3_runs().get((algorithm, bonus))
    if not runs:
        raise SystemExit(f"no results of {algorithm} with {bonus} in results/sb3")
    return rounded(fmean(sb3_values(runs)[metric]))


def sb3_curves() -> dict[str, list[list[float]]]:
    """What the picture is drawn from: "learner bonus" to steps, mean share of cells at each, [number of seeds]."""
    return {
        " ".join(key): [
            [float(point[0]) for point in runs[0]["curve"]],
            [round(100 * fmean(run["curve"][i][1] for run in runs), 2) for i in range(len(runs[0]["curve"]))],
            [float(len(runs))],
        ]
        for key, runs in sb3_runs().items()
    }


def draw_sb3(path: Path) -> None:
    """Cells visited along training: mean over seeds in bold, every seed thin."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    found = sb3_runs()
    learners = list(dict.fromkeys(algorithm for algorithm, _ in found))
    figure, axes = pyplot.subplots(1, len(learners), figsize=(4.3 * len(learners), 3.3), sharey=True, squeeze=False)
    for axis, learner in zip(axes[0], learners, strict=True):
        ends: list[tuple[float, str, str, str]] = []
        for (algorithm, bonus), runs in found.items():
            if algorithm != learner:
                continue
            ours = bonus.startswith(RECOMMENDED)
            colour = "#d62708" if ours else {"none": "#777777"}.get(bonus, "#3b6fb6")
            steps = [point[0] for point in runs[0]["curve"]]
            for run in runs:
                axis.plot(steps, [100 * p[1] for p in run["curve"]], color=colour, alpha=0.25, linewidth=0.8)
            mean = [fmean(100 * run["curve"][i][1] for run in runs) for i in range(len(steps))]
            axis.plot(steps, mean, color=colour, linewidth=3 if ours else 1.8)
            ends.append((mean[-1], "no bonus" if bonus == "none" else bonus, colour, "bold" if ours else "normal"))
        height = -math.inf
        for end, label, colour, weight in sorted(ends):
            height = max(end, height + 7)  # labels of lines that end together stand above each other
            axis.text(steps[-1] * 1.02, height, label, va="center", color=colour, fontweight=weight)
        seeds = sorted({len(runs) for (algorithm, _), runs in found.items() if algorithm == learner})
        counted = " to ".join(str(count) for count in dict.fromkeys((seeds[0], seeds[-1])))
        axis.set(xlabel="environment steps", ylim=(0, 100), xlim=(0, steps[-1] * 1.3))
        axis.set_xticks([0, steps[-1] / 2, steps[-1]], ["0", f"{steps[-1] / 2:,.0f}", f"{steps[-1]:,.0f}"])
        axis.set_title(f"SB3 {learner}, {counted} seeds", loc="left", fontsize=11, fontweight="bold")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("cells visited, %")
    figure.tight_layout()
    metadata = {"Description": json.dumps(sb3_curves()), "Software": None}
    figure.savefig(path, dpi=140, facecolor="white", metadata=metadata)
    pyplot.close(figure)


# ---- the suite's leaderboard, from the cards in results/suite ------------------------------------------------------
def suite_cards() -> list[Card]:
    """The card of every bonus that holds, best first."""
    from lpm_paper.methods import LABELS as NAMES

    cards = ranked(read_cards(CARDS)[0])
    if not cards:
        raise SystemExit("no cards in results/suite")
    return [{**card, "label": NAMES.get(card["name"], card["label"])} for card in cards]


def suite_part(what: str) -> str:
    """One part of the suite's page."""
    made = {"picture": suite_picture, "leaderboard": leaderboard, "references": suite_references,
            "ends": suite_ends, "stability": suite_stability}  # fmt: skip
    if what not in made:
        raise SystemExit(f"suite: expected one of {', '.join(made)}, got {what!r}")
    return made[what]()


def suite_picture() -> str:
    """The picture's place in the page."""
    return f"![Total score of {len(suite_cards())} bonuses with intervals, and what it consists of](images/suite.png)\n"


def leaderboard() -> str:
    """A row a bonus: total, coverage, success, time; folded below: the interval and the other axes."""
    first, rest = ("clean", "noisy", "task"), ("focus", "unpaid", "first", "steady")
    short, long = [], []
    for place, card in enumerate(suite_cards(), 1):
        value = {axis: hundredths(card["axes"][axis]["value"]) for axis in AXES}
        name = f"`{card['name'].replace('`', '')}`" + ("†" if card["missing"] else "")
        total, time = hundredths(card["total"]["value"]), f"{card['cost']:.1f}"
        row = [f"{place}", name, total, *(value[axis] for axis in first), time]
        short.append([f"**{cell}**" for cell in row] if card["name"] == RECOMMENDED else row)
        long.append([name, shown(card["total"]), *(value[axis] for axis in rest), f"{len(card['seeds'])}"])
    axes = [AXES[axis] for axis in first]
    table = markdown_table(("", "bonus", "total", *axes, "time, × no bonus"), short)
    more = markdown_table(("bonus", "total [95 %]", *(AXES[axis] for axis in rest), "seeds"), long)
    part = [f"`{card['name']}` without {', '.join(card['missing'])}" for card in suite_cards() if card["missing"]]
    note = f"† not all tasks, so the totals do not compare: {'; '.join(part)}.\n\n" if part else ""
    return f"{table}\n{note}{folded('Intervals, seeds and the other axes', more)}"


def suite_references() -> str:
    """What random actions and a count of the true cells reach in every condition, and how far apart they are."""
    references = packaged_references("desk")
    random, oracle = references["random"], references["oracle"]
    counts, rows = counted(random, oracle, "desk"), []
    for cell in random.cells:
        metric = WORLDS[cell[0]].metric
        low, high = (float(runs.cells[cell][metric].mean()) for runs in (random, oracle))
        apart = f"{low / high:.2f}" if high else NOT_RUN
        label = WORLDS[cell[0]].label
        row = [label, LABELS[cell[1]], metric, f"{low:.3g}", f"{high:.4g}", apart, "yes" if cell in counts else "no"]
        rows.append(row)
    heads = ("task", "noise", "measured", "random actions", "count of true cells", "ratio", "scored")
    return markdown_table(heads, rows)


def suite_ends() -> str:
    """Both references on fresh seeds, scored like a bonus."""
    cards = {card["policy"]: card for card in read_cards(CARDS)[0]}
    axes, rows = ("clean", "noisy", "focus", "task"), []
    for name, policy, exact in (("random", "uniform", 0), ("oracle", "oracle", 1)):
        if policy not in cards:
            raise SystemExit(f"results/suite has no card of policy {policy}")
        card = cards[policy]
        numbers = [hundredths(card["axes"][axis]["value"]) for axis in axes]
        rows.append([BASELINES[name].label, f"{exact}", shown(card["total"]), *numbers, f"{len(card['seeds'])}"])
    heads = ("", "by construction", "total [95 %]", *(AXES[axis] for axis in axes), "fresh seeds")
    return markdown_table(heads, rows)


def suite_stability() -> str:
    """How far the order depends on the seeds."""
    cards = suite_cards()
    halves = sum(len(card["seeds"]) > 1 for card in cards)
    found = f"{stability(cards):.2f}"
    return f"Over {halves} bonuses, Spearman's correlation of the totals between the two halves is {found}.\n"


# ---- the picture of the README -----------------------------------------------------------------------------
def front_data(analysis: Analysis) -> dict[str, list[float]]:
    """Method to mean cells visited without and with the noise action, the best under noise first."""
    table = analysis.table("cells")
    means = {
        method: [round(table.cells[condition, method].summary.mean, 2) for condition in table.conditions]
        for method in table.methods
        if method not in REFERENCES and all((condition, method) in table.cells for condition in table.conditions)
    }
    return dict(sorted(means.items(), key=lambda item: -item[1][1]))


def draw_front(analysis: Analysis, path: Path) -> None:
    """A row a method: where it is without noise, and where noise takes it."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    data, styles = front_data(analysis), looks(analysis.methods)
    strong = [RECOMMENDED] if RECOMMENDED in data else list(FORMER)
    figure, axis = pyplot.subplots(figsize=(6.9, 0.33 * len(data) + 1.4))  # for a phone too: few inches, large words
    for row, (method, (clean, noisy)) in enumerate(data.items()):
        ours = method in strong
        colour = styles[method].colour if ours else "#5b6770"
        width, size = (5.0, 170) if ours else (1.6, 46)
        axis.plot([clean, noisy], [row, row], color=colour, linewidth=width, alpha=1 if ours else 0.5, zorder=2)
        axis.scatter(
            [clean], [row], s=size, facecolor="white", edgecolor=colour, linewidth=2 if ours else 1.4, zorder=3
        )
        axis.scatter([noisy], [row], s=size, color=colour, zorder=4)
        axis.text(min(clean, noisy) - (2.2 if ours else 1.6), row, f"{noisy:.0f}", ha="right", va="center",
                  color=colour, fontsize=14 if ours else 11, fontweight="bold" if ours else "normal")  # fmt: skip
    axis.set_yticks(range(len(data)), [analysis.methods[method] for method in data])
    for tick, method in zip(axis.get_yticklabels(), data, strict=True):
        ours = method in strong
        tick.set(color=styles[method].colour if ours else "#333333", fontweight="bold" if ours else "normal")
        tick.set_fontsize(14 if ours else 11.5)
    axis.set(xlim=(10, 100), ylim=(len(data) - 0.4, -0.8), xlabel="grid cells of position and velocity visited, of 100")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    seeds = min(cell.summary.n for cell in analysis.cells.values())
    title = f"What a noisy TV costs: MountainCar, {seeds} seeds or more\nfrom no noise (○) to noise (●)"
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold")
    figure.tight_layout()
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Description": json.dumps(data), "Software": None})
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
    stale: list[Path] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        pages = write_pages([ROOT / "results"], folder / "index.html")
        for warning in pages.warnings:
            print(f"warning: {warning}")
        analyses = {analysis.name: analysis for analysis in pages.analyses}
        front, cards = analyses["mountain-car-desk"], suite_cards()
        parts: list[tuple[Path, bool, Callable[[], object]]] = [
            (FRONT, drawn_from(FRONT) != front_data(front), lambda: draw_front(front, FRONT)),
            (SB3_FIGURE, drawn_from(SB3_FIGURE) != sb3_curves(), lambda: draw_sb3(SB3_FIGURE)),
            (
                CARDS_FIGURE,
                bool(cards) and drawn_from(CARDS_FIGURE) != leaderboard_data(cards),
                lambda: write_atomic(CARDS_FIGURE, leaderboard_png(cards)),
            ),
        ]
        draw = drawings(pages.analyses)
        for path in documents():
            text = path.read_text(encoding="utf-8")
            fresh = refreshed(text, analyses, str(path.relative_to(ROOT)))
            parts.append((path, fresh != text, partial(write_atomic, path, fresh.encode())))
            for picture in pictures_of(path):
                if picture.stem not in draw:
                    raise SystemExit(f"{path.relative_to(ROOT)}: {picture.name}: no results to draw it from")
                if not options.check:
                    write_atomic(picture, encoded(draw[picture.stem](), ["png"])["png"])
        for path, old, make in parts:
            if old:
                stale.append(path)
                if not options.check:
                    make()
        if drawn_from(REPORT) != ranking_shown(pages.analyses):  # no fault of a check: to take it needs a browser
            print(
                f"{REPORT.relative_to(ROOT)} shows an older ranking: python -m lpm_paper.report_picture takes it anew"
            )
        for warning in read_cards(CARDS)[1]:
            print(f"warning: {warning}")
    for path in stale:
        print(f"{'out of date' if options.check else 'refreshed'}: {path.relative_to(ROOT)}")
    if options.check and stale:
        print("python -m lpm_paper.refresh makes them anew", file=sys.stderr)
    return int(options.check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
