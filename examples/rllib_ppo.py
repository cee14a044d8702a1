"""RLlib's PPO with a bonus: one line more than without.

python examples/rllib_ppo.py --env-id MountainCar-v0 --bonus lgn --weight 0.5 --steps 100000
"""

from __future__ import annotations

from dataclasses import dataclass

import ray
import tyro
from ray.rllib.algorithms.ppo import PPOConfig

from lpm import MixerConfig
from lpm.adapters.rllib import add_intrinsic


@dataclass(frozen=True)
class Args:
    """Settings, each also a flag on the command line."""

    env_id: str = "MountainCar-v0"
    """A Gymnasium id."""
    seed: int = 1
    """Of everything."""
    steps: int = 100_000
    """Environment steps of the run, rounded up to whole batches."""
    num_envs: int = 8
    """Parallel environments, all in this process."""
    num_steps: int = 128
    """Steps per environment between two updates."""
    bonus: str = "lgn"
    """A bonus of `lpm bonuses`."""
    weight: float = 0.5
    """What the normalised bonus is multiplied by."""


def make_config(args: Args) -> PPOConfig:
    """PPO with a bonus."""
    batch = args.num_envs * args.num_steps
    config = (
        PPOConfig()
        .environment(args.env_id)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=args.num_envs)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=batch, minibatch_size=batch // 4, num_epochs=4, lr=1e-3)
        .debugging(seed=args.seed)
    )
    return add_intrinsic(config, args.bonus, MixerConfig(weight=args.weight), seed=args.seed)


def train(args: Args) -> dict[str, float]:
    """Train; returns what the last iteration paid."""
    algorithm = make_config(args).build_algo()
    paid, task = {}, float("nan")
    batch = args.num_envs * args.num_steps
    iterations = -(-args.steps // batch)
    for iteration in range(iterations):
        result = algorithm.train()
        learner = result["learners"]["default_policy"]
        paid = {key: float(value) for key, value in learner.items() if key.startswith("intrinsic_")}
        task = result["env_runners"].get("episode_return_mean", float("nan"))
        if iteration % 10 == 9:
            print(f"{(iteration + 1) * batch} steps  task return {task:.1f}  bonus {paid['intrinsic_mixed_mean']:.4f}")
    algorithm.stop()
    bonus = paid.get("intrinsic_mixed_mean", float("nan"))
    print(f"reached after {iterations * batch} steps: task return {task:.1f}, bonus {bonus:.4f} a step")
    return paid


if __name__ == "__main__":
    args = tyro.cli(Args)
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    train(args)
    ray.shutdown()
