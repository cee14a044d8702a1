"""What the defaults do on tasks that people know: `lpm train` without a bonus and with lgn, beside SB3's PPO.

    python benchmarks/defaults.py --methods none sb3 --seeds 5        # a learner that learns
    python benchmarks/defaults.py --methods none lgn --seeds 5        # a bonus that does no harm
    python benchmarks/defaults.py --methods lgn@0.1 lgn@1 --tasks doorkey-8x8 --seeds 2   # weights chosen by hand

One JSON file a run in results/defaults; a run that is there is not run again. LunarLander needs the package box2d,
HalfCheetah mujoco, MiniGrid minigrid.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box, Discrete
from tqdm import tqdm

from lpm.agents import PPOConfig
from lpm.agents.ppo import PRESETS
from lpm.core.mixer import MixerConfig
from lpm.envs.third_party import find_spec
from lpm.runs.build import build
from lpm.runs.config import RunConfig
from lpm.storage.files import write_atomic

RESULTS = Path(__file__).parents[1] / "results" / "defaults"
SOLVED = 0.9
"""Share of the last 100 episodes that must succeed."""
POINTS = 50
"""Points of a curve."""


class Corridor(gymnasium.Env[Any, Any]):
    """The tutorial's environment: forty cells, a screen that shows noise, the goal at the far end."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """At the near end."""
        super().reset(seed=seed)
        self.place = 0
        return self._seen(0.0), {}

    def step(self, action: int) -> Any:
        """Left, right, or watch the screen."""
        self.place = int(np.clip(self.place + (-1, 1, 0)[action], 0, 39))
        screen = self.np_random.uniform(-1, 1) if action == 2 else 0.0
        found = self.place == 39
        return self._seen(screen), float(found), found, False, {"noise": action == 2}

    def _seen(self, screen: float) -> Any:
        return np.array([self.place / 20 - 1, screen], np.float32)


gymnasium.register("Corridor-v0", Corridor, max_episode_steps=200)


@dataclass(frozen=True)
class Task:
    """An environment and how long to train in it."""

    env_id: str
    steps: int
    agent: PPOConfig = PRESETS["default"]
    env: dict[str, Any] = field(default_factory=dict)


TASKS = {
    "cartpole": Task("CartPole-v1", 60_000),
    "acrobot": Task("Acrobot-v1", 60_000),
    "pendulum": Task("Pendulum-v1", 100_000),
    "lunar-lander": Task("LunarLander-v3", 100_000),
    "half-cheetah": Task("HalfCheetah-v5", 100_000),
    "minigrid-empty": Task("MiniGrid-Empty-8x8-v0", 60_000),
    "corridor": Task("Corridor-v0", 60_000, PRESETS["noisy"]),
    "doorkey-5x5": Task("MiniGrid-DoorKey-5x5-v0", 60_000),
    "doorkey-8x8": Task("MiniGrid-DoorKey-8x8-v0", 150_000),
    "multiroom-n4-s5": Task("MiniGrid-MultiRoom-N4-S5-v0", 200_000),
    "lava-crossing": Task("lpm/LavaCrossing-v0", 200_000),
}


@dataclass(frozen=True)
class Args:
    """Which runs."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """Names of tasks."""
    methods: tuple[str, ...] = ("none", "lgn")
    """none, sb3 (its PPO with its own defaults), a bonus, or bonus@weight."""
    seeds: int = 5
    """Runs of each."""
    first_seed: int = 0
    """Number of the first."""


def train(task: Task, method: str, seed: int) -> dict[str, Any]:
    """A run of `lpm train`: curves of the mean return, success and share of noise of the last 100 episodes."""
    bonus, _, weight = method.partition("@")
    mixer = MixerConfig(weight=float(weight)) if weight else MixerConfig()
    of_run: dict[str, Any] = {"env": task.env, "agent": task.agent, "mixer": mixer}
    agent = build(RunConfig(task.env_id, bonus=bonus, steps=task.steps, seed=seed, **of_run))
    curve: dict[str, list[float]] = {name: [] for name in ("step", "return", "success", "noise_share")}
    while agent.steps < task.steps:
        metrics = agent.cycle()
        if agent.steps * POINTS // task.steps > len(curve["step"]) or agent.steps >= task.steps:
            curve["step"].append(agent.steps)
            for name in ("return", "success", "noise_share"):
                curve[name].append(round(metrics.get(name, 0.0), 4))
    return curve


def train_sb3(task: Task, seed: int) -> dict[str, Any]:
    """Stable-Baselines3's PPO with its own defaults, on the observations that `lpm train` sees."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    find_spec(task.env_id)  # imports the package that registers it
    env = gymnasium.make(task.env_id, **task.env)
    if task.env_id.startswith("MiniGrid-"):
        from lpm.envs.minigrid import MiniGridObservation

        env = MiniGridObservation(env)
    monitor: Any = Monitor(env)
    PPO("MlpPolicy", monitor, seed=seed, device="cpu").learn(task.steps)
    ended, returns = np.cumsum(monitor.get_episode_lengths()), np.array(monitor.get_episode_rewards())
    curve: dict[str, list[float]] = {"step": [], "return": [], "success": []}
    for step in np.linspace(task.steps / POINTS, task.steps, POINTS):
        last = returns[ended <= step][-100:]
        curve["step"].append(int(step))
        curve["return"].append(round(float(last.mean()), 4) if len(last) else 0.0)
        curve["success"].append(round(float((last > 0).mean()), 4) if len(last) else 0.0)
    return curve


def run(task: str, method: str, seed: int) -> None:
    """One run, into its file."""
    path = RESULTS / task / method / f"seed_{seed}.json"
    if path.exists():
        return
    started = process_time()
    curve = train_sb3(TASKS[task], seed) if method == "sb3" else train(TASKS[task], method, seed)
    solved = next((step for step, share in zip(curve["step"], curve["success"], strict=True) if share >= SOLVED), None)
    result = {"task": task, "env_id": TASKS[task].env_id, "method": method, "seed": seed, "steps": TASKS[task].steps}
    result |= {"return": curve["return"][-1], "success": curve["success"][-1], "solved_at": solved}
    result |= {"cpu_seconds": round(process_time() - started, 1), "curve": curve}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(result).encode() + b"\n")


def table() -> str:
    """What there is so far: mean return, success and steps to 90 % of all seeds."""
    rows = []
    for task in TASKS:
        for folder in sorted((RESULTS / task).glob("*")):
            found = [json.loads(file.read_text()) for file in sorted(folder.glob("seed_*.json"))]
            means = [fmean(result[name] for result in found) for name in ("return", "success", "cpu_seconds")]
            steps = " ".join(f"{r['solved_at'] or 0:,}" for r in found)
            each = " ".join(f"{r['return']:.2f}" for r in found)
            rows.append(
                f"{task:16} {folder.name:10} {means[0]:9.2f} {means[1]:5.2f} {means[2]:6.0f} s | {each} | {steps}"
            )
    return "\n".join(rows)


def main(args: Args) -> None:
    """Run what is missing, then show everything."""
    torch.set_num_threads(1)
    jobs: list[tuple[str, str, int]] = [
        (task, method, seed)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for task in args.tasks
        for method in args.methods
    ]
    show: Callable[[Any], Any] = lambda x: tqdm(x, disable=not sys.stderr.isatty())  # noqa: E731
    for job in show(jobs):
        run(*job)
    print(table())


if __name__ == "__main__":
    main(tyro.cli(Args))
