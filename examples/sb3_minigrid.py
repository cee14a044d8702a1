"""Stable-Baselines3's PPO on MiniGrid with rl-baselines3-zoo's hyperparameters, and one line more: the bonus.

    python examples/sb3_minigrid.py                                   # MultiRoom-N4-S5 with LGN
    python examples/sb3_minigrid.py --bonus none --out none.json      # the same without a bonus

The zoo reports a return of 0.000 after 10 million steps on MultiRoom-N4-S5, ObstructedMaze-2Dlh and LockedRoom
(benchmark.md). What differs here beside the bonus: `MiniGridObservation` shows the codes one-hot with the direction,
where the zoo's FlatObsWrapper shows the codes as numbers and the mission's letters one-hot, without the direction; and
VecNormalize scales the rewards only. Divided by its deviation, a 1 that is seen once in a thousand steps becomes 30,
and the network's first layer sees little else: a run with `--norm-obs` learnt nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import minigrid  # noqa: F401  (registers MiniGrid-...)
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from lpm.adapters.sb3 import IntrinsicCallback
from lpm.envs import MiniGridObservation
from lpm.storage.files import write_atomic

NUM_ENVS = 8
ZOO: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 64,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "learning_rate": 2.5e-4,
    "clip_range": 0.2,
}
"""rl-baselines3-zoo, hyperparams/ppo.yml, for all of its MiniGrid tasks but FourRooms and RedBlueDoors, which have 512
steps; with VecNormalize for observations and rewards."""


class Successes(BaseCallback):
    """After every rollout: steps, the share of the last 100 episodes with a reward, their mean return, CPU seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[float] = []
        self.curve: list[tuple[int, float, float, float]] = []
        self.said = 0

    def _on_step(self) -> bool:
        self.returns += [float(info["episode"]["r"]) for info in self.locals["infos"] if "episode" in info]
        return True

    def _on_rollout_end(self) -> None:
        if len(recent := self.returns[-100:]) == 100:
            success = float(np.mean([value > 0 for value in recent]))
            spent = round(time.process_time(), 1)
            self.curve.append((self.num_timesteps, round(success, 3), round(float(np.mean(recent)), 4), spent))
            if self.num_timesteps >= self.said + self.model._total_timesteps // 10:
                self.said = self.num_timesteps
                print(f"step {self.said:>9,}  success {success:.2f}  return {np.mean(recent):.3f}", flush=True)


def run(
    env_id: str, bonus: str, seed: int, steps: int, norm_obs: bool = False, other: type[BaseCallback] | None = None
) -> dict[str, Any]:
    """One training run; its settings and its curve. `other` makes the callback of a bonus that is not lpm's."""
    env = make_vec_env(env_id, n_envs=NUM_ENVS, seed=seed, wrapper_class=MiniGridObservation)
    model = PPO("MlpPolicy", VecNormalize(env, norm_obs=norm_obs, gamma=ZOO["gamma"]), seed=seed, device="cpu", **ZOO)
    successes = Successes()
    callbacks: list[BaseCallback] = [successes]
    if other is not None:
        callbacks.append(other(bonus))  # type: ignore[arg-type]
    elif bonus != "none":
        callbacks.append(IntrinsicCallback(bonus))  # the one line
    model.learn(steps, callback=callbacks)
    solved = next((point for point in successes.curve if point[1] >= 0.9), None)
    own = {"env_id": env_id, "bonus": bonus, "seed": seed, "steps": steps, "norm_obs": norm_obs, "num_envs": NUM_ENVS}
    return {
        "settings": {**own, **ZOO},
        "steps_90": None if solved is None else solved[0],
        "cpu_seconds_90": None if solved is None else solved[3],
        "episodes": len(successes.returns),
        "columns": ["steps", "success", "return", "cpu_seconds"],
        "curve": successes.curve,
    }


def finish(result: dict[str, Any], out: Path | None) -> None:
    """Store a run, if asked, and say how it went."""
    if out is not None:
        write_atomic(out, json.dumps(result).encode())
    solved = result["steps_90"]
    print("90 % of the episodes succeed " + ("never" if solved is None else f"from step {solved:,} on"))


def main() -> None:
    """Train, store, say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", default="MiniGrid-MultiRoom-N4-S5-v0")
    parser.add_argument("--bonus", choices=["none", "lgn"], default="lgn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--norm-obs", action="store_true", help="standardise observations too, as the zoo does")
    parser.add_argument("--out", type=Path, help="a JSON file for settings and curve")
    options = parser.parse_args()
    torch.set_num_threads(1)
    finish(run(options.env_id, options.bonus, options.seed, options.steps, options.norm_obs), options.out)


if __name__ == "__main__":
    main()
