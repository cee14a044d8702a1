"""A plain Gymnasium loop with a bonus: the wrapper returns the mixed reward, and both rewards in `info`.

The agent is the smallest there is: it keeps, for each environment, the sequence of actions that earned most so far and
tries small changes of it. It learns from nothing but the reward that the loop returns.

python examples/gymnasium_loop.py --bonus lgn --steps 80000
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

import lpm.envs  # noqa: F401  (registers lpm/MountainCar-v0)
from lpm.adapters.gymnasium import IntrinsicVectorReward

HOLD = 10  # steps


def main() -> None:
    """Run, say what was seen and earned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bonus", default="lgn", help="a name of `lpm bonuses`")
    parser.add_argument("--weight", type=float, help="of the bonus; the library's default if left out")
    parser.add_argument("--steps", type=int, default=80_000, help="of all environments, in whole episodes")
    parser.add_argument("--length", type=int, default=200, help="steps of an episode")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)

    envs = gymnasium.make_vec(
        "lpm/MountainCar-v0",
        num_envs=options.num_envs,
        noise=True,
        max_episode_steps=options.length,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    envs = IntrinsicVectorReward(envs, options.bonus, options.weight, rollout_steps=options.length)

    visited = np.zeros(100, dtype=bool)
    shape = (options.length, options.num_envs, 2)
    best, best_return = np.zeros(shape, np.float32), np.full(options.num_envs, -np.inf)
    task = 0.0
    envs.reset(seed=options.seed)
    for _ in range(max(1, options.steps // (options.length * options.num_envs))):
        # changes that last: the car swings too slowly for anything else
        change = rng.normal(size=(len(best) // HOLD + 1, options.num_envs, 2)).repeat(HOLD, axis=0)[: len(best)]
        plan = np.clip(best + 0.5 * change, -1, 1).astype(np.float32)
        earned = np.zeros(options.num_envs)
        for actions in plan:
            _, reward, _, _, info = envs.step(actions)
            earned += reward
            task += float(info["extrinsic_reward"].sum())
            visited[info["cell"]] = True
        better = earned > best_return
        best[:, better], best_return[better] = plan[:, better], earned[better]
        best_return -= 0.1 * np.abs(best_return)  # the bonus of a plan fades as it becomes familiar
    print(
        f"reached after {envs.steps} steps: {visited.mean():.0%} of the cells visited, task reward {task:.0f}",
        envs.metrics,
    )


if __name__ == "__main__":
    main()
