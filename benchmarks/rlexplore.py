"""RLeXplore's bonuses (package rllte-core) with Stable-Baselines3's PPO on MiniGrid, beside examples/sb3_minigrid.py.

    pip install --no-deps rllte-core==1.0.1 && pip install termcolor pynvml==11.5.0
    python benchmarks/rlexplore.py --bonus RE3 --env-id MiniGrid-MultiRoom-N4-S5-v0 --out re3.json

rllte-core pins matplotlib 3.6.0, seaborn 0.12.2 and huggingface-hub 0.14.1, which its bonuses do not need: `--no-deps`
leaves out these, and it then works beside gymnasium 1. Same learner, settings, observations and steps as for lgn. Its
defaults but one: observations are not standardised, for the reason that is given in the example. Its own notebook adds
the bonus to the advantages; here it is added to the rewards, so that what follows later counts too.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback


class RLeXplore(BaseCallback):
    """A bonus of RLeXplore, added to the rewards of every rollout."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.steps: list[tuple[torch.Tensor, ...]] = []

    def _init_callback(self) -> None:
        from rllte.xplore import reward

        self.source = getattr(reward, self.name)(self.training_env, device="cpu", obs_norm_type="none")

    def _on_step(self) -> bool:
        step = self.locals
        columns = (step["obs_tensor"], step["actions"], step["rewards"], step["dones"], step["new_obs"])
        obs, actions, rewards, dones, new = (torch.as_tensor(column).float().clone() for column in columns)
        self.source.watch(obs, actions, rewards, dones, dones, new)
        self.steps.append((obs, actions, rewards, dones, new))
        return True

    def _on_rollout_end(self) -> None:
        obs, actions, rewards, dones, new = (torch.stack(column) for column in zip(*self.steps, strict=True))
        self.steps.clear()
        names = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
        samples = dict(zip(names, (obs, actions, rewards, dones, dones, new), strict=True))
        bonus = self.source.compute(samples, sync=True)
        model: Any = self.model
        model.rollout_buffer.rewards += bonus.cpu().numpy()
        model.rollout_buffer.compute_returns_and_advantage(self.locals["values"], np.asarray(self.locals["dones"]))


def main() -> None:
    """Train, store, say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", default="MiniGrid-MultiRoom-N4-S5-v0")
    parser.add_argument("--bonus", choices=["RND", "RE3", "E3B"], default="RE3")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--out", type=Path, help="a JSON file for settings and curve")
    options = parser.parse_args()
    if importlib.util.find_spec("rllte") is None:
        sys.exit("rllte-core is not installed: the commands are in this file's first lines")
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from sb3_minigrid import finish, run

    finish(run(options.env_id, options.bonus, options.seed, options.steps, other=RLeXplore), options.out)


if __name__ == "__main__":
    main()
