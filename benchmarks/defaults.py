"""What the defaults do on tasks that people know: `lpm train` without a bonus and with lgn, beside SB3's PPO.

    python benchmarks/defaults.py --methods none sb3 --seeds 5        # a learner that learns
    python benchmarks/defaults.py --methods none lgn --seeds 5        # a bonus that does no harm
    python benchmarks/defaults.py --methods lgn@0.1 lgn@1 --tasks doorkey-8x8 --seeds 2   # weights chosen by hand
    python benchmarks/defaults.py --methods lgn@1-maxinfo lgn@1-eipo --tasks doorkey-8x8     # that set themselves
    python benchmarks/defaults.py --methods sb3+lgn --tasks corridor --seeds 3            # through SB3, one line
    python benchmarks/defaults.py --methods sac sac+lgn --tasks pendulum-short corridor-continuous --seeds 3

One JSON file a run in results/defaults; a run that is there is not run again. LunarLander needs the package box2d,
HalfCheetah mujoco, MiniGrid minigrid.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box
from stored_runs import stored
from tqdm import tqdm
from weights import RULES

from lpm.agents import Agent, PPOConfig
from lpm.agents.ppo import PRESETS
from lpm.core.mixer import MixerConfig
from lpm.envs.third_party import find_spec
from lpm.runs.build import build
from lpm.runs.config import RunConfig

RESULTS = Path(__file__).parents[1] / "results" / "defaults"
SOLVED = 0.9
"""Share of the last 100 episodes that must succeed."""
POINTS = 50
"""Points of a curve."""


def _corridor() -> None:
    """Register the environment of the tutorial, which docs/own_environment.md holds, and its form for SAC."""
    page = (RESULTS.parents[1] / "docs" / "own_environment.md").read_text()
    space: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], space)  # registers Corridor-v0
    kind = gymnasium.wrappers.TransformAction

    def continuous(**settings: Any) -> Any:
        """The same for a number in [-1, 1], whose thirds are the three actions."""
        thirds = lambda action: int(np.clip((action[0] + 1) * 1.5, 0, 2))  # noqa: E731
        return kind(space["Corridor"](**settings), thirds, Box(-1, 1, (1,), np.float32))

    gymnasium.register("CorridorContinuous-v0", continuous, max_episode_steps=200)


_corridor()


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
    "mountain-car": Task("MountainCar-v0", 100_000),
    "pendulum": Task("Pendulum-v1", 100_000),
    "pendulum-short": Task("Pendulum-v1", 10_000),
    "lunar-lander": Task("LunarLander-v3", 100_000),
    "half-cheetah": Task("HalfCheetah-v5", 100_000),
    "minigrid-empty": Task("MiniGrid-Empty-8x8-v0", 60_000),
    "corridor": Task("Corridor-v0", 60_000, PRESETS["noisy"]),
    "corridor-continuous": Task("CorridorContinuous-v0", 20_000, PRESETS["noisy"]),
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
    """none, a bonus, bonus@weight or bonus@weight-rule (benchmarks/weights.py) in `lpm train`; sb3: SB3's PPO with its
    own defaults, sb3+BONUS or sb3+BONUS@WEIGHT the same with a bonus in one line; sac and sac+BONUS: SB3's SAC."""
    seeds: int = 5
    """Runs of each."""
    first_seed: int = 0
    """Number of the first."""


def train(task: Task, method: str, seed: int) -> dict[str, Any]:
    """A run of `lpm train`: curves of the mean return, success and share of noise of the last 100 episodes."""
    bonus, _, chosen = method.partition("@")
    weight, _, rule = chosen.partition("-")
    mixer = MixerConfig(weight=float(weight)) if weight else MixerConfig()

    def made(bonus: str, share: float) -> Agent:
        of_run: dict[str, Any] = {"env": task.env, "agent": task.agent, "mixer": mixer}
        return build(RunConfig(task.env_id, bonus=bonus, steps=int(share * task.steps), seed=seed, **of_run))

    run = RULES[rule](made, bonus)
    curve: dict[str, list[float]] = {name: [] for name in ("step", "return", "success", "noise_share", "weight")}
    while run.steps < task.steps:
        metrics = run.cycle() | {"weight": run.agent.mixer.config.weight}
        if run.steps * POINTS // task.steps > len(curve["step"]) or run.steps >= task.steps:
            curve["step"].append(run.steps)
            for name in ("return", "success", "noise_share", "weight"):
                curve[name].append(round(metrics.get(name, 0.0), 4))
    return curve


def train_sb3(task: Task, method: str, seed: int) -> dict[str, Any]:
    """Stable-Baselines3's PPO or SAC with its own defaults, on the observations that `lpm train` sees."""
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.monitor import Monitor

    from lpm.adapters.sb3 import IntrinsicCallback, IntrinsicReplayBuffer

    find_spec(task.env_id)  # imports the package that registers it
    env = gymnasium.make(task.env_id, **task.env)
    if task.env_id.startswith("MiniGrid-"):
        from lpm.envs.minigrid import MiniGridObservation

        env = MiniGridObservation(env)
    noise: list[bool] = []
    monitor: Any = Monitor(_Noise(env, noise))
    learner, _, chosen = method.partition("+")
    bonus, _, weight = chosen.partition("@")
    options: dict[str, Any] = {"seed": seed, **({"weight": float(weight)} if weight else {})}
    if learner == "sac":
        model: Any = SAC("MlpPolicy", monitor, seed=seed, device="cpu")
        if bonus:
            IntrinsicReplayBuffer.attach(model, bonus, **options)
        model.learn(task.steps)
    else:
        model = PPO("MlpPolicy", monitor, seed=seed, device="cpu")
        model.learn(task.steps, callback=IntrinsicCallback(bonus, **options) if bonus else None)
    ended, returns = np.cumsum(monitor.get_episode_lengths()), np.array(monitor.get_episode_rewards())
    curve: dict[str, list[float]] = {"step": [], "return": [], "success": [], "noise_share": []}
    for step in np.linspace(task.steps / POINTS, task.steps, POINTS):
        last = returns[ended <= step][-100:]
        curve["step"].append(int(step))
        curve["return"].append(round(float(last.mean()), 4) if len(last) else 0.0)
        curve["success"].append(round(float((last > 0).mean()), 4) if len(last) else 0.0)
        curve["noise_share"].append(round(float(np.mean(noise[: int(step)][-1000:])), 4))
    return curve


class _Noise(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes which steps showed noise."""

    def __init__(self, env: Any, steps: list[bool]) -> None:
        super().__init__(env)
        self.steps = steps

    def step(self, action: Any) -> Any:
        """As the environment."""
        outcome = self.env.step(action)
        self.steps.append(bool(outcome[4].get("noise", False)))
        return outcome


def run(task: str, method: str, seed: int) -> dict[str, Any]:
    """One run."""
    started = process_time()
    of_sb3 = method.partition("+")[0] in ("sb3", "sac")
    curve = (train_sb3 if of_sb3 else train)(TASKS[task], method, seed)
    solved = next((step for step, share in zip(curve["step"], curve["success"], strict=True) if share >= SOLVED), None)
    result = {"task": task, "env_id": TASKS[task].env_id, "method": method, "seed": seed, "steps": TASKS[task].steps}
    result |= {"return": curve["return"][-1], "success": curve["success"][-1], "solved_at": solved}
    return result | {"cpu_seconds": round(process_time() - started, 1), "curve": curve}


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
    for task, method, seed in show(jobs):
        path = RESULTS / task / method / f"seed_{seed}.json"
        stored(path, {"steps": TASKS[task].steps}, partial(run, task, method, seed))
    print(table())


if __name__ == "__main__":
    main(tyro.cli(Args))
