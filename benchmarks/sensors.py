"""Sensors that jitter, in Stable-Baselines3's PPO and SAC: what is explored without noise, with it, with a TV.

    pip install gymnasium-robotics==1.4.2 "mujoco<4"      # for the maze
    python benchmarks/sensors.py                          # PPO in both tasks
    python benchmarks/sensors.py --learners sac --tasks maze --bonuses none rnd lgn_lifelong --seeds 1

Tasks: MountainCar, and PointMaze (Gymnasium-Robotics): a ball that starts in one corner of the medium maze; the goal is
in the opposite one. "noise": Gaussian, its deviation 5 % of the range of each number. "tv": one more dimension of the
action; above 0 it shows uniform noise. Counted are the cells that training visits and the episodes that succeed. One
JSON file a run in results/sensors; a run that is there is not run again.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stored_runs import stored
from tqdm import tqdm

import lpm.envs  # noqa: F401  (registers lpm/...)
from lpm.adapters.sb3 import IntrinsicCallback, IntrinsicReplayBuffer
from lpm.envs.noise import NoiseConfig, NoisyEnv

RESULTS = Path(__file__).parents[1] / "results" / "sensors"
SHARE = 0.05
"""Of the range of a number: the deviation of its noise."""
CORNERS = [
    [1, 1, 1, 1, 1, 1, 1, 1],
    [1, "r", 0, 1, 1, 0, 0, 1],
    [1, 0, 0, 1, 0, 0, 0, 1],
    [1, 1, 0, 0, 0, 1, 1, 1],
    [1, 0, 0, 1, 0, 0, 0, 1],
    [1, 0, 1, 0, 0, 1, 0, 1],
    [1, 0, 0, 0, 1, 0, "g", 1],
    [1, 1, 1, 1, 1, 1, 1, 1],
]
"""The medium maze of Gymnasium-Robotics with one start and one goal."""
STEPS = {("car", "ppo"): 30_000, ("maze", "ppo"): 100_000, ("maze", "sac"): 15_000}
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 128, "batch_size": 256},
    # an entropy coefficient that starts at 1, as by default, drowns any bonus in a run as short as this
    "sac": {"learning_starts": 1_000, "ent_coef": "auto_0.1"},
}
ENVS = {"ppo": 8, "sac": 1}
NOISE = ("none", "noise", "tv")


class Maze(gymnasium.Wrapper[Any, Any, Any, Any]):
    """PointMaze whose observation is position and velocity: the goal is always the same."""

    RANGE = np.array([3.0, 3.0, 5.0, 5.0], dtype=np.float32)
    """Largest absolute position inside the walls, and the bound of the velocity."""

    def __init__(self) -> None:
        if importlib.util.find_spec("gymnasium_robotics") is None:
            sys.exit('the maze needs gymnasium-robotics: pip install gymnasium-robotics==1.4.2 "mujoco<4"')
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of environments that are not used here
            import gymnasium_robotics

            gymnasium.register_envs(gymnasium_robotics)
            super().__init__(
                gymnasium.make("PointMaze_Medium-v3", maze_map=CORNERS, continuing_task=False, max_episode_steps=300)
            )
        self.observation_space = Box(-self.RANGE, self.RANGE)

    def reset(self, **options: Any) -> Any:
        """Position and velocity at the start."""
        observation, info = self.env.reset(**options)
        return self._seen(observation), info

    def step(self, action: Any) -> Any:
        """The true cell, a quarter of a square of the maze, is in the info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = self._seen(observation)
        x, y = np.clip(((seen[:2] + 3) * 2).astype(int), 0, 11).tolist()
        return seen, reward, terminated, truncated, {**info, "cell": 12 * x + y}

    def _seen(self, observation: Any) -> Any:
        return np.clip(observation["observation"], -self.RANGE, self.RANGE).astype(np.float32)


class Sensors(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds Gaussian noise to every number, its deviation a share of the number's range."""

    def __init__(self, env: gymnasium.Env[Any, Any], share: float = SHARE) -> None:
        super().__init__(env)
        box: Any = env.observation_space
        self.deviation = share * (box.high - box.low)
        self.observation_space = Box(-np.inf, np.inf, box.shape, np.float32)
        self._random = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """A seed seeds the noise as well."""
        if seed is not None:
            self._random = np.random.default_rng([seed, 1])
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
        """The reading."""
        return (observation + self.deviation * self._random.standard_normal(observation.shape)).astype(np.float32)


def make(task: str, noise: str) -> gymnasium.Env[Any, Any]:
    """A task with its noise."""
    if task == "car":
        env: Any = gymnasium.make("lpm/MountainCar-v0", noise=noise == "tv")
    else:
        env = Maze()
        if noise == "tv":
            env = NoisyEnv(env, NoiseConfig(trigger="action", source="uniform", added_actions=1))
    return Sensors(env) if noise == "noise" else env


class Seen(BaseCallback):
    """Cells that were visited, episodes that succeeded, and steps in front of the TV."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: set[int] = set()
        self.episodes: list[float] = []
        self.noisy: list[bool] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            self.cells.add(int(info["cell"]))
            self.noisy.append(bool(info.get("noise", False)))
            if "episode" in info:
                self.episodes.append(float(info["episode"]["r"]))
        return True


def run(task: str, noise: str, learner: str, bonus: str, seed: int, steps: int) -> dict[str, Any]:
    """One training run."""
    started = process_time()
    env = make_vec_env(lambda: make(task, noise), n_envs=ENVS[learner], seed=seed)
    kind: Any = {"ppo": PPO, "sac": SAC}[learner]
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **SETTINGS[learner])
    seen = Seen()
    callbacks: list[BaseCallback] = [seen]
    if bonus != "none" and learner == "ppo":
        callbacks.append(IntrinsicCallback(bonus, seed=seed))
    elif bonus != "none":
        IntrinsicReplayBuffer.attach(model, bonus, seed=seed)
    model.learn(steps, callback=callbacks)
    recent = seen.episodes[-100:]
    settings = {"task": task, "noise": noise, "learner": learner, "bonus": bonus, "seed": seed, "steps": steps}
    return {
        "settings": {**settings, **SETTINGS[learner], "num_envs": ENVS[learner]},
        "cells": len(seen.cells),
        "success": float(np.mean([value > 0 for value in recent])) if recent else 0.0,
        "noise_share": float(np.mean(seen.noisy)),
        "cpu_seconds": round(process_time() - started, 1),
    }


@dataclass(frozen=True)
class Args:
    """Which runs."""

    tasks: tuple[str, ...] = ("car", "maze")
    """car, maze."""
    noise: tuple[str, ...] = NOISE
    """none, noise (of the sensors), tv."""
    learners: tuple[str, ...] = ("ppo",)
    """ppo, sac."""
    bonuses: tuple[str, ...] = ("none", "rnd", "lgn", "lgn_lifelong")
    """Names of bonuses, or none."""
    seeds: int = 3
    """Runs of each."""
    out: Path = RESULTS
    """Folder of the results."""
    steps: int | None = None
    """Of a run, if not as in the stored ones."""


def main(args: Args) -> None:
    """Run what is missing, then show everything."""
    torch.set_num_threads(1)
    jobs = [
        (task, noise, learner, bonus, seed)
        for seed in range(args.seeds)
        for learner in args.learners
        for task in args.tasks
        for noise in args.noise
        for bonus in args.bonuses
    ]
    for job in tqdm(jobs, disable=not sys.stderr.isatty()):
        steps = args.steps or STEPS[job[0], job[2]]
        result = stored(args.out / ("-".join(map(str, job)) + ".json"), {"steps": steps}, partial(run, *job, steps))
        shown = {name: result[name] for name in ("cells", "success", "noise_share", "cpu_seconds")}
        print("-".join(map(str, job)), shown, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Args))
