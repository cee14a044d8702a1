"""Make every number of the README and the docs anew from the per-seed files in `results/`, and their figures.

    python -m lpm_paper.refresh            # write
    python -m lpm_paper.refresh --check    # write nothing; exit 1 and say what is out of date

A marked place in README.md or in a page under docs/ is `<!-- KIND WORDS… -->…<!-- end -->`; `MARKERS` has the kinds,
each with the function that fills it. EXPERIMENT is written as `mountain-car-short`. A marker that names what is not in
`results/` ends the program with the page and the marker. Inside a table, a method that was not run in a condition is
shown as a dash. Figures under docs/results are drawn if a page shows them.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from gymnasium.spaces import Box, Discrete

from lpm.commands.bonuses import fields_of
from lpm.core.registry import lookup, make, names
from lpm.core.spaces import Spaces
from lpm.report.analysis import NOT_RUN, Analysis
from lpm.report.export import drawings, markdown_scores
from lpm.report.families import FAMILIES, RECOMMENDED, REFERENCES, family_of, looks
from lpm.report.figures import encoded
from lpm.report.pages import write_pages
from lpm.report.ranking import rank
from lpm.report.text import markdown_table, plus_minus, slug
from lpm.storage.files import write_atomic
from lpm.suite import noise_table
from lpm.suite.scorecard import hundredths, read_scorecards
from lpm_paper import PAPER, benchmark_results, command_reference, leaderboard
from lpm_paper.benchmark_results import PICTURES, panels, rounded_mean, save
from lpm_paper.leaderboard import folded
from lpm_paper.methods import ALL, FORMER
from lpm_paper.verdicts import claims_table, cost_table, summary

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "results"
FRONT = ROOT / "docs" / "images" / "noise.png"
SB3_FIGURE = ROOT / "docs" / "adapters" / "sb3_mountain_car.png"
REPORT_PICTURE = ROOT / "docs" / "images" / "report.png"
SUITE_FIGURE = ROOT / "docs" / "images" / "suite.png"
BENCHMARKS = ROOT / "results" / "benchmarks"
PICTURE = re.compile(r"\]\(([\w./-]+\.png)\)")
SENSORS = ROOT / "results" / "sensors"
Analyses = Mapping[str, Analysis]
"""EXPERIMENT to its analysis."""


# ---- what markers are filled with: each function is given the analyses and the marker's words ---------------------
def full_table(analyses: Analyses, name: str, part: str = "") -> str:
    """EXPERIMENT-METRIC: means, the best first; below them, folded, the exported table. With `spread`, that alone."""
    if part not in ("", "spread"):
        raise SystemExit(f"expected 'spread' or nothing after the name, got {part!r}")
    for stem, analysis in analyses.items():
        for metric in analysis.metrics("scores"):
            if name == f"{stem}-{slug(metric)}":
                spread = markdown_scores(analysis, metric)
                title = "Spread over seeds, 95 % intervals, the paper's numbers"
                return spread if part else f"{sorted_means(analysis, metric)}\n{folded(title, spread)}"
    raise SystemExit(f"no results; there are {', '.join(analyses)}")


def short_table(analyses: Analyses, stem: str, metric: str, *words: str) -> str:
    """EXPERIMENT METRIC METHOD… [in CONDITION…]: a row a method, a column a condition. Bold: the best, and ours."""
    analysis = analysis_of(analyses, stem)
    if metric not in analysis.evidence.metrics:
        raise SystemExit(f"{stem} has no metric {metric!r}; it has {', '.join(analysis.evidence.metrics)}")
    table = analysis.table(metric)
    at = words.index("in") if "in" in words else len(words)
    methods, chosen = words[:at], words[at + 1 :] or tuple(table.conditions)
    if unknown := [condition for condition in chosen if condition not in table.conditions]:
        raise SystemExit(f"no results in {', '.join(unknown)} of {stem}; there are {', '.join(table.conditions)}")
    rows = []
    for method in methods:
        if method not in table.methods:
            raise SystemExit(f"no results of {method!r} in {stem}; there are {', '.join(table.methods)}")
        name = table.methods[method] if method in (*REFERENCES, *FORMER) else f"`{bonus_of(method)}`"
        first = f"**{linked(method, name)}**" if method == RECOMMENDED else linked(method, name)
        rows.append([first, *table.row(method, chosen, lambda cell: rounded_mean(cell.summary.mean))])
    return markdown_table(("bonus", *(table.conditions[condition] for condition in chosen)), rows)


def headline(analyses: Analyses, *places: str) -> str:
    """EXPERIMENT/CONDITION/METRIC…, a row each: no bonus, RND, the best other by name, LGN. Bold: the best."""
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
        shown = {m: rounded_mean(means[m]) if m in means else NOT_RUN for m in ("none", "rnd", best, ours)}
        leader = max((m for m in shown if m in means), key=lambda method: direction * means[method])
        shown[leader] = f"**{shown[leader]}**"
        shown[best] += f" (`{bonus_of(best)}`)"
        shown[ours] += "" if ours == RECOMMENDED else " (first form)"
        task = evidence.title.partition(":")[0]
        where = f"{task}, {evidence.conditions[condition]}: {evidence.metrics[metric]}"
        rows.append([where, *shown.values()])
    return markdown_table(("task", "no bonus", "RND", "best other", "**LGN**"), rows)


def hostile_table(analyses: Analyses, stem: str) -> str:
    """EXPERIMENT: cells after the change in each world, the return where the reward moved; the fewest cells first."""
    analysis = analysis_of(analyses, stem)
    means = {key: cell.summary.mean for key, cell in analysis.cells.items()}
    walked = {world: label for world, label in analysis.evidence.conditions.items() if world != "reward"}
    rows = []
    for method, label in analysis.methods.items():
        cells = {world: means[key] for world in walked if (key := ("cells", world, method)) in means}
        shown = [f"{cells[world]:.0f}" if world in cells else NOT_RUN for world in walked]
        paid = means.get(("return", "reward", method))
        changed = [value for world, value in cells.items() if world != "calm"]
        row = [label, *shown, NOT_RUN if paid is None else f"{paid:.2f}"]
        rows.append((sum(changed) / max(len(changed), 1), row))
    return markdown_table(("method", *walked.values(), "the reward moves: return"), [row for _, row in sorted(rows)])


def number(analyses: Analyses, stem: str, condition: str, metric: str, method: str, form: str = "") -> str:
    """EXPERIMENT CONDITION METRIC METHOD: one mean, inside a sentence; with `std` after the method, mean ± std."""
    analysis = analysis_of(analyses, stem)
    if metric not in analysis.evidence.metrics or condition not in analysis.evidence.conditions:
        raise SystemExit(f"{stem} has no metric {metric!r} in a condition {condition!r}")
    cell = analysis.cells.get((metric, condition, method))
    if cell is None:
        raise SystemExit(f"no results of {method!r} in {stem}")
    return plus_minus(cell.summary) if form == "std" else rounded_mean(cell.summary.mean)


def verdicts(analyses: Analyses, what: str) -> str:
    """What is said of the whole (`summary`, inside a paragraph `sentence`), its `cost`, or an experiment's claims."""
    given = list(analyses.values())
    if what not in ("summary", "sentence", "cost", *PAPER.experiments):
        raise SystemExit(f"verdicts: expected summary, cost or one of {', '.join(PAPER.experiments)}, got {what!r}")
    whole = {"summary": summary, "sentence": summary, "cost": cost_table}
    return whole[what](given) if what in whole else claims_table(given, what)


def bonus_table(analyses: Analyses, bonus: str) -> str:
    """NAME: cost and score of one bonus, a row a measurement that it was in."""
    noise = {row.method: row for row in noise_table.summarise(noise_curves("results/noise_table"))}
    if bonus not in noise:
        raise SystemExit(f"results/noise_table has no {bonus!r}; it has {', '.join(noise)}")
    cards = leaderboard.scorecards()
    own = {place: card for place, card in enumerate(cards, 1) if card["name"] == bonus}
    rows = [
        [f"[Suite](/suite.md): total score (place {at} of {len(cards)})", hundredths(card["total"]["value"])]
        for at, card in own.items()
    ]
    method = next((m for m in ALL if ALL[m].bonus == bonus and ALL[m].policy == "learnt"), bonus)
    for title, stem, metric, *chosen in SCORES:
        table = analysis_of(analyses, stem).table(metric)
        for condition in chosen or table.conditions:
            if cell := table.cells.get((condition, method)):
                rows.append([f"{title}, {table.conditions[condition]}", rounded_mean(cell.summary.mean)])
    after = "[Noise table](/noise_table.md): the bonus after learning"
    rows.append([f"{after}, on noise", rounded_mean(noise[bonus].final[1])])
    rows.append([f"{after}, on something new", rounded_mean(noise[bonus].unseen)])
    for card in own.values():
        rows.append(["Time of training in the suite, as a multiple of no bonus", f"{card['cost']:.1f}"])
    return markdown_table(("measured", "result"), rows)


def settings(analyses: Analyses, *bonuses: str) -> str:
    """NAME…: what bonuses can be used with, and their fields with defaults and meanings."""
    tables = []
    for bonus in bonuses:
        file = f"`{lookup(bonus).bonus.__module__.replace('.', '/')}.py`"
        fits = markdown_table(FITS, [(f"`{bonus}`", *SPACES, *learners(bonus), file)])
        rows = [(f"`{name}`", f"`{default}`", meaning) for name, default, meaning in fields_of(lookup(bonus))]
        tables.append(f"{fits}\n{markdown_table(('field', 'default', 'meaning'), rows)}")
    return "\n".join(tables)


def program(analyses: Analyses, *bonuses: str) -> str:
    """NAME…: the shortest program that trains with each bonus."""
    return "\n\n".join(f"```{language}\n{code}\n```" for language, code in map(_program, bonuses))


def _program(bonus: str) -> tuple[str, str]:
    command = f"lpm train MountainCar-v0 --bonus {bonus}"
    if "yes" not in learners(bonus) or bonus == "none":
        return "bash", f"{command} --steps 100000"
    replayed = bonus.endswith("_lifelong")
    learner, adapter = ("DQN", "IntrinsicReplayBuffer") if replayed else ("PPO", "IntrinsicCallback")
    lines = [
        f"from stable_baselines3 import {learner}",
        f"from lpm.adapters.sb3 import {adapter}",
        "",
        f'model = {learner}("MlpPolicy", "MountainCar-v0", {"" if replayed else "n_steps=256, "}device="cpu")',
    ]
    if replayed:
        lines += [f'{adapter}.attach(model, "{bonus}")', "model.learn(100_000)"]
    else:
        lines += [f'model.learn(100_000, callback={adapter}("{bonus}"))  # or: {command}']
    return "python", "\n".join(lines)


def overview(analyses: Analyses, title: str) -> str:
    """TITLE of the column of uses: every bonus, what it rewards and is for, and what it works with."""
    rows = []
    ours = [name for name in names() if (ROOT / "docs" / page_of(name)).exists()]  # no plug-ins
    for name in sorted(ours, key=RECOMMENDED.__ne__):
        kind, use = FAMILIES[family_of(name)].label, lookup(name).use
        rows.append((f"[`{name}`](/{page_of(name)})", kind, use, *learners(name)))
    return markdown_table(("bonus", "rewards", title, ON_POLICY, OFF_POLICY), rows)


@cache
def learners(bonus: str) -> tuple[str, str]:
    """Whether it works on-policy and off-policy."""
    made = make(bonus, Spaces(Box(-1, 1, (4,)), Discrete(2)))
    return "no" if made.needs else "yes", "no" if made.episodic or made.needs else "yes"


ON_POLICY, OFF_POLICY = "SB3's PPO, A2C …, TorchRL, RLlib, your loop", "SB3's SAC, DQN, TD3 …"
FITS = ("works with", "observations", "actions", ON_POLICY, OFF_POLICY, "its code")
SPACES = ("vectors, images, grids", "`Discrete`, `MultiDiscrete`, `MultiBinary`, `Box`")
MINIGRID = ("doorkey-8x8", "doorkey-8x8-tv", "multiroom-n4-s5", "multiroom-n4-s5-tv")
SCORES: tuple[tuple[str, ...], ...] = (
    ("[MountainCar](/results/mountain_car.md): grid cells visited of 100", "mountain-car-short", "cells"),
    ("[Maze](/results/maze.md), 10,000 steps: grid cells visited", "maze-short", "cells"),
    ("[MiniGrid](/results/minigrid.md): success rate", "minigrid-short", "success", *MINIGRID),
    ("[LavaCrossing](/results/lava_crossing.md): success rate", "lava-short", "success"),
    ("[Overhead](/results/overhead.md): processor time added, %", "overhead-short", "overhead"),
)
"""What a bonus's page shows: title, EXPERIMENT, metric, conditions (all if none is named)."""


def options(analyses: Analyses, command: str) -> str:
    """COMMAND: what it does, and its options with defaults and meanings."""
    return command_reference.reference(command)


def suite(analyses: Analyses, what: str) -> str:
    """A part of the suite's page: picture, leaderboard, references, ends or stability."""
    if what not in leaderboard.PARTS:
        raise SystemExit(f"suite: expected one of {', '.join(leaderboard.PARTS)}, got {what!r}")
    return leaderboard.PARTS[what]()


def sb3(analyses: Analyses, what: str) -> str:
    """`table`: results/sb3, a row a learner and bonus."""
    return benchmark_results.sb3_table()


def kills_table(analyses: Analyses, report: str) -> str:
    """FILE: what `tools/kill_campaign.py` found."""
    found = read_json(ROOT / report)
    rows = [[fault, str(n["kills"]), str(n["identical"])] for fault, n in found["faults"].items()]
    rows.append(["**all**", f"**{found['kills']}**", f"**{found['identical']}**"])
    table = markdown_table(("killed", "times", "identical in the end"), rows)
    return f"{table}\n\n{found['victims']} runs killed in {found['cases']} ways, {_machine(found)}"


def fuzz_table(analyses: Analyses, report: str) -> str:
    """FILE: what `tools/fuzz_campaign.py` tried and found."""
    found = read_json(ROOT / report)
    tried, calls = found["tried"], found["calls"]
    rows = [
        ["calls", f"{sum(calls.values()):,}"],
        ["accepted: finite rewards, metrics and parameters", f"{tried['accepted']:,}"],
        ["refused with a ValueError, the bonus unchanged", f"{tried['refused']:,}"],
        ["bonuses", f"{len(calls)}"],
        ["**found**", f"**{len(found['found'])}**"],
    ]
    return f"{markdown_table(('', ''), rows)}\n\n{_machine(found)}"


def _machine(found: Mapping[str, Any]) -> str:
    return f"{found['cpu_seconds'] / 60:.0f} minutes of one core, torch {found['versions'].get('torch', 'unknown')}."


def noise_rows(analyses: Analyses, folder: str) -> str:
    """FOLDER: the noise table, from its per-seed files."""
    return markdown_table(noise_table.HEADER, noise_table.table_rows(noise_table.summarise(noise_curves(folder))))


def stored(analyses: Analyses, name: str) -> str:
    """NAME: results/benchmarks/NAME.json, columns and rows as the benchmark left them."""
    table = read_json(BENCHMARKS / f"{name}.json")
    return markdown_table(table["columns"], table["rows"])


def defaults_table(analyses: Analyses, measure: str, *methods: str) -> str:
    """MEASURE METHOD…: runs of benchmarks/defaults.py, mean "return", steps until "solved", or "noise"."""
    rows = []
    for folder in sorted((ROOT / "results" / "defaults").iterdir()):
        cells = []
        found = {m: [json.loads(p.read_text()) for p in sorted((folder / m).glob("seed_*.json"))] for m in methods}
        every = [run for runs in found.values() for run in runs]
        if measure == "solved" and any(not 0 <= run["return"] <= 1 for run in every):
            continue  # a task of which a return above 0 is no success
        if not every or (measure == "noise" and not any(any(noise_of(run)) for run in every)):
            continue
        for runs in found.values():
            key = "solved_at" if measure == "solved" else measure
            values = [100 * noise_of(run)[-1] if measure == "noise" else run[key] for run in runs]
            reached = [value for value in values if value is not None]
            mean = rounded_mean((max if measure == "noise" else fmean)(reached)) if reached else "never"
            part = "" if len(reached) in (0, len(values)) else f", {len(reached)} solved"
            cells.append(f"{mean} ({len(values)}{part})" if values else NOT_RUN)
        rows.append([f"`{every[0]['env_id']}`, {every[0]['steps']:,} steps", *cells])
    return markdown_table(("task", *(f"`{method}`" for method in methods)), rows)


def peers_table(analyses: Analyses, folder: str) -> str:
    """FOLDER: runs of examples/sb3_minigrid.py and benchmarks/rlexplore.py, a row a task and bonus."""
    found: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((ROOT / "results" / folder).glob("*.json")):
        run = read_json(path)
        settings = run["settings"]
        bonus = settings["bonus"] + (", observations standardised" if settings["norm_obs"] else "")
        found.setdefault((settings["env_id"].removeprefix("MiniGrid-"), bonus), []).append(run)
    rows = []
    for (task, bonus), runs in found.items():
        solved = [run for run in runs if run["steps_90"] is not None]
        when = (fmean(run[key] for run in solved) if solved else None for key in ("steps_90", "cpu_seconds_90"))
        spent = rounded_mean(fmean(run["curve"][-1][3] for run in runs))
        steps, seconds = ("never" if mean is None else rounded_mean(mean) for mean in when)
        seconds = f"never in {spent}" if seconds == "never" else seconds
        success = f"{fmean(run['curve'][-1][1] for run in runs):.2f} at {runs[0]['settings']['steps']:,}"
        rows.append([task, bonus, f"{len(solved)} of {len(runs)}", steps, seconds, success])
    columns = ("task", "bonus", "seeds solved", "steps to 90 %", "CPU seconds to 90 %", "success, last 100 episodes")
    return markdown_table(columns, rows)


def sensors_table(analyses: Analyses, task: str, metric: str) -> str:
    """TASK METRIC: runs of benchmarks/sensors.py, a row a learner and bonus, a column a kind of noise."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for path in sorted(SENSORS.glob(f"{task}-*.json")):
        run = read_json(path)
        own = run["settings"]
        found.setdefault((own["learner"].upper(), own["bonus"]), {}).setdefault(own["noise"], []).append(run[metric])
    words = {"none": "no noise", "noise": "5 % noise", "tv": "TV"}
    kinds = [kind for kind in words if any(kind in cells for cells in found.values())]
    rows = [
        [learner, f"**`{bonus}`**" if bonus.startswith(RECOMMENDED) else f"`{bonus}`", *(
            f"{rounded_mean(fmean(runs))} ({len(runs)})" if (runs := cells.get(kind)) else NOT_RUN for kind in kinds
        )]
        for (learner, bonus), cells in sorted(found.items(), key=lambda row: -fmean(row[1].get("noise", [0])))
    ]  # fmt: skip
    return markdown_table(("learner", "bonus", *(words[kind] for kind in kinds)), rows)


def noise_of(run: Mapping[str, Any]) -> Any:
    """The curve of the share of steps that showed noise."""
    return run["curve"].get("noise_share", [0.0])


MARKERS: Mapping[str, Callable[..., str]] = {
    "table": full_table,
    "means": short_table,
    "number": number,
    "headline": headline,
    "verdicts": verdicts,
    "bonus": bonus_table,
    "program": program,
    "settings": settings,
    "options": options,
    "overview": overview,
    "suite": suite,
    "sb3": sb3,
    "kills": kills_table,
    "fuzz": fuzz_table,
    "two-arms": noise_rows,
    "stored": stored,
    "defaults": defaults_table,
    "hostile": hostile_table,
    "peers": peers_table,
    "sensors": sensors_table,
}
"""Kind of marker to what fills it."""
PLACE = re.compile(r"<!-- (\S+) ([^>]*?) -->.*?<!-- end -->", re.DOTALL)
INLINE = re.compile(r"number|verdicts sentence")
"""Markers inside a sentence."""


def refreshed(text: str, analyses: Analyses, page: str = "page") -> str:
    """A page with its marked places made anew; a marker that cannot be filled is named with its page."""

    root = "docs/" if page == "README.md" else "../" * (page.count("/") - 1)

    def filled(match: re.Match[str]) -> str:
        kind, words = match[1], match[2].split()
        opening = match[0][: match[0].index("-->") + 3]
        try:
            if kind not in MARKERS:
                raise SystemExit(f"expected one of {', '.join(MARKERS)}")
            made = MARKERS[kind](analyses, *words).replace("](/", f"]({root}")  # links are from docs/
        except (SystemExit, ValueError) as problem:
            raise SystemExit(f"{page}: <!-- {match[1]} {match[2]} -->: {problem}") from None
        # Markdown: a table that follows a comment without an empty line is part of the comment
        inside = INLINE.match(f"{kind} {match[2]}")
        return f"{opening}{made.strip()}<!-- end -->" if inside else f"{opening}\n\n{made}\n<!-- end -->"

    return PLACE.sub(filled, text)


# ---- what they share ----------------------------------------------------------------------------------------------
def analysis_of(analyses: Analyses, stem: str) -> Analysis:
    """An experiment at a scale."""
    if stem not in analyses:
        raise SystemExit(f"no results of {stem}; there are {', '.join(analyses)}")
    return analyses[stem]


def bonus_of(method: str) -> str:
    """The registered name of a method's bonus, as it is typed; the method's own where there is none."""
    return method if method not in ALL or ALL[method].bonus == "none" else ALL[method].bonus


def page_of(bonus: str) -> str:
    """The page of a bonus under docs."""
    shared = {"lgn_lifelong": "lgn", "episodic_count": "count"}
    return f"bonuses/{shared.get(bonus, bonus)}.md"


def linked(method: str, name: str) -> str:
    """The name of a method, with a link to its bonus."""
    page = "lgn.md#what-was-measured" if method in FORMER else page_of(bonus_of(method))
    return f"[{name}](/{page})" if (ROOT / "docs" / page.partition("#")[0]).exists() else name


def read_json(path: Path) -> Any:
    """What a file under the project's folder holds."""
    if not path.exists():
        raise SystemExit(
            f"no {path.relative_to(ROOT)}; there are {', '.join(sorted(p.name for p in path.parent.glob('*')))}"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def noise_curves(folder: str) -> list[noise_table.RewardCurves]:
    """The per-seed files of `lpm bonuses --noise-table`."""
    files = sorted((ROOT / folder).glob("*/seed_*.json"))
    if not files:
        raise SystemExit(f"no files in {folder}")
    return [read_json(file)["curves"] for file in files]


def sorted_means(analysis: Analysis, metric: str) -> str:
    """A row a method, a column a condition, sorted by the column that most methods have, the last of such columns."""
    table = analysis.table(metric)
    shown = list(table.moving)
    by = max(shown, key=lambda c: (sum((c, m) in table.cells for m in table.methods), shown.index(c)))
    sign = 1 if metric in analysis.evidence.lower_is_better else -1
    means = {key: cell.summary.mean for key, cell in table.cells.items()}
    order = sorted(table.methods, key=lambda m: sign * means[by, m] if (by, m) in means else math.inf)
    rows = [
        [
            linked(method, f"*{table.methods[method]}*" if method in REFERENCES else table.methods[method]),
            *table.row(method, shown, lambda cell: rounded_mean(cell.summary.mean)),
        ]
        for method in order
    ]
    heads = [f"{table.conditions[c]} ▾" if c == by and len(shown) > 1 else table.conditions[c] for c in shown]
    return markdown_table(("method", *heads), rows)


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
    data, styles = front_data(analysis), looks(analysis.methods)
    strong = [RECOMMENDED] if RECOMMENDED in data else list(FORMER)
    figure, (axis,) = panels(1, 1, 6.9, 0.33 * len(data) + 1.4)  # for a phone too: few inches, large words
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
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    seeds = min(cell.summary.n for cell in analysis.cells.values())
    title = f"What a noisy TV costs: MountainCar, {seeds} seeds or more\nfrom no noise (○) to noise (●)"
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold")
    figure.tight_layout()
    save(figure, path, data, dpi=130)


def first_screen(analyses: Sequence[Analysis]) -> list[list[str]]:
    """What a report begins with: methods in order, with their scores as printed."""
    ranking = rank(analyses)
    return [] if ranking is None else [[place.label, f"{place.score.value:.2f}"] for place in ranking.places]


# ---- all of it ------------------------------------------------------------------------------------------------
def documents() -> list[Path]:
    """Every page that may have marked places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def pictures_of(page: Path) -> list[Path]:
    """The figures under docs/results that a page shows."""
    linked = [(page.parent / name).resolve() for name in PICTURE.findall(page.read_text(encoding="utf-8"))]
    return [path for path in linked if path.parent == FIGURES]


def drawn_from(path: Path) -> Any:
    """The numbers that a picture was made from."""
    from PIL import Image

    if not path.exists():
        return None
    with Image.open(path) as image:
        return json.loads(image.info.get("Description", "null"))


def main(words: list[str] | None = None) -> int:
    """Refresh, or check; 1 if something is out of date or missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is out of date")
    check = parser.parse_args(words).check
    with TemporaryDirectory() as name:
        pages = write_pages([ROOT / "results"], Path(name) / "index.html")
    analyses = {analysis.name: analysis for analysis in pages.analyses}
    front, cards = analyses["mountain-car-short"], leaderboard.scorecards()
    shown: list[tuple[Path, Any, Callable[[], object]]] = [
        (FRONT, front_data(front), partial(draw_front, front, FRONT)),
        (SB3_FIGURE, benchmark_results.sb3_picture_data(), partial(benchmark_results.draw_sb3, SB3_FIGURE)),
        (SUITE_FIGURE, leaderboard.picture_data(cards), lambda: write_atomic(SUITE_FIGURE, leaderboard.png(cards))),
        *((path, data(), partial(draw, path, data())) for path, (data, draw) in PICTURES.items()),
    ]
    stale = [(path, draw) for path, data, draw in shown if drawn_from(path) != data]
    draw = drawings(pages.analyses)
    for path in documents():
        text = path.read_text(encoding="utf-8")
        fresh = refreshed(text, analyses, str(path.relative_to(ROOT)))
        if fresh != text:
            stale.append((path, partial(write_atomic, path, fresh.encode())))
        for picture in pictures_of(path):
            if picture.stem not in draw:
                raise SystemExit(f"{path.relative_to(ROOT)}: {picture.name}: no results to draw it from")
            if not check:
                write_atomic(picture, encoded(draw[picture.stem](), ["png"])["png"])
    for warning in (*pages.warnings, *read_scorecards(leaderboard.FOLDER)[1]):
        print(f"warning: {warning}")
    if drawn_from(REPORT_PICTURE) != first_screen(pages.analyses):  # no fault of a check: to take it needs a browser
        print(f"{REPORT_PICTURE.relative_to(ROOT)} shows an older ranking: tools/report_picture.py takes it anew")
    for path, write in stale:
        if not check:
            write()
        print(f"{'out of date' if check else 'refreshed'}: {path.relative_to(ROOT)}")
    if check and stale:
        print("python -m lpm_paper.refresh makes them anew", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
