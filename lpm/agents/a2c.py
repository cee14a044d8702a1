"""Advantage actor-critic (synchronous A3C, Mnih et al. 2016) on task reward plus bonus."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lpm.agents.agent import Agent, LearnBatch
from lpm.agents.config import AgentConfig
from lpm.agents.policy import NetworkConfig
from lpm.core.settings import Count, NonNegative, Positive, Unit


@dataclass(frozen=True)
class A2CConfig(AgentConfig):
    """Settings of A2C. The defaults suit small environments; "paper-maze" and "release-maze" hold the LPM paper's."""

    rollout_steps: Count = 16
    """Steps per environment between two updates. Paper (MiniWorld): 64."""
    learning_rate: NonNegative = 2e-3
    """Of RMSprop. Paper (MiniWorld): 0.01."""
    rms_alpha: Unit = 0.99
    """Smoothing of RMSprop."""
    rms_eps: Positive = 3e-3
    """ε of RMSprop, as the original A2C's 1e-5 inside the root. With a small ε the first failure after a long success,
    divided by a vanished mean gradient, throws a solved policy away. LPM release: 1e-8."""
    standardise_returns: bool = False
    """Fit the critic to returns standardised in each block, and take advantages against those (LPM release)."""


_PAPER_MAZE = A2CConfig(
    num_envs=1,
    value_heads=1,
    episodic_bonus=True,
    rollout_steps=64,
    learning_rate=0.01,
    learning_rate_schedule="constant",
    rms_eps=1e-8,
    normalise_advantage=False,
    entropy=0.03,
)
PRESETS: Mapping[str, A2CConfig] = {
    "default": A2CConfig(),
    "noisy": A2CConfig(learning_rate_schedule="constant", network=NetworkConfig(normalise="robust")),
    "published": A2CConfig(value_heads=1, episodic_bonus=True),
    "paper-maze": _PAPER_MAZE,
    "release-maze": replace(_PAPER_MAZE, entropy=0.05, standardise_returns=True),
}


class A2C(Agent):
    """One step of RMSprop on each block."""

    name = "a2c"
    Config = A2CConfig
    clips_parts = False  # RMSprop's large ε makes the length of a step matter: the critic's errors then slow the actor
    config: A2CConfig

    def make_optimizer(self) -> torch.optim.Optimizer:
        c = self.config
        return torch.optim.RMSprop(self.trained, lr=c.learning_rate, alpha=c.rms_alpha, eps=c.rms_eps, foreach=True)

    def learn(self, batch: LearnBatch, entropy: float) -> dict[str, float]:
        """One gradient step on the whole block."""
        c = self.config
        returns, advantage = batch.returns, batch.advantage
        if c.standardise_returns and len(returns) > 1:
            returns = (returns - returns.mean(0)) / (returns.std(0) + 1e-8)
            advantage = (returns - batch.values).sum(-1)
        if c.normalise_advantage and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        columns = (batch.obs, batch.raw_action, returns, advantage)
        obs, raw_action, returns, advantage = map(self.group.share, columns)
        policy, values = self.policy(obs)
        log_prob, entropies = self.policy.actions.log_prob(policy, raw_action)
        policy_loss = -(log_prob * advantage).mean()
        value_loss = 0.5 * (values - returns).square().mean(0).sum()
        numbers = self.descend((policy_loss, value_loss, entropies.mean()), entropy, len(advantage))
        names = ("policy_loss", "value_loss", "entropy", "grad_norm")
        return {f"learn/{name}": value for name, value in zip(names, numbers.tolist(), strict=True)}
