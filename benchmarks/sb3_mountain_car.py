"""Stable-Baselines3's PPO and SAC on noisy MountainCar with LGN, with LPM and alone: how much of the states is seen.

    python benchmarks/sb3_mountain_car.py                  # all runs, then the table
    python benchmarks/sb3_mountain_car.py --seeds 0 1 --steps 2000 --out runs/try

Every run writes one JSON file when it ends; runs whose file is there are not run again. Coverage is the share of the
environment's 100 cells of position and velocity that training has visited; the second action freezes the car and
shows noise, and the share of steps that do so is kept as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stored_runs import stored

from lpm.adapters.sb3 import IntrinsicCallback, IntrinsicReplayBuffer, MixerConfig, make_bonus

ENV = "lpm/MountainCar-v0"
CELLS = 100
BONUSES = {"PPO": ("none", "lpm", "lgn"), "SAC": ("none", "lpm", "lgn_lifelong")}  # a replay buffer has no episodes
WEIGHTS = {"PPO": 1.0, "SAC": 10.0}  # SAC weighs rewards against entropy; PPO asks only which are larger
POINTS = 50  # measurements along a run


class Visits(BaseCallback):
    """Counts the cells that training visits and the steps that show noise."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.visits = np.zeros(CELLS, dtype=np.int64)
        self.curve: list[tuple[int, float, float]] = []
        """Steps, coverage so far, and the share of noise since the measurement before."""
        self._noise: list[bool] = []

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        np.add.at(self.visits, [info["cell"] for info in infos], 1)
        self._noise += [bool(info["noise"]) for info in infos]
        if self.num_timesteps >= self.every * (len(self.curve) + 1):
            self.curve.append((self.num_timesteps, float((self.visits > 0).mean()), float(np.mean(self._noise))))
            self._noise.clear()
        return True


def settings_of(algorithm: str, bonus: str, seed: int, steps: int) -> dict[str, Any]:
    """Everything a run depends on."""
    return {"algorithm": algorithm, "bonus": bonus, "seed": seed, "steps": steps, "weight": WEIGHTS[algorithm]}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """One training run; its settings, curve and episodes."""
    torch.set_num_threads(1)
    start = time.process_time()
    seed, on_policy = settings["seed"], settings["algorithm"] == "PPO"
    env = make_vec_env(ENV, n_envs=8 if on_policy else 4, seed=seed, env_kwargs={"noise": True})
    common: dict[str, Any] = {"seed": seed, "device": "cpu", "policy_kwargs": {"net_arch": [64, 64]}}
    mixer = MixerConfig.of_bonus(settings["weight"])  # as the stored runs were made
    visits = Visits(settings["steps"] // POINTS)
    callbacks: list[BaseCallback] = [visits]
    model: BaseAlgorithm
    if on_policy:
        model = PPO("MlpPolicy", env, n_steps=128, batch_size=256, **common)
    else:
        # an entropy coefficient that starts at 1, as by default, drowns any bonus in a run as short as this
        model = SAC(
            "MlpPolicy", env, batch_size=128, buffer_size=50_000, learning_starts=1_000, ent_coef="auto_0.1", **common
        )
    used: dict[str, Any] = {}
    if settings["bonus"] != "none":
        bonus = make_bonus(settings["bonus"], model, rollout_steps=128, seed=seed)
        used = dataclasses.asdict(bonus.config)  # type: ignore[call-overload]
        if on_policy:
            callbacks.append(IntrinsicCallback(bonus, mixer=mixer))
        else:
            IntrinsicReplayBuffer.attach(model, bonus, mixer=mixer)
    model.learn(settings["steps"], callback=callbacks)
    episodes = [float(episode["r"]) for episode in model.ep_info_buffer or []]
    return {
        "settings": settings,
        "bonus_settings": used,
        "curve": visits.curve,
        "returns": episodes,
        "visits": visits.visits.tolist(),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def load_or_run(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The stored result of these settings, or a new one."""
    path = folder / f"{settings['algorithm']}-{settings['bonus']}-{settings['seed']}.json".lower()
    known = path.exists()
    result = stored(path, settings, partial(run, settings))
    if not known:
        print(f"{path.name}: coverage {result['curve'][-1][1]:.0%}, {result['cpu_seconds']} s", flush=True)
    return result


def report(results: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """A row for each algorithm with and without the bonus: mean and range over seeds."""
    rows = [
        "| algorithm | bonus | cells visited, % | noise in the last half, % | task return |",
        "|---|---|---|---|---|",
    ]
    for (algorithm, bonus), runs in results.items():
        seen = [100 * run["curve"][-1][1] for run in runs]
        noise = [100 * np.mean([point[2] for point in run["curve"][POINTS // 2 :]]) for run in runs]
        returns = [np.mean(run["returns"]) for run in runs if run["returns"]]
        task = f"{np.mean(returns):.2f}" if returns else "–"
        spread = f"{np.mean(seen):.1f} [{min(seen):.0f}–{max(seen):.0f}]"
        rows.append(f"| {algorithm} | {bonus} | {spread} | {np.mean(noise):.0f} | {task} |")
    return "\n".join(rows)


def main() -> None:
    """Parse, run what is missing, say what was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", choices=["PPO", "SAC"], default=["PPO", "SAC"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, help="of every run; 50,000 for PPO and 20,000 for SAC if not given")
    parser.add_argument("--out", type=Path, default=Path("results/sb3"))
    options = parser.parse_args()
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for algorithm in options.algorithms:
        steps = options.steps or {"PPO": 50_000, "SAC": 20_000}[algorithm]
        for bonus in BONUSES[algorithm]:
            runs = [load_or_run(settings_of(algorithm, bonus, seed, steps), options.out) for seed in options.seeds]
            results[algorithm, bonus] = runs
    print(report(results))


if __name__ == "__main__":
    main()
