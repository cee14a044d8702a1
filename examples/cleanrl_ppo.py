"""PPO in one file, with a bonus: the style of CleanRL, to be read from top to bottom and copied.

    python examples/cleanrl_ppo.py --env-id MountainCar-v0 --bonus lgn --steps 100000
    python examples/cleanrl_ppo.py --env-id CartPole-v1 --bonus none

Lines marked `# lpm` are what a bonus adds to the file.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

import lpm  # lpm


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
    """Of Adam, falling to 0 over the run."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 4
    """Gradient steps per pass."""
    clip: float = 0.2
    """Bound on how far the probability ratio counts."""
    entropy: float = 0.01
    """Weight of the entropy."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient."""
    bonus: str = "lgn"
    """A bonus of `lpm bonuses`, or "none"."""
    weight: float | None = None
    """How much the bonus counts beside the task; the library's default if left out."""


class Agent(nn.Module):
    """Two small networks: a policy and a value."""

    def __init__(self, obs_dim: int, actions: int) -> None:
        super().__init__()

        def network(out: int, gain: float) -> nn.Sequential:
            layers = [nn.Linear(obs_dim, 64), nn.Linear(64, 64), nn.Linear(64, out)]
            for layer, std in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
                nn.init.orthogonal_(layer.weight, std)
                nn.init.zeros_(layer.bias)
            return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

        self.actor = network(actions, 0.01)
        self.critic = network(1, 1.0)

    def value(self, obs: Tensor) -> Tensor:
        """(..., ) values of observations."""
        return self.critic(obs).squeeze(-1)

    def policy(self, obs: Tensor) -> torch.distributions.Categorical:
        """The distribution over actions."""
        return torch.distributions.Categorical(logits=self.actor(obs), validate_args=False)


def train(args: Args, envs: VectorEnv[Any, Any, Any]) -> Agent:
    """Train an agent on environments whose autoreset mode is SAME_STEP."""
    obs_space, action_space = envs.single_observation_space, envs.single_action_space
    if not isinstance(obs_space, Box) or len(obs_space.shape) != 1 or not isinstance(action_space, Discrete):
        raise ValueError(f"expected vector observations and discrete actions, got {obs_space} and {action_space}")
    if envs.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        raise ValueError("expected environments made with autoreset_mode=AutoresetMode.SAME_STEP; see make_envs")
    torch.manual_seed(args.seed)
    shape = (args.num_steps, envs.num_envs)
    agent = Agent(obs_space.shape[0], int(action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs = torch.zeros(*shape, *obs_space.shape)
    next_obs = torch.zeros_like(obs)
    actions = torch.zeros(shape, dtype=torch.int64)
    log_probs, rewards, values, next_values, advantages = torch.zeros(5, *shape)
    terminated, truncated = torch.zeros(2, *shape, dtype=torch.bool)

    current = torch.as_tensor(envs.reset(seed=args.seed)[0], dtype=torch.float32)
    running, recent = np.zeros(envs.num_envs), deque[float](maxlen=100)
    batch = args.num_steps * envs.num_envs
    iterations, start = max(1, args.steps // batch), time.perf_counter()

    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / iterations)

        # ---- collect
        with torch.no_grad():
            for t in range(args.num_steps):
                policy = agent.policy(current)
                action = policy.sample()
                obs[t], actions[t], log_probs[t] = current, action, policy.log_prob(action)
                after, reward, ended, cut, info = envs.step(action.numpy() + int(action_space.start))
                current = torch.as_tensor(after, dtype=torch.float32)
                done = ended | cut
                # SAME_STEP: where an episode ended, `after` starts the next one, and the true successor is in `info`
                next_obs[t] = current
                for row in np.flatnonzero(done):
                    next_obs[t, row] = torch.as_tensor(info["final_obs"][row], dtype=torch.float32)
                rewards[t] = torch.as_tensor(reward)
                terminated[t], truncated[t] = torch.as_tensor(ended), torch.as_tensor(cut)
                running += reward
                recent.extend(running[done])
                running[done] = 0

        learnt_from = rewards
        if isinstance(envs, lpm.Intrinsic):  # lpm
            learnt_from = envs.add_bonus(rewards)  # lpm

        # ---- advantages
        with torch.no_grad():
            values[:], next_values[:] = agent.value(obs), agent.value(next_obs)
            delta = learnt_from + args.gamma * next_values * ~terminated - values
            carry = torch.zeros(envs.num_envs)
            for t in reversed(range(args.num_steps)):
                carry = delta[t] + args.gamma * args.gae_lambda * ~(terminated[t] | truncated[t]) * carry
                advantages[t] = carry

        # ---- learn
        columns = [x.flatten(0, 1) for x in (obs, actions, log_probs, advantages, advantages + values)]
        for _ in range(args.epochs):
            for rows in torch.randperm(batch).chunk(args.minibatches):
                mb_obs, mb_action, mb_log_prob, mb_advantage, mb_return = (column[rows] for column in columns)
                policy = agent.policy(mb_obs)
                ratio = (policy.log_prob(mb_action) - mb_log_prob).exp()
                scaled = (mb_advantage - mb_advantage.mean()) / (mb_advantage.std() + 1e-8)
                policy_loss = -torch.min(ratio * scaled, ratio.clamp(1 - args.clip, 1 + args.clip) * scaled).mean()
                value_loss = 0.5 * (agent.value(mb_obs) - mb_return).square().mean()
                loss = policy_loss + args.value_coef * value_loss - args.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        if iteration % 10 == 9 or iteration == iterations - 1:
            steps = (iteration + 1) * batch
            task = f"{np.mean(recent):.1f}" if recent else "no episode yet"
            added = f"{(learnt_from - rewards).mean():.4f}"
            speed = f"{steps / (time.perf_counter() - start):.0f} steps/s"
            print(f"{steps} steps  task return {task}  bonus {added}  {speed}")
    reached = f"task return {np.mean(recent):.1f} (last {len(recent)} episodes)" if recent else "no episode ended"
    print(f"reached after {iterations * batch} steps with bonus {args.bonus}: {reached}")
    return agent


def make_envs(args: Args) -> VectorEnv[Any, Any, Any]:
    """The environments of a run."""
    makers = [lambda: gym.make(args.env_id)] * args.num_envs
    return gym.vector.SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


if __name__ == "__main__":
    args = tyro.cli(Args)
    torch.set_num_threads(1)
    envs = make_envs(args)
    if args.bonus != "none":  # lpm
        envs = lpm.Intrinsic(envs, args.bonus, args.weight, rollout_steps=args.num_steps, seed=args.seed)  # lpm
    train(args, envs)
    envs.close()
