"""TorchRL's PPO with a bonus: Collector, GAE and ClipPPOLoss, and three lines for the bonus.

python examples/torchrl_ppo.py --env-id MountainCar-v0 --bonus lgn --steps 100000
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import tyro
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, GymEnv, SerialEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from lpm.adapters.torchrl import IntrinsicLoss, IntrinsicTransform, spaces_of


@dataclass(frozen=True)
class Args:
    """Settings, each also a flag on the command line."""

    env_id: str = "MountainCar-v0"
    """A Gymnasium id with vector observations and discrete actions."""
    seed: int = 1
    """Of everything."""
    steps: int = 100_000
    """Environment steps of the run."""
    num_envs: int = 8
    """Parallel environments."""
    num_steps: int = 128
    """Steps per environment between two updates."""
    learning_rate: float = 1e-3
    """Of Adam."""
    epochs: int = 4
    """Passes over each batch."""
    minibatches: int = 4
    """Gradient steps per pass."""
    bonus: str = "lgn"
    """A bonus of `lpm bonuses`."""
    weight: float | None = None
    """How much the bonus counts beside the task; the library's default if left out."""


def make_env(args: Args) -> EnvBase:
    """The environments of a run."""
    return SerialEnv(args.num_envs, lambda: GymEnv(args.env_id, categorical_action_encoding=True))


def train(args: Args, env: EnvBase) -> tuple[nn.Module, IntrinsicTransform]:
    """Train a policy; returns it and the transform that holds the bonus."""
    torch.manual_seed(args.seed)
    env.set_seed(args.seed)
    spaces = spaces_of(env)
    if spaces.kind != "vector" or spaces.action_kind != "discrete":
        raise ValueError(f"expected vector observations and discrete actions, got {spaces}")
    inputs, choices = spaces.input_shape[0], spaces.factors[0]
    logits = MLP(in_features=inputs, out_features=choices, num_cells=[64, 64], activation_class=nn.Tanh)
    policy = ProbabilisticActor(
        TensorDictModule(logits, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    value = ValueOperator(MLP(in_features=inputs, out_features=1, num_cells=[64, 64], activation_class=nn.Tanh))
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value)
    loss = ClipPPOLoss(policy, value, clip_epsilon=0.2, entropy_coeff=0.01, normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=args.learning_rate)

    transform = IntrinsicTransform.of(env, args.bonus, args.weight, rollout_steps=args.num_steps, seed=args.seed)
    learn_bonus = IntrinsicLoss(transform)

    frames = args.num_envs * args.num_steps
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames,
        total_frames=args.steps,
        postproc=transform,
        auto_register_policy_transforms=False,
    )
    steps = task = added = 0.0
    for iteration, batch in enumerate(collector):
        advantage(batch)  # after the bonus is in the reward
        rows = batch.reshape(-1)
        for _ in range(args.epochs):
            for index in torch.randperm(frames).chunk(args.minibatches):
                losses = loss(rows[index])
                total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        learn_bonus(batch)  # once per batch
        steps += frames
        task, added = (float(batch["next", key].mean()) for key in ("extrinsic_reward", "intrinsic_reward"))
        if iteration % 10 == 9:
            print(f"{steps:.0f} steps  task reward {task:.3f}  bonus {added:.4f}")
    collector.shutdown()
    print(f"reached after {steps:.0f} steps: task reward {task:.3f} a step, bonus {added:.4f}")
    return policy, transform


if __name__ == "__main__":
    args = tyro.cli(Args)
    torch.set_num_threads(1)
    train(args, make_env(args))
