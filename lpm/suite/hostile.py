"""Worlds that change or mislead in the middle of a run: a lab, not part of the suite's score.

    python -m lpm.suite.hostile --out results/hostile      # runs what is not there; one JSON file a run

The world is 4 x 4 rooms with a fifth action that does not move. Half-way through the run something happens (`WORLDS`).
What is measured in each half: distinct cells visited, the share of steps that showed noise, goals per 1,000 steps.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.agents import PPO
from lpm.agents.ppo import PRESETS
from lpm.core.registry import make
from lpm.core.spaces import Spaces
from lpm.envs.rooms import WATCH, RoomsVector
from lpm.envs.vector import Array, Mask, Outcome
from lpm.storage.files import write_atomic

WORLDS = {
    "calm": "nothing happens",
    "dynamics": "up and down change places, and left and right",
    "tv": "from then on the fifth action shows white noise",
    "heavy tails": "from then on every number has noise of Student's t with 1.5 degrees of freedom",
    "delayed": "the fifth action shows white noise ten steps later; from the start",
    "reward": "the room that pays is another one",
    "drift": "from then on all numbers grow by one range in 10,000 steps",
}
"""Name -> what happens half-way."""
BONUSES = ("none", "lgn", "lpm", "rnd", "icm", "ensemble", "count", "noveld")
STEPS, ENVS, SEEDS, DELAY = 24_576, 16, 3, 10


class HostileRooms(RoomsVector):
    """Rooms in which something happens after `change` steps of all environments together."""

    def __init__(self, world: str, num_envs: int = ENVS, change: int = STEPS // 2) -> None:
        if world not in WORLDS:
            raise ValueError(f"world: expected one of {', '.join(WORLDS)}, got {world!r}")
        super().__init__(num_envs, noise="action")
        self.world, self.change, self.age = world, change, 0
        self._asked = np.full(num_envs, -1, dtype=np.int64)  # steps since the delayed noise was asked for
        self.visited, self.noisy, self.goals = np.zeros((2, self.num_cells), dtype=np.int64), [0, 0], [0, 0]
        row, column = np.divmod(np.arange(self._side**2), self._side)
        pitch = (self._side - 1) // 4
        self._rooms = [(row // pitch == 1) & (column // pitch == 0), (row // pitch == 0) & (column // pitch == 2)]
        self._random = np.random.default_rng(0)

    @property
    def late(self) -> bool:
        """Whether it has happened."""
        return self.age >= self.change

    def _seeded(self, seed: int) -> None:
        super()._seeded(seed)
        self._random = np.random.default_rng(seed)

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        self.age += self.num_envs
        if self.world == "dynamics" and self.late:
            actions = np.where(actions < WATCH, actions ^ 1, actions)
        if self.world == "reward":
            self._goal = self._rooms[self.late] & self.free.ravel()
        outcome = super()._step_rows(actions, active)
        np.add.at(self.visited[int(self.late)], self._cells[self._place], 1)
        self.noisy[self.late] += int(self._shown.sum())
        self.goals[self.late] += int(outcome[1].sum())
        return outcome

    def _look(self, rows: NDArray[np.int64], watching: Mask) -> None:
        if self.world == "delayed":
            self._asked[rows] = np.where(
                watching & (self._asked[rows] < 0), 0, self._asked[rows] + (self._asked[rows] >= 0)
            )
            watching = self._asked[rows] == DELAY
            self._asked[rows[watching]] = -1
        elif self.world != "tv" or not self.late:
            watching = np.zeros_like(watching)
        super()._look(rows, watching)
        if self.late and self.world == "heavy tails":
            self._seen[rows] += 0.05 * self._random.standard_t(1.5, (len(rows), self._width)).astype(np.float32)
        if self.late and self.world == "drift":
            self._seen[rows] += 2 * (self.age - self.change) / 10_000


def run(world: str, bonus: str, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """One agent in one world: what it did before and after."""
    envs = HostileRooms(world, change=steps // 2)
    config = replace(PRESETS["noisy"], num_envs=ENVS)
    intrinsic = make(bonus, Spaces.of(envs), num_envs=ENVS, rollout_steps=config.rollout_steps, seed=seed)
    agent = PPO(envs, intrinsic, config, total_steps=steps, seed=seed)
    paid: list[list[float]] = [[], []]
    while agent.steps < steps:
        late = envs.late
        paid[late].append(agent.cycle().get("bonus/raw_mean", 0.0))
    half = steps / 2
    return {
        "world": world, "bonus": bonus, "seed": seed, "steps": steps,
        "cells": [int(np.count_nonzero(part)) for part in envs.visited],
        "noise_share": [part / half for part in envs.noisy],
        "goals": [1000 * part / half for part in envs.goals],
        "raw_bonus": [fmean(part) if part else 0.0 for part in paid],
    }  # fmt: skip


def rows(results: Sequence[Mapping[str, Any]], metric: str) -> list[list[str]]:
    """One row a bonus: the mean over seeds before → after in every world."""
    table = []
    for bonus in BONUSES:
        cells = []
        for world in WORLDS:
            found = [result[metric] for result in results if result["bonus"] == bonus and result["world"] == world]
            cells.append(" → ".join(f"{fmean(part):.3g}" for part in zip(*found, strict=True)) if found else "")
        table.append([bonus, *cells])
    return table


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the result files")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of each bonus in each world")
    arguments = parser.parse_args()
    for seed in range(arguments.seeds):
        for world in WORLDS:
            for bonus in BONUSES:
                file = arguments.out / world.replace(" ", "_") / bonus / f"seed_{seed}.json"
                if not file.exists():
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(file, (json.dumps(run(world, bonus, seed), indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
