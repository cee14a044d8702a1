"""Runs inside Stable-Baselines3, from benchmarks/sb3_mountain_car.py: table, single means, picture."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from lpm.report.families import RECOMMENDED
from lpm.report.text import markdown_table
from lpm_paper.benchmark_pictures import panels, save

FOLDER = Path(__file__).resolve().parents[1] / "results" / "sb3"


def rounded_mean(mean: float) -> str:
    """As a mean is shown: an integer, or two digits if it is small."""
    return (f"{mean:,.0f}" if abs(mean) >= 10 else f"{mean:.2g}").replace("-", "−", 1)


def runs_by_bonus() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(algorithm, bonus) to its runs by seed, the bare learner first and what the project recommends last."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in FOLDER.glob("*.json"):
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


def values_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Per seed: cells visited and steps on the noise in the last half, both in percent, and the task's return."""
    return {
        "cells": [100 * run["curve"][-1][1] for run in runs],
        "noise": [100 * fmean(point[2] for point in run["curve"][len(run["curve"]) // 2 :]) for run in runs],
        "return": [fmean(run["returns"]) for run in runs if run["returns"]],
    }


def table() -> str:
    """Mean and range over seeds, a row a learner and bonus."""
    rows = []
    for (algorithm, bonus), runs in runs_by_bonus().items():
        values = values_of(runs)
        cells = f"{fmean(values['cells']):.1f} [{min(values['cells']):.0f}–{max(values['cells']):.0f}]"
        task = f"{fmean(values['return']):.2f}" if values["return"] else "–"
        row = [algorithm, f"`{bonus}`", f"{len(runs)}", cells, f"{fmean(values['noise']):.0f}", task]
        rows.append([f"**{cell}**" for cell in row] if bonus.startswith(RECOMMENDED) else row)
    columns = ("learner", "bonus", "seeds", "cells visited, %", "steps on the noise in the last half, %", "task return")
    return markdown_table(columns, rows)


def picture_data() -> dict[str, list[list[float]]]:
    """What the picture is drawn from: "learner bonus" to steps, mean share of cells at each, [number of seeds]."""
    return {
        " ".join(key): [
            [float(point[0]) for point in runs[0]["curve"]],
            [round(100 * fmean(run["curve"][i][1] for run in runs), 2) for i in range(len(runs[0]["curve"]))],
            [float(len(runs))],
        ]
        for key, runs in runs_by_bonus().items()
    }


def draw(path: Path) -> None:
    """Cells visited along training: mean over seeds in bold, every seed thin."""
    found = runs_by_bonus()
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
    save(figure, path, picture_data())
