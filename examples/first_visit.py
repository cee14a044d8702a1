"""What LPM pays for the first, second, … visit to a new place, and for noise, with three kinds of error model.

    python examples/first_visit.py [--figure first_visit.png]

A line. Around 0 the next observation is 0.9 times the last: familiar, learnt in 60 updates. Around 6 it is −0.9 times:
new, learnable. Around −6 it is random: a TV. From update 60 on, each rollout is half familiar, a quarter new place and
a quarter TV. A network g extrapolates the small errors of the familiar place, so that the first visit elsewhere is
punished; an anchored g goes back to the error of the untrained dynamics model; a slow copy of the dynamics model errs
where the dynamics model errs, so that little is left to punish.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

import lpm

LINE = lpm.Spaces(Box(-10, 10, (1,)), Discrete(2))
PLACES = {"familiar": 0.0, "new": 6.0, "TV": -6.0}
KINDS = {
    "network g, log": "lpm",
    "network g, exp": "lpm_release",
    "anchored g, log": "lpm_anchored",
    "slow copy, log": "lpm_slow",
}


def visit(place: str, steps: int, generator: torch.Generator) -> lpm.Transitions:
    """Transitions at one place, (steps, 1)."""
    obs = PLACES[place] + 0.5 * torch.randn(steps, 1, 1, generator=generator)
    following = {"familiar": 0.9 * obs, "new": -0.9 * obs, "TV": -6 + 2 * torch.randn(obs.shape, generator=generator)}
    return lpm.Transitions.build(obs, torch.zeros(steps, 1, dtype=torch.int64), following[place])


def rewards(name: str, seed: int, visits: int) -> dict[str, list[float]]:
    """Mean reward at each place, visit by visit."""
    generator = torch.Generator().manual_seed(seed)
    bonus = lpm.make(name, LINE, num_envs=1, rollout_steps=128, seed=seed)
    for _ in range(60):
        bonus.step(visit("familiar", 128, generator))
        bonus.update()
    paid: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(visits):
        for place, steps in (("familiar", 64), ("new", 32), ("TV", 32)):
            paid[place].append(float(bonus.step(visit(place, steps, generator)).mean()))
        bonus.update()
    return paid


def main() -> None:
    """Print the table, and draw it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--visits", type=int, default=30)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        kind: [rewards(name, seed, options.visits) for seed in range(options.seeds)] for kind, name in KINDS.items()
    }
    shown = [n for n in (1, 2, 10, options.visits) if n <= options.visits]
    print(f"{'mean reward at visit':24}" + "".join(f"{n:>9}" for n in dict.fromkeys(shown)))
    for kind, runs in found.items():
        for place in PLACES:
            means = np.mean([run[place] for run in runs], axis=0)
            print(f"{kind + ', ' + place:24}" + "".join(f"{means[n - 1]:>9.2f}" for n in dict.fromkeys(shown)))
    if options.figure is not None:
        draw(found, options.figure)
        print(f"Figure: {options.figure}")


def draw(found: dict[str, list[dict[str, list[float]]]], path: Path) -> None:
    """One panel a kind: reward against visits, mean and range over seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(found))
    for axis, (kind, runs) in zip(axes, found.items(), strict=True):
        for place, colour in zip(PLACES, ("#6a737c", "#0067b1", "#d55e00"), strict=True):
            values = np.array([run[place] for run in runs])
            visits = np.arange(1, values.shape[1] + 1)
            axis.plot(visits, values.mean(0), color=colour, label=place)
            axis.fill_between(visits, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
        axis.axhline(0, color="0.5", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 30], ["1", "2", "5", "10", "30"])
        axis.minorticks_off()
        axis.set_yscale("symlog", linthresh=1)
        axis.set_title(kind, fontsize=10)
        axis.set_xlabel("visit")
    axes[0].set_ylabel("reward")
    axes[-1].legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
