"""How fast the maze is, and what a uniform random policy covers in it.

python benchmarks/maze.py                 # speed
python benchmarks/maze.py --reference     # random policy, 10 seeds x 50,000 steps, all conditions
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from lpm.envs.maze import NMazeVector, Noise, advance
from lpm.envs.maze_geometry import START, cell_index, wall_segments

SETTINGS: tuple[tuple[str, int, int, Noise], ...] = (
    ("160 x 120, no noise", 160, 120, "none"),
    ("160 x 120, state noise", 160, 120, "state"),
    ("160 x 120, action noise", 160, 120, "action"),
    ("80 x 60, no noise", 80, 60, "none"),
)
IMAGES = np.random.default_rng(0).integers(0, 256, (1000, 32, 32, 3), dtype=np.uint8)


def frames_per_second(envs: NMazeVector, seconds: float = 2.0, rounds: int = 3) -> float:
    """Median rate of `step` under a random walk that has left the start."""
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    actions = rng.choice(5, size=(100, envs.num_envs), p=(0.15, 0.15, 0.5, 0.1, 0.1))
    for row in actions:
        envs.step(row)
    rates = []
    for _ in range(rounds):
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds / rounds:
            for row in actions[:20]:
                envs.step(row)
            count += 20 * envs.num_envs
        rates.append(count / (time.perf_counter() - start))
    return float(np.median(rates))


def make(num_envs: int, width: int, height: int, noise: Noise, threads: int | None = None) -> NMazeVector:
    images = IMAGES if noise == "action" else None
    return NMazeVector(num_envs, noise, width, height, images=images, threads=threads)


def speed(num_envs: int) -> None:
    print(f"| setting | one thread | {NMazeVector(1).threads} threads |")
    print("|---|---:|---:|")
    for name, width, height, noise in SETTINGS:
        single = frames_per_second(make(num_envs, width, height, noise, 1))
        several = frames_per_second(make(num_envs, width, height, noise))
        print(f"| {name}, {num_envs} envs | {single:,.0f} | {several:,.0f} |")


def noise_share(noise: Noise, sticky: float, seeds: int, steps: int) -> float:
    """Share of the steps of a uniform random policy whose frame shows noise; one row per seed, small frames."""
    images = IMAGES if noise == "action" else None
    envs = NMazeVector(seeds, noise, width=40, height=30, sticky=sticky, images=images)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    noisy = 0
    for _ in range(steps):
        noisy += int(envs.step(rng.integers(5, size=seeds))[4]["noise"].sum())
    return noisy / (seeds * steps)


def cells_visited(sticky: float, seeds: int, steps: int) -> NDArray[np.int64]:
    """Cells visited by a uniform random policy, for each seed, without drawing."""
    rngs = [np.random.default_rng(seed) for seed in range(seeds)]
    chosen = np.stack([rng.integers(5, size=steps) for rng in rngs])
    repeat = np.stack([rng.random(steps) < sticky for rng in rngs])
    pose, segments = np.tile(START, (seeds, 1)), wall_segments()
    executed, cells = chosen[:, 0], np.empty((seeds, steps + 1), dtype=np.int64)
    cells[:, 0] = cell_index(pose[:, 0], pose[:, 1])
    for t in range(steps):
        executed = np.where(repeat[:, t], executed, chosen[:, t])
        advance(pose, executed, segments)
        cells[:, t + 1] = cell_index(pose[:, 0], pose[:, 1])
    return np.array([len(np.unique(row)) for row in cells])


def reference(seeds: int, steps: int) -> None:
    total, free = NMazeVector.maze_cells, NMazeVector.reachable_cells
    print(f"| sticky | noise | cells visited | of {total:,} | of {free:,} reachable | noise steps |")
    print("|---|---|---:|---:|---:|---:|")
    for sticky in (0.0, 0.25):
        visited = cells_visited(sticky, seeds, steps)
        conditions: tuple[Noise, ...] = ("none", "state", "action")
        for noise in conditions:
            share = noise_share(noise, sticky, min(seeds, 10), steps) if noise != "none" else 0.0
            print(
                f"| {sticky} | {noise} | {visited.mean():,.1f} ± {visited.std(ddof=1):.1f} "
                f"| {visited.mean() / total:.1%} | {visited.mean() / free:.1%} | {share:.1%} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--reference", action="store_true", help="coverage of a uniform random policy instead")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50_000)
    settings = parser.parse_args()
    if settings.reference:
        reference(settings.seeds, settings.steps)
    else:
        speed(settings.num_envs)


if __name__ == "__main__":
    main()
