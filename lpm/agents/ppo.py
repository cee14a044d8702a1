"""Proximal Policy Optimisation (Schulman et al. 2017) on task reward plus bonus."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.agents.agent import Agent, LearnBatch
from lpm.agents.config import AgentConfig
from lpm.agents.policy import NetworkConfig
from lpm.core.settings import Count, NonNegative, Positive, expect


@dataclass(frozen=True)
class PPOConfig(AgentConfig):
    """Settings of PPO. The defaults suit small environments. Of the presets, "noisy" is for environments that are
    partly noise, "published" and "published-noisy" are what the stored experiments ran with, and "paper-atari" holds
    the LPM paper's."""

    entropy: NonNegative = 0.01
    """Weight of the entropy bonus. Paper (Atari): 0.001."""
    epochs: Count = 10
    """Passes over each block. Paper (Atari): 3."""
    minibatches: Count = 4
    """Gradient steps per pass. Paper (Atari): 8."""
    adam_eps: Positive = 1e-5
    """ε of Adam."""
    clip: Positive = 0.2
    """Bound on how far the probability ratio counts. Paper (Atari): 0.1."""
    value_clip: Positive | None = None
    """Bound on how far a value may move in one update. LPM release: 0.1."""
    target_kl: Positive | None = None
    """Stop the passes over a block once the policy has moved this far (mean KL)."""
    compile: Literal["off", "default", "reduce-overhead"] = "off"
    """torch.compile of the loss; "reduce-overhead" uses CUDA graphs. Worth it on a GPU, not for small CPU networks."""
    amp: bool = False
    """bfloat16 autocast in the loss; needs CUDA."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.num_envs * self.rollout_steps
        expect(self, "minibatches", self.minibatches <= rows, f"at most num_envs * rollout_steps = {rows}")


PRESETS: Mapping[str, PPOConfig] = {
    "default": PPOConfig(),
    "noisy": PPOConfig(learning_rate_schedule="constant", network=NetworkConfig(normalise="robust")),
    "published": PPOConfig(epochs=4, value_heads=1, episodic_bonus=True),
    "published-noisy": PPOConfig(
        epochs=4,
        value_heads=1,
        episodic_bonus=True,
        learning_rate_schedule="constant",
        network=NetworkConfig(normalise="robust"),
    ),
    "paper-atari": PPOConfig(
        num_envs=64,
        value_heads=1,
        episodic_bonus=True,
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
    """Clipped steps of Adam, several passes over each block in minibatches."""

    name = "ppo"
    Config = PPOConfig
    clips_parts = True
    config: PPOConfig

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Adam; and what the loss is computed with."""
        c = self.config
        if c.amp and self.device.type != "cuda":
            raise ValueError(f"PPOConfig.amp: expected a CUDA device, got {self.device}")
        self._precision: AbstractContextManager[None] = (
            torch.autocast(self.device.type, dtype=torch.bfloat16) if c.amp else nullcontext()
        )
        self._compiled_loss = self._loss if c.compile == "off" else torch.compile(self._loss, mode=c.compile)
        return torch.optim.Adam(self.trained, lr=c.learning_rate, eps=c.adam_eps, fused=True)

    @property
    def fuses(self) -> bool:
        """Compiled networks are not fused by hand."""
        return self.config.compile == "off"

    def learn(self, batch: LearnBatch, entropy: float) -> dict[str, float]:
        """Several passes over the block."""
        c = self.config
        with torch.no_grad():
            old_log_prob, _ = self.policy.actions.log_prob(batch.policy, batch.raw_action)
        rows = len(batch.advantage)
        size = -(-rows // c.minibatches)
        history: list[Tensor] = []
        for _ in range(c.epochs):
            order = torch.randperm(rows, generator=self.generator).to(self.device)
            # small columns are shuffled once per pass, observations (perhaps images) minibatch by minibatch
            columns = (batch.advantage, batch.raw_action, old_log_prob, batch.returns, batch.values)
            shuffled = (torch.split(column[order], size) for column in columns)
            for advantage, *others in zip(*shuffled, torch.split(order, size), strict=True):
                if c.normalise_advantage and len(advantage) > 1:
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                advantage, raw_action, old, returns, values, index = map(self.group.share, (advantage, *others))
                # index_select copies whole rows, but lays them out anew
                obs = batch.obs.index_select(0, index) if batch.obs.is_contiguous() else batch.obs[index]
                with self._precision:
                    parts = self._compiled_loss(obs, raw_action, old, advantage, returns, values)
                history.append(self.descend(parts, entropy, len(index)))
            if c.target_kl is not None and float(history[-1][3]) > c.target_kl:
                break
        means = torch.stack(history).mean(0).tolist()
        names = ("policy_loss", "value_loss", "entropy", "kl", "clipped_share", "grad_norm")
        metrics = {f"learn/{name}": value for name, value in zip(names, means, strict=True)}
        return {**metrics, "learn/passes": len(history) / c.minibatches}

    def _loss(
        self,
        obs: Tensor,
        raw_action: Tensor,
        old_log_prob: Tensor,
        advantage: Tensor,
        returns: Tensor,
        old_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        c = self.config
        policy, values = self.policy(obs)
        log_prob, entropy = self.policy.actions.log_prob(policy, raw_action)
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
