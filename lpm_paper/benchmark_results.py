"""What benchmarks left in results/: runs inside Stable-Baselines3 as table, means and picture; two more pictures."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import IO, Any

from lpm.report.families import RECOMMENDED
from lpm.report.text import markdown_table

ROOT = Path(__file__).resolve().parents[1]
SB3_FOLDER = ROOT / "results" / "sb3"


def rounded_mean(mean: float) -> str:
    """As a mean is shown: an integer, or two digits if it is small."""
    return (f"{mean:,.0f}" if abs(mean) >= 10 else f"{mean:.2g}").replace("-", "−", 1)


def sb3_runs() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(algorithm, bonus) to its runs by seed, the bare learner first and what the project recommends last."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in SB3_FOLDER.glob("*.json"):
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
        task = f"{fmean(values['return']):.2f}" if values["return"] else "–"
        row = [algorithm, f"`{bonus}`", f"{len(runs)}", cells, f"{fmean(values['noise']):.0f}", task]
        rows.append([f"**{cell}**" for cell in row] if bonus.startswith(RECOMMENDED) else row)
    columns = ("learner", "bonus", "seeds", "cells visited, %", "steps on the noise in the last half, %", "task return")
    return markdown_table(columns, rows)


def sb3_picture_data() -> dict[str, list[list[float]]]:
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
    found = sb3_runs()
    learners = list(dict.fromkeys(algorithm for algorithm, _ in found))
    figure, axes = panels(1, len(learners), 4.3 * len(learners), 3.3, sharey=True)
    for axis, learner in zip(axes, learners, strict=True):
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
    axes[0].set_ylabel("cells visited, %")
    figure.tight_layout()
    save(figure, path, sb3_picture_data())


# ---- the pictures of docs/results/defaults.md and docs/results/sensors.md, from the per-seed files --------------
COLOURS = {"none": "#777777", "lgn": "#d62708", "sb3": "#3b6fb6"}
NAMES = {"none": "no bonus", "lgn": "lgn", "sb3": "Stable-Baselines3, no bonus"}
MARKS = {"none": ("no noise", "o", "white"), "noise": ("5 % noise", "o", None), "tv": ("TV", "s", None)}
TITLES = {"car": "MountainCar: cells of 100", "maze": "PointMaze: cells of 104"}


def defaults_data() -> dict[str, dict[str, list[list[float]]]]:
    """Environment to method to steps and the mean return at each; tasks in which two methods ran."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for folder in sorted((ROOT / "results" / "defaults").iterdir()):
        for method in COLOURS:
            runs = [json.loads(path.read_text()) for path in sorted((folder / method).glob("seed_*.json"))]
            points = list(zip(*(run["curve"]["return"] for run in runs), strict=False))
            if any(min(point) < 0 for point in points):  # before an episode has ended there is no return
                points = points[next(i for i, point in enumerate(points) if all(point)) :]
            if runs:
                steps = runs[0]["curve"]["step"][-len(points) :]
                found.setdefault(runs[0]["env_id"], {})[method] = [steps, [round(fmean(p), 4) for p in points]]
    return {env: lines for env, lines in found.items() if len(lines) > 1}


def sensors_data() -> dict[str, dict[str, dict[str, float]]]:
    """Task to bonus to mean cells visited under each kind of noise, of PPO."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for path in sorted((ROOT / "results" / "sensors").glob("*-ppo-*.json")):
        run = json.loads(path.read_text())
        own = run["settings"]
        found.setdefault(own["task"], {}).setdefault(own["bonus"], {}).setdefault(own["noise"], []).append(run["cells"])
    means = {task: {bonus: {kind: fmean(runs[kind]) for kind in runs} for bonus, runs in bonuses.items()}
             for task, bonuses in found.items()}  # fmt: skip
    best = {task: sorted(bonuses, key=lambda bonus: -min(bonuses[bonus].values())) for task, bonuses in means.items()}
    return {task: {bonus: means[task][bonus] for bonus in order} for task, order in best.items()}


def draw_defaults(path: Path, data: dict[str, dict[str, list[list[float]]]]) -> None:
    """Return along training, a panel a task."""
    rows = -(-len(data) // 3)
    figure, axes = panels(rows, 3, 7.4, 1.7 * rows + 0.3)
    for axis, (env, lines) in zip(axes, data.items(), strict=False):
        for method, line in lines.items():
            axis.plot(*line, color=COLOURS[method], linewidth=2.4 if method == "lgn" else 1.6)
        axis.set_title(env.removeprefix("MiniGrid-").removeprefix("lpm/"), loc="left", fontsize=10)
        last = max(steps[-1] for steps, _ in lines.values())
        axis.set_xticks([0, last], ["0", f"{last:,.0f}"])
        axis.tick_params(labelsize=8)
    for axis in axes[len(data) :]:
        axis.set_visible(False)
    figure.supylabel("mean return", fontsize=10, y=0.52)
    _legend(figure, [{"color": COLOURS[m], "linewidth": 2.4, "label": NAMES[m]} for m in COLOURS], 0.03)
    save(figure, path, data)


def draw_sensors(path: Path, data: dict[str, dict[str, dict[str, float]]]) -> None:
    """Cells visited, a panel a task, a row a bonus."""
    figure, axes = panels(1, len(data), 7.4, 3.0)
    for axis, (task, bonuses) in zip(axes, data.items(), strict=True):
        for row, (bonus, cells) in enumerate(bonuses.items()):
            colour = COLOURS.get(bonus, "#5b6770")
            axis.plot([min(cells.values()), max(cells.values())], [row, row], color=colour, alpha=0.4)
            for kind, seen in cells.items():
                _, marker, face = MARKS[kind]
                axis.scatter([seen], [row], marker=marker, s=60, facecolor=face or colour, edgecolor=colour, zorder=3)
        axis.set_yticks(range(len(bonuses)), [NAMES.get(bonus, bonus) for bonus in bonuses])
        axis.set_title(TITLES[task], loc="left", fontsize=10)
        axis.set(xlim=(0, 108), ylim=(len(bonuses) - 0.4, -0.6))
        axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
        axis.set_axisbelow(True)
    black: Any = {"color": "#333333", "linestyle": ""}
    marks = [{**black, "marker": mark, "markerfacecolor": face or "#333333", "label": name}
             for name, mark, face in MARKS.values()]  # fmt: skip
    _legend(figure, marks, 0.1)
    save(figure, path, data)


def panels(rows: int, columns: int, width: float, height: float, sharey: bool = False) -> tuple[Any, Any]:
    """A figure and its axes, row by row, without a frame at the top and on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, sharey=sharey, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes.flat


def _legend(figure: Any, lines: Sequence[dict[str, Any]], bottom: float) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **line) for line in lines]
    figure.legend(handles=handles, loc="lower center", ncol=len(handles), frameon=False)
    figure.tight_layout(rect=(0, bottom, 1, 1), h_pad=0.6)


def save(figure: Any, file: Path | IO[bytes], data: Any, dpi: int = 140) -> None:
    """A PNG with the numbers it was drawn from, by which `refresh` sees whether it is out of date."""
    figure.savefig(file, format="png", dpi=dpi, facecolor="white",
                   metadata={"Description": json.dumps(data), "Software": None})  # fmt: skip


PICTURES: dict[Path, tuple[Any, Any]] = {
    ROOT / "docs" / "images" / "defaults.png": (defaults_data, draw_defaults),
    ROOT / "docs" / "images" / "sensors.png": (sensors_data, draw_sensors),
}
"""Each with what it shows, and what draws that."""
