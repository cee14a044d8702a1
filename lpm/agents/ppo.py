"""Proximal Policy Optimisation (Schulman et al. 2017) on task reward plus bonus."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from lpm.agents.agent import Agent, Batch, explained_variance
from lpm.agents.collect import Envs
from lpm.agents.mixer import MixerConfig, Schedule, scheduled
from lpm.agents.policy import NetworkConfig
from lpm.core.bonus import IntrinsicReward


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO. The defaults suit small environments; the preset "paper-atari" holds the LPM paper's."""

    num_envs: int = 8
    """Parallel environments. Paper (Atari): 64."""
    rollout_steps: int = 128
    """Steps per environment between two updates. Paper (Atari): 128."""
    epochs: int = 4
    """Passes over each block. Paper (Atari): 3."""
    minibatches: int = 4
    """Gradient steps per pass. Paper (Atari): 8."""
    learning_rate: float = 1e-3
    """Of Adam. Paper (Atari): 1e-4."""
    learning_rate_schedule: Schedule = "linear"
    """How the learning rate moves to `final_learning_rate` over the run. Once values are right, advantages are mostly
    noise; a rate that stays high then walks away from a good policy. LPM release: constant."""
    final_learning_rate: float = 0.0
    """The learning rate at the end, unless the schedule is "constant"."""
    adam_eps: float = 1e-5
    """ε of Adam."""
    gamma: float = 0.99
    """Discount of the task's reward (with one head: of the sum)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    clip: float = 0.2
    """Bound on how far the probability ratio counts. Paper (Atari): 0.1."""
    value_clip: float | None = None
    """Bound on how far a value may move in one update. LPM release: 0.1."""
    value_coef: float = 0.5
    """Weight of the value loss (half the mean squared error, summed over heads)."""
    entropy: float = 0.01
    """Weight of the entropy bonus. Paper (Atari): 0.001."""
    entropy_schedule: Schedule = "constant"
    """How the entropy weight moves to `final_entropy` over the run."""
    final_entropy: float = 0.0
    """The entropy weight at the end, unless the schedule is "constant"."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient: of actor and critic each, or of both where they share convolutions."""
    normalise_advantage: bool = True
    """Standardise advantages in each minibatch."""
    target_kl: float | None = None
    """Stop the passes over a block once the policy has moved this far (mean KL)."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The networks."""
    compile: Literal["off", "default", "reduce-overhead"] = "off"
    """torch.compile of the loss; "reduce-overhead" uses CUDA graphs. Worth it on a GPU, not for small CPU networks."""
    amp: bool = False
    """bfloat16 autocast in the loss; needs CUDA."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout_steps", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"PPOConfig.{name}: expected at least 1, got {getattr(self, name)}")
        if self.num_envs * self.rollout_steps < self.minibatches:
            raise ValueError(
                f"PPOConfig.minibatches: expected at most num_envs * rollout_steps = "
                f"{self.num_envs * self.rollout_steps}, got {self.minibatches}"
            )


PRESETS: Mapping[str, PPOConfig] = {
    "default": PPOConfig(),
    "paper-atari": PPOConfig(
        num_envs=64,
        epochs=3,
        minibatches=8,
        learning_rate=1e-4,
        learning_rate_schedule="constant",
        clip=0.1,
        value_clip=0.1,
        entropy=0.001,
        network=NetworkConfig(image_hidden=(512, 512), image_activation="leaky_relu"),
    ),
}


class PPO(Agent):
    """Collect, score, mix, estimate advantages, learn: `cycle` says it in this order."""

    name = "ppo"
    clips_parts = True

    def __init__(
        self,
        envs: Envs,
        bonus: IntrinsicReward | None = None,
        config: PPOConfig | None = None,
        mixer: MixerConfig | None = None,
        *,
        total_steps: int,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self.config = config or PPOConfig()
        super().__init__(
            envs,
            bonus,
            self.config,
            mixer or MixerConfig(),
            total_steps=total_steps,
            seed=seed,
            device=device,
            fuse=self.config.compile == "off",
        )
        if self.config.amp and self.device.type != "cuda":
            raise ValueError(f"PPOConfig.amp: expected a CUDA device, got {self.device}")
        self.optimizer = torch.optim.Adam(
            self.trained, lr=self.config.learning_rate, eps=self.config.adam_eps, fused=True
        )
        self._precision: AbstractContextManager[None] = (
            torch.autocast(self.device.type, dtype=torch.bfloat16) if self.config.amp else nullcontext()
        )
        self._compiled_loss = self._loss
        if self.config.compile != "off":
            self._compiled_loss = torch.compile(self._loss, mode=self.config.compile)

    def cycle(self) -> dict[str, float]:
        """One block and one update."""
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
        with torch.no_grad():
            old_log_prob, _ = self.policy.choose.log_prob(batch.policy, batch.choice)
        rows = len(old_log_prob)
        size = -(-rows // c.minibatches)
        history: list[Tensor] = []
        for _ in range(c.epochs):
            order = torch.randperm(rows, generator=self.generator).to(self.device)
            # small columns are shuffled once per pass, observations (perhaps images) minibatch by minibatch
            columns = (batch.choice, old_log_prob, batch.advantage, batch.returns, batch.values)
            shuffled = (torch.split(column[order], size) for column in columns)
            for index, choice, old, advantage, returns, values in zip(torch.split(order, size), *shuffled, strict=True):
                if c.normalise_advantage and len(index) > 1:
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                with self._precision:
                    parts = self._compiled_loss(batch.obs[index], choice, old, advantage, returns, values)
                policy_loss, value_loss, mean_entropy = parts[0], parts[1], parts[2]
                loss = policy_loss + c.value_coef * value_loss - entropy * mean_entropy
                named = {"policy loss": policy_loss, "value loss": value_loss, "entropy": mean_entropy}
                norm = self.descend(loss, named, c.max_grad_norm)
                history.append(torch.stack([*parts, norm]).detach())
            if c.target_kl is not None and float(history[-1][3]) > c.target_kl:
                break
        means = torch.stack(history).mean(0).tolist()
        names = ("policy_loss", "value_loss", "entropy", "kl", "clipped_share", "grad_norm")
        metrics = {f"learn/{name}": value for name, value in zip(names, means, strict=True)}
        metrics["learn/passes"] = len(history) / c.minibatches
        metrics["learn/learning_rate"] = rate
        metrics["learn/explained_variance"] = explained_variance(batch)
        return metrics

    def _loss(
        self, obs: Tensor, choice: Tensor, old_log_prob: Tensor, advantage: Tensor, returns: Tensor, old_values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        c = self.config
        policy, values = self.policy.learn_from(obs)
        log_prob, entropy = self.policy.choose.log_prob(policy, choice)
        log_ratio = log_prob - old_log_prob
        ratio = log_ratio.exp()
        policy_loss = -torch.min(ratio * advantage, ratio.clamp(1 - c.clip, 1 + c.clip) * advantage).mean()
        error = (values - returns).square()
        if c.value_clip is not None:
            kept = old_values + (values - old_values).clamp(-c.value_clip, c.value_clip)
            error = torch.max(error, (kept - returns).square())
        with torch.no_grad():
            kl = (ratio - 1 - log_ratio).mean()
            clipped = ((ratio - 1).abs() > c.clip).float().mean()
        return policy_loss, 0.5 * error.mean(0).sum(), entropy.mean(), kl, clipped
