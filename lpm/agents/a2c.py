"""Advantage actor-critic (synchronous A3C, Mnih et al. 2016) on task reward plus bonus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from lpm.agents.agent import Agent, Batch, explained_variance
from lpm.agents.collect import Envs
from lpm.agents.mixer import MixerConfig, Schedule, scheduled
from lpm.agents.policy import NetworkConfig
from lpm.core.bonus import IntrinsicReward


@dataclass(frozen=True)
class A2CConfig:
    """Settings of A2C. The defaults suit small environments; "paper-maze" and "release-maze" hold the LPM paper's."""

    num_envs: int = 8
    """Parallel environments. Paper (MiniWorld): 1."""
    rollout_steps: int = 16
    """Steps per environment between two updates. Paper (MiniWorld): 64."""
    learning_rate: float = 2e-3
    """Of RMSprop. Paper (MiniWorld): 0.01."""
    learning_rate_schedule: Schedule = "linear"
    """How the learning rate moves to `final_learning_rate` over the run. Once values are right, advantages are mostly
    noise; a rate that stays high then walks away from a good policy. LPM release: constant."""
    final_learning_rate: float = 0.0
    """The learning rate at the end, unless the schedule is "constant"."""
    rms_alpha: float = 0.99
    """Smoothing of RMSprop."""
    rms_eps: float = 3e-3
    """ε of RMSprop, as the original A2C's 1e-5 inside the root. With a small ε the first failure after a long success,
    divided by a vanished mean gradient, throws a solved policy away. LPM release: 1e-8."""
    gamma: float = 0.99
    """Discount of the task's reward (with one head: of the sum)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation; 1: n-step returns. Paper: not stated; release: 0.95."""
    value_coef: float = 0.5
    """Weight of the value loss (half the mean squared error, summed over heads)."""
    entropy: float = 0.0
    """Weight of the entropy bonus. Paper (MiniWorld): 0.03; release: 0.05."""
    entropy_schedule: Schedule = "constant"
    """How the entropy weight moves to `final_entropy` over the run."""
    final_entropy: float = 0.0
    """The entropy weight at the end, unless the schedule is "constant"."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient."""
    normalise_advantage: bool = True
    """Standardise advantages in each block. Without it the size of policy steps follows the size of the critic's
    errors, and a solved policy is lost again. LPM release: no."""
    standardise_returns: bool = False
    """Fit the critic to returns standardised in each block, and take advantages against those (LPM release)."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The networks."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"A2CConfig.{name}: expected at least 1, got {getattr(self, name)}")


PRESETS: Mapping[str, A2CConfig] = {
    "default": A2CConfig(),
    "paper-maze": A2CConfig(
        num_envs=1,
        rollout_steps=64,
        learning_rate=0.01,
        learning_rate_schedule="constant",
        rms_eps=1e-8,
        gae_lambda=0.95,
        normalise_advantage=False,
        entropy=0.03,
    ),
    "release-maze": A2CConfig(
        num_envs=1,
        rollout_steps=64,
        learning_rate=0.01,
        learning_rate_schedule="constant",
        rms_eps=1e-8,
        gae_lambda=0.95,
        normalise_advantage=False,
        entropy=0.05,
        standardise_returns=True,
    ),
}


class A2C(Agent):
    """Collect, score, mix, estimate advantages, one gradient step: `cycle` says it in this order."""

    name = "a2c"
    clips_parts = False  # RMSprop's large ε makes the length of a step matter: the critic's errors then slow the actor

    def __init__(
        self,
        envs: Envs,
        bonus: IntrinsicReward | None = None,
        config: A2CConfig | None = None,
        mixer: MixerConfig | None = None,
        *,
        total_steps: int,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self.config = config or A2CConfig()
        super().__init__(
            envs, bonus, self.config, mixer or MixerConfig(), total_steps=total_steps, seed=seed, device=device
        )
        c = self.config
        self.optimizer = torch.optim.RMSprop(
            self.trained, lr=c.learning_rate, alpha=c.rms_alpha, eps=c.rms_eps, foreach=True
        )

    def cycle(self) -> dict[str, float]:
        """One block and one gradient step."""
        c, progress = self.config, self.progress
        block = self.collector.collect(self.policy, self.generator, uniform=self.uniform)
        with self.timed("bonus"):
            raw = self.raw_bonus(block)
        streams = self.mixer.mix(block.reward, raw, block.valid, progress)
        metrics = self.report(block, raw, streams)
        if not self.uniform:
            with self.timed("learn"):
                batch = self.batch(block, streams)
                rate = scheduled(c.learning_rate_schedule, c.learning_rate, c.final_learning_rate, progress)
                entropy = scheduled(c.entropy_schedule, c.entropy, c.final_entropy, progress)
                metrics |= self._learn(batch, rate, entropy)
                self.renew_statistics(batch.obs)
        with self.timed("bonus"):
            metrics |= self.learn_bonus()
        return metrics

    def _learn(self, batch: Batch, rate: float, entropy: float) -> dict[str, float]:
        c = self.config
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        returns, advantage = batch.returns, batch.advantage
        if c.standardise_returns and len(returns) > 1:
            returns = (returns - returns.mean(0)) / (returns.std(0) + 1e-8)
            advantage = (returns - batch.values).sum(-1)
        if c.normalise_advantage and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy, values = self.policy.learn_from(batch.obs)
        log_prob, entropies = self.policy.choose.log_prob(policy, batch.choice)
        policy_loss = -(log_prob * advantage).mean()
        value_loss = 0.5 * (values - returns).square().mean(0).sum()
        mean_entropy = entropies.mean()
        loss = policy_loss + c.value_coef * value_loss - entropy * mean_entropy
        named = {"policy loss": policy_loss, "value loss": value_loss, "entropy": mean_entropy}
        norm = self.descend(loss, named, c.max_grad_norm)
        names = ("policy_loss", "value_loss", "entropy", "grad_norm")
        numbers = torch.stack([policy_loss, value_loss, mean_entropy, norm]).tolist()
        metrics = {f"learn/{name}": value for name, value in zip(names, numbers, strict=True)}
        metrics["learn/learning_rate"] = rate
        metrics["learn/explained_variance"] = explained_variance(batch)
        return metrics
