"""Conditional information gain (CIG, Joseph et al. 2026): disagreement that the latest steps have not shown already.

The disagreement of an ensemble is a kernel between transitions. What a step adds to the log-determinant of the kernel
of the steps before it, above the noise, is its reward: disagreement counts once, not at every repetition.
"""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner, MemoryBonus
from lpm.bonuses.ensemble import ForwardEnsembleConfig
from lpm.core.registry import register
from lpm.core.settings import Count
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import mean_square
from lpm.nn.experience import Prepared
from lpm.nn.inputs import in_chunks
from lpm.nn.memory import EpisodicMemory
from lpm.nn.networks import StackedForward

MIN_NOISE = 1e-8  # of σ², so that a world without any has a logarithm


def deviations(predictions: Tensor) -> Tensor:
    """Of members' predictions (K, B, F) from their mean, over √K, side by side: (B, K·F).

    Their inner products are the kernel: K_tt is the disagreement of transition t, summed over features.
    """
    apart = (predictions - predictions.mean(0)) / math.sqrt(len(predictions))
    return apart.transpose(0, 1).flatten(1)


def conditional_gain(rows: Tensor, before: Tensor, noise: Tensor) -> Tensor:
    """log( K_tt + n − k' (K + n I)⁻¹ k ) − log n of rows (N, D), given the rows before them (N, M, D), (N,).

    Rows before that are all 0 count for nothing.

    >>> one = torch.ones(1, 1)
    >>> conditional_gain(one, torch.zeros(1, 0, 1), torch.tensor(1.0))
    tensor([0.6931])
    >>> conditional_gain(one, torch.ones(1, 1, 1), torch.tensor(1.0))
    tensor([0.4055])
    """
    rows, before, noise = rows.double(), before.double(), noise.double()  # the kernel is far from well-conditioned
    own, shared = rows.square().sum(1), before @ rows.unsqueeze(2)
    ridge = noise * torch.eye(before.shape[1], dtype=rows.dtype, device=rows.device)
    factor = torch.linalg.cholesky(before @ before.transpose(1, 2) + ridge)
    known = torch.linalg.solve_triangular(factor, shared, upper=False).square().sum((1, 2))
    return torch.log1p((own - known).clamp_min(0) / noise).float()


@dataclass(frozen=True)
class CIGConfig(ForwardEnsembleConfig):
    """Settings of CIG: those of the ensemble, whose members here learn from all samples, and of the condition."""

    prefix: Count = 15
    """Steps of the episode before a transition that its reward is conditioned on (paper: imagined rollouts of 15)."""


@register("cig")
class CIG(MemoryBonus, Learner):
    """Conditional information gain: an ensemble's disagreement above the noise, less what the last steps showed."""

    label = "CIG"
    family = "disagreement"
    use = "Information gained within an episode, by an ensemble's disagreement."
    Config = CIGConfig
    config: CIGConfig
    reference = "Joseph et al. 2026, CIG: Exploration via Conditional Information Gain (arXiv 2605.20878)"
    episodic = True

    noise: Tensor  # σ²d: squared error of the ensemble's mean, summed over features; 0 before the first update

    def _build(self) -> None:
        spaces, c = self.spaces, self.config
        self.experience = c.experience(spaces, self.rollout)
        self.encoder = c.encoder(spaces)
        features = self.encoder.features
        self.ensemble = StackedForward(features, spaces.action_width, hidden=c.hidden, members=c.members)
        self.add_optimizer("ensemble", self.ensemble.parameters(), c.lr)
        self.memory = EpisodicMemory(self.num_envs, c.prefix, (c.members * features,))
        self.register_buffer("noise", torch.zeros(()))

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        if keep:
            self.experience.observe(batch)
        memory = self.memory if keep else copy.deepcopy(self.memory)
        rewards = torch.zeros(batch.shape, device=batch.device)
        if self.noise == 0:
            return rewards
        obs, action = batch.obs.flatten(0, 1), batch.action.flatten(0, 1)
        rows = in_chunks(self._deviations, obs, action, chunk=self.experience.chunk).view(*batch.shape, -1)
        done = batch.done & batch.valid
        for t in range(batch.shape[0]):
            before = memory.stored * memory.live.unsqueeze(2)
            rewards[t] = conditional_gain(rows[t], before, self.noise)
            memory.push(rows[t], batch.valid[t])
            memory.end_episodes(done[t])
        return rewards

    def _deviations(self, obs: Tensor, action: Tensor) -> Tensor:
        phi = self.encoder(self.experience.input(obs))
        return deviations(self.ensemble(phi, self.spaces.encode_action(action)))

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        phi = self.experience.at_fresh(lambda rows: self.encoder(rows.x))
        phi_next = self.experience.at_fresh(lambda rows: self.encoder(rows.x_next))

        def loss(rows: Prepared) -> Tensor:
            return self.ensemble.errors(phi[rows.index], rows.code, phi_next[rows.index]).sum(0)

        value = self.fit("ensemble", loss, generator) / self.config.members
        residual = self.experience.at_fresh(
            lambda rows: mean_square(self.ensemble(phi[rows.index], rows.code).mean(0), phi_next[rows.index])
        )
        variance = residual.mean().clamp_min(MIN_NOISE)
        self.noise.copy_(variance * phi.shape[1])
        self.memory.count.zero_()  # the rows are those of the ensemble before
        return {"ensemble_loss": value, "noise_variance": variance}
