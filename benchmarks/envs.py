"""Steps per second of the environments beside what they replace, measured in one run.

    python benchmarks/envs.py [--rounds 5]

Each pair is timed in turns, in many short rounds, and the best round of each counts, as `timeit` recommends: other
work on the machine can only slow a round down. One process, random actions drawn beforehand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

import lpm.envs  # noqa: F401
from lpm.utils.versions import pip_install

NUM_ENVS = 16


class Timed:
    """An environment and a list of batches of actions for it."""

    def __init__(self, env: Any, num_actions: int | None = None, batches: int = 64) -> None:
        self.env = env
        env.action_space.seed(0)
        if num_actions is None:
            self.actions = [env.action_space.sample() for _ in range(batches)]
        else:
            self.actions = list(np.random.default_rng(0).integers(0, num_actions, (batches, env.num_envs)))
        env.reset(seed=0)
        self.run(batches)

    def run(self, steps: int) -> float:
        """Environment steps per second over so many vector steps."""
        step, actions = self.env.step, self.actions
        begin = time.perf_counter()
        for index in range(steps):
            step(actions[index % len(actions)])
        return float(steps * self.env.num_envs / (time.perf_counter() - begin))


def compare(name: str, ours: Timed, theirs: Timed, steps: tuple[int, int], rounds: int, target: str) -> None:
    pairs = [(ours.run(steps[0]), theirs.run(steps[1])) for _ in range(rounds)]
    a, b = (max(rates) for rates in zip(*pairs, strict=True))
    print(f"{name:52s} {a:12,.0f} {b:12,.0f} {a / b:8.2f}x   {target}", flush=True)
    ours.env.close()
    theirs.env.close()


def mountain_car(rounds: int) -> None:
    for num_envs, noise in ((NUM_ENVS, False), (NUM_ENVS, True), (64, False), (256, False)):
        ours = Timed(gymnasium.make_vec("lpm/MountainCar-v0", num_envs=num_envs, noise=noise))
        theirs = Timed(gymnasium.make_vec("MountainCarContinuous-v0", num_envs=num_envs, vectorization_mode="sync"))
        name = f"MountainCar n={num_envs} noise={noise} / SyncVectorEnv"
        compare(name, ours, theirs, (1_000, 20), 10 * rounds, ">= 50x" if num_envs == NUM_ENVS else "")


def lava_crossing(rounds: int) -> None:
    import minigrid  # noqa: F401  (registers its ids)

    ours = Timed(gymnasium.make_vec("lpm/LavaCrossing-v0", num_envs=NUM_ENVS))
    theirs = Timed(gymnasium.make_vec("MiniGrid-LavaCrossingS9N1-v0", num_envs=NUM_ENVS, vectorization_mode="sync"))
    compare("LavaCrossing / minigrid in SyncVectorEnv", ours, theirs, (200, 4), 10 * rounds, ">= 5x")


def atari(rounds: int) -> None:
    from ale_py.vector_env import AtariVectorEnv

    images = np.random.default_rng(0).integers(0, 256, (1_000, 32, 32, 3), dtype=np.uint8)
    settings: dict[str, Any] = {"game": "space_invaders", "num_envs": NUM_ENVS}
    for noise in (False, True):
        more = {"noise": True, "images": images} if noise else {"noise": False}
        ours = Timed(gymnasium.make_vec("lpm/Atari-v0", **settings, **more))
        theirs = Timed(AtariVectorEnv(**settings, reward_clipping=False, use_fire_reset=False), num_actions=6)
        compare(f"Atari noise={noise} / bare AtariVectorEnv", ours, theirs, (20, 20), 5 * rounds, "")


def maze(rounds: int) -> None:
    timed = Timed(gymnasium.make_vec("lpm/NMaze-v0", num_envs=NUM_ENVS))
    rate = max(timed.run(20) for _ in range(5 * rounds))
    print(f"{'NMaze 160x120 (ratios: benchmarks/maze.py)':52s} {rate:12,.0f} {'':12s} {'':9s}  >= 5,000/s", flush=True)


PARTS: dict[str, tuple[Callable[[int], None], str, str]] = {
    "mountain_car": (mountain_car, "numpy", ""),
    "lava": (lava_crossing, "minigrid", "minigrid"),
    "atari": (atari, "ale_py", "atari"),
    "maze": (maze, "numba", "maze"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps per second of the environments.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    title = f"{NUM_ENVS} environments unless n says otherwise"
    print(f"{title:52s} {'ours/s':>12s} {'theirs/s':>12s} {'ratio':>9s}   target")
    for name in options.only:
        run, module, extra = PARTS[name]
        if find_spec(module) is None:
            print(f"{name}: left out, needs {pip_install(extra)}")
        else:
            run(options.rounds)


if __name__ == "__main__":
    main()
