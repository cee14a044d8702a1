"""What LGN's filter sees: four sensors, their readings, the truth behind them and the filtered state.

    python examples/lgn_filter.py [--figure lgn_filter.png]

One number each, of 16 environments: a place that drifts, read without noise; the same with noise; a number that is
noise alone; a bit of a code, which goes back and forth between 0 and 1. The gain K is measured from the readings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from lpm.core.transitions import Transitions
from lpm.nn.memory import episode_starts
from lpm.nn.sensor import Readings, SensorNoise

SENSORS = ("no noise", "noise on a place", "noise alone", "a bit of a code")
STEPS, ENVS, SHOWN = 2_000, 16, 120


def sensors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The truth and the readings, (STEPS + 1, ENVS, 4)."""
    random = np.random.default_rng(seed)
    shape = (STEPS + 1, ENVS)
    place = 0.2 * random.normal(size=shape).cumsum(0)
    bit = (random.random(shape) < 0.2).cumsum(0) % 2.0
    truth = np.stack([place, place, np.zeros(shape), bit], 2)
    noise = np.stack([0 * place, random.normal(size=shape), random.normal(size=shape), 0 * place], 2)
    return torch.as_tensor(truth, dtype=torch.float32), torch.as_tensor(truth + noise, dtype=torch.float32)


def filtered(readings: torch.Tensor, blocks: int = 10) -> tuple[torch.Tensor, list[float]]:
    """The states behind the readings, (STEPS, ENVS, 4), and each sensor's gain K in the end."""
    width, size = readings.shape[2], STEPS // blocks
    noise, filters = SensorNoise(1, width), Readings(ENVS, 1, width)
    code, running = torch.ones(size, ENVS, 1), torch.zeros(ENVS, dtype=torch.bool)
    found = []
    for start in range(0, STEPS, size):
        now, following = readings[start : start + size], readings[start + 1 : start + size + 1]
        block = Transitions.build(now, torch.zeros(size, ENVS, dtype=torch.int64), following)
        starts = episode_starts(block, running)
        states = filters.filtered(starts, block.valid, now, following, code, noise)
        found.append(noise.shrunk(states[1]))
        noise.add(filters.observe(block, starts, now, following, states, code, noise), block.valid)
        noise.solve(1.0, torch.ones(1, 1))
        running |= True
    gains = torch.ones(width)
    gains[noise.noisy] = noise.gain(torch.ones(1, 1))[1][0]
    return torch.cat(found), gains.tolist()


def main() -> None:
    """Print what is left of the noise, and draw it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    truth, readings = sensors(options.seed)
    states, gains = filtered(readings)
    late = slice(STEPS // 2, None)
    print(f"{'sensor':20}{'K':>6}{'error of readings':>20}{'of the state':>15}")
    for i, (name, gain) in enumerate(zip(SENSORS, gains, strict=True)):
        raw, left = (
            float((x[late, :, i] - truth[1:][late, :, i]).square().mean().sqrt()) for x in (readings[1:], states)
        )
        print(f"{name:20}{gain:>6.2f}{raw:>20.2f}{left:>15.2f}")
    if options.figure is not None:
        draw(truth, readings, states, gains, options.figure)
        print(f"Figure: {options.figure}")


def draw(truth: torch.Tensor, readings: torch.Tensor, states: torch.Tensor, gains: list[float], path: Path) -> None:
    """One panel a sensor: the last steps of one environment."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    steps = np.arange(SHOWN)
    for i, axis in enumerate(figure.subplots(2, 2, sharex=True).flat):
        axis.plot(steps, readings[-SHOWN:, 0, i], ".", color="0.65", markersize=4, label="reading")
        axis.plot(steps, truth[-SHOWN:, 0, i], color="#0067b1", linewidth=1, label="truth")
        axis.plot(steps, states[-SHOWN:, 0, i], color="#d55e00", linewidth=1.6, linestyle="--", label="filtered state")
        axis.set_title(f"{SENSORS[i]}: K = {gains[i]:.2f}", fontsize=11)
        if i > 1:
            axis.set_xlabel("step")
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
