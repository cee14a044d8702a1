"""The pictures of docs/results/defaults.md and docs/results/sensors.md, from the per-seed files."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEFAULTS, SENSORS = (ROOT / "docs" / "images" / f"{name}.png" for name in ("defaults", "sensors"))
COLOURS = {"none": "#777777", "lgn": "#d62708", "sb3": "#3b6fb6"}
NAMES = {"none": "no bonus", "lgn": "lgn", "sb3": "Stable-Baselines3, no bonus"}
MARKS = {"none": ("no noise", "o", "white"), "noise": ("5 % noise", "o", None), "tv": ("TV", "s", None)}
TITLES = {"car": "MountainCar: cells of 100", "maze": "PointMaze: cells of 104"}


def defaults_data() -> dict[str, dict[str, list[list[float]]]]:
    """Environment to method to steps, mean return at each, [number of seeds]; tasks where two methods ran."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for folder in sorted((ROOT / "results" / "defaults").iterdir()):
        for method in COLOURS:
            runs = [json.loads(path.read_text()) for path in sorted((folder / method).glob("seed_*.json"))]
            if runs:
                curves = [run["curve"]["return"] for run in runs]
                means = [round(fmean(point), 4) for point in zip(*curves, strict=False)]
                ended = (i for i, point in enumerate(zip(*curves, strict=False)) if all(point))
                first = next(ended, 0) if min(means) < 0 else 0  # before an episode has ended there is no return
                line = [runs[0]["curve"]["step"][first : len(means)], means[first:], [float(len(runs))]]
                found.setdefault(runs[0]["env_id"], {})[method] = line
    return {env: lines for env, lines in found.items() if len(lines) > 1}


def sensors_data() -> dict[str, dict[str, dict[str, float]]]:
    """Task to bonus to mean cells visited under each kind of noise, of PPO."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for path in sorted((ROOT / "results" / "sensors").glob("*-ppo-*.json")):
        run = json.loads(path.read_text())
        own = run["settings"]
        found.setdefault(own["task"], {}).setdefault(own["bonus"], {}).setdefault(own["noise"], []).append(run["cells"])
    return {
        task: {bonus: {kind: fmean(cells) for kind, cells in kinds.items()} for bonus, kinds in bonuses.items()}
        for task, bonuses in found.items()
    }


def draw_defaults() -> None:
    """Return along training, a panel a task."""
    pyplot, data = _pyplot(), defaults_data()
    columns = 3
    rows = -(-len(data) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(7.4, 1.7 * rows + 0.3), squeeze=False)
    for axis, (env, lines) in zip(axes.flat, data.items(), strict=False):
        for method, (steps, means, _) in lines.items():
            axis.plot(steps, means, color=COLOURS[method], linewidth=2.4 if method == "lgn" else 1.6)
        axis.set_title(env.removeprefix("MiniGrid-").removeprefix("lpm/"), loc="left", fontsize=10)
        last = max(steps[-1] for steps, _, _ in lines.values())
        axis.set_xticks([0, last], ["0", f"{last:,.0f}"])
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(data) :]:
        axis.set_visible(False)
    handles = [pyplot.Line2D([], [], color=COLOURS[method], linewidth=2.4, label=NAMES[method]) for method in COLOURS]
    figure.legend(handles=handles, loc="lower center", ncol=3, frameon=False)
    figure.supylabel("mean return", fontsize=10, y=0.52)
    _save(figure, DEFAULTS, data, bottom=0.03)


def draw_sensors() -> None:
    """Cells visited, a panel a task, a row a bonus, the best under noise first."""
    pyplot, data = _pyplot(), sensors_data()
    figure, axes = pyplot.subplots(1, len(data), figsize=(7.4, 3.0), squeeze=False)
    for axis, (task, bonuses) in zip(axes[0], data.items(), strict=True):
        order = sorted(bonuses, key=lambda bonus: min(bonuses[bonus].values()))
        for row, bonus in enumerate(order):
            colour = COLOURS.get(bonus, "#5b6770")
            axis.plot(
                [min(bonuses[bonus].values()), max(bonuses[bonus].values())], [row, row], color=colour, alpha=0.4
            )
            for kind, cells in bonuses[bonus].items():
                _, marker, face = MARKS[kind]
                axis.scatter([cells], [row], marker=marker, s=60, facecolor=face or colour, edgecolor=colour, zorder=3)
        axis.set_yticks(range(len(order)), [NAMES.get(bonus, bonus) for bonus in order])
        axis.set_title(TITLES[task], loc="left", fontsize=10)
        axis.set(xlim=(0, 108), ylim=(-0.6, len(order) - 0.4))
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
        axis.set_axisbelow(True)
    handles = [
        pyplot.Line2D([], [], linestyle="", marker=marker, markerfacecolor=face or "#333333", color="#333333", label=name)
        for name, marker, face in MARKS.values()
    ]
    figure.legend(handles=handles, loc="lower center", ncol=3, frameon=False)
    _save(figure, SENSORS, data, bottom=0.12)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path, data: Any, bottom: float) -> None:
    figure.tight_layout(rect=(0, bottom, 1, 1), h_pad=0.6)
    figure.savefig(path, dpi=140, facecolor="white", metadata={"Description": json.dumps(data), "Software": None})
    _pyplot().close(figure)


PICTURES = {DEFAULTS: (defaults_data, draw_defaults), SENSORS: (sensors_data, draw_sensors)}
"""Each with what it shows and what draws it."""
