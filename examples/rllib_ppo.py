"""RLlib's PPO with a bonus: one line more than without.

python examples/rllib_ppo.py --env-id MountainCar-v0 --bonus lgn --steps 100000
"""

from __future__ import annotations

from dataclasses import dataclass

import ray
import tyro
from ray.rllib.algorithms.ppo import PPOConfig

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
    weight: float | None = None
    """How much the bonus counts beside the task; the library's default if left out."""


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
    return add_intrinsic(config, args.bonus, args.weight, seed=args.seed)


def train(args: Args) -> dict[str, float]:
    """Train; returns the metrics of the bonus in the last iteration."""
    algorithm = make_config(args).build_algo()
    metrics, task = {}, float("nan")
    batch = args.num_envs * args.num_steps
    iterations = -(-args.steps // batch)
    for iteration in range(iterations):
        result = algorithm.train()
        learner = result["learners"]["default_policy"]
        metrics = {key: float(value) for key, value in learner.items() if key.startswith("intrinsic_")}
        task = result["env_runners"].get("episode_return_mean", float("nan"))
        if iteration % 10 == 9:
            print(
                f"{(iteration + 1) * batch} steps  task return {task:.1f}  bonus {metrics['intrinsic_mixed_mean']:.4f}"
            )
    algorithm.stop()
    bonus = metrics.get("intrinsic_mixed_mean", float("nan"))
    print(f"reached after {iterations * batch} steps: task return {task:.1f}, bonus {bonus:.4f} a step")
    return metrics


if __name__ == "__main__":
    args = tyro.cli(Args)
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    train(args)
    ray.shutdown()
