"""DEIR (Wan et al. 2023): episodic novelty, weighed by how much the trajectories that led to it have in common.

A discriminator learns to tell the true successor from observations of other times, given the trajectory so far and the
action. Its encoder gives embeddings of observations, its recurrent cell embeddings of trajectories; the reward compares
the new observation with every one of the episode.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import FitConfig, Learner, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.inputs import RunningMoments
from lpm.nn.memory import EpisodicMemory, RingBuffer, embed_episodes
from lpm.nn.networks import Encoder, mlp

MEMORY_STEPS = 1024
QUEUE_BYTES = 64 * 2**20


def novelty(observations: Tensor, trajectories: Tensor, epsilon: float = 1e-6) -> Tensor:
    """d_obs² / (d_trj + ε) of differences of embeddings, (..., F) each.

    >>> novelty(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 5.0]), 0.0).item()
    5.0
    """
    return observations.square().sum(-1) / (trajectories.square().sum(-1).sqrt() + epsilon)


def discriminator_loss(true: Tensor, false: Tensor, differ: Tensor) -> Tensor:
    """Mean cross-entropy of logits (B,) of true and of false successors, half of each.

    False ones that are the true one by chance (not `differ`) do not count.
    """
    positive = nn.functional.softplus(-true).mean()
    negative = (nn.functional.softplus(false) * differ).sum() / differ.sum().clamp_min(1)
    return 0.5 * (positive + negative)


@dataclass(frozen=True)
class DEIRConfig(FitConfig):
    """Settings of DEIR. "Code" is swan-utokyo/deir, with its defaults for MiniGrid."""

    features: Count = 128
    """Width of the embeddings of observations and of trajectories (code: 128; ProcGen 64)."""
    encoder_hidden: tuple[int, ...] = (256,)
    """Hidden layers of the encoder of vectors. Images have the convolutions of the other methods."""
    hidden: tuple[int, ...] = (256,)
    """Hidden layers of the discriminator (code: one of 256)."""
    layer_norm: bool = True
    """Normalise the encoder's output (code: batch normalisation for MiniGrid, layer normalisation for ProcGen)."""
    normalise: Literal["auto", "none", "standard"] = "auto"
    """Standardise observations by running statistics, clipped at ±5; rewards are 0 until there are any. "auto": vectors
    yes, images no. Code: images only, no."""
    memory_size: Count = MEMORY_STEPS
    """Steps of an episode that each environment remembers; the oldest are forgotten first. Code: the whole episode."""
    queue_size: Count | None = None
    """Observations that false successors are drawn from; those with at least the mean reward enter (code: 100,000).
    None: 64 rollouts, at most 100,000 or what 64 MiB hold."""
    lr: NonNegative = 3e-4
    """Adam learning rate (code: 3e-4; ProcGen 1e-4)."""
    epochs: Count = 4
    """Passes over the transitions of a rollout per update (code: 4; ProcGen 3)."""
    batch_size: Count = 512
    """Minibatch of true successors; as many false ones are added (code: 512)."""


class Discriminator(nn.Module):
    """Embeddings of observations and trajectories, and the logit that a successor is the true one."""

    def __init__(self, spaces: Spaces, config: DEIRConfig) -> None:
        super().__init__()
        width = config.features
        self.encoder = nn.Sequential(
            Encoder(spaces.input_shape, width, hidden=config.encoder_hidden, final_activation=False)
        )
        if config.layer_norm:
            self.encoder.append(nn.LayerNorm(width))
        self.cell = nn.GRUCell(width, width)
        self.head = mlp(2 * width + spaces.action_width, config.hidden, 1)

    def forward(self, memory: Tensor, x: Tensor, code: Tensor, *successors: Tensor) -> list[Tensor]:
        """The logit (B,) of each of several batches of successors, after `x` has been added to the memory (B, F)."""
        first, *others = self.encoder(torch.cat([x, *successors])).chunk(1 + len(successors))
        now = self.cell(first, memory)
        return [self.head(torch.cat([now, self.cell(e, now), code], 1)).squeeze(1) for e in others]


class Trajectory(nn.Module):
    """What the present episode of each environment has left: its embedding, and rows to compare new ones with.

    Row i is e_i, the embedding of an observation, beside τ_{i−1}, that of the trajectory before it.
    """

    state: Tensor  # (N, F) τ of the episode so far, without its latest observation

    def __init__(self, num_envs: int, capacity: int, width: int) -> None:
        super().__init__()
        self.memory = EpisodicMemory(num_envs, capacity, (2 * width,))
        self.register_buffer("state", torch.zeros(num_envs, width))

    def walk(self, batch: Transitions, cell: nn.GRUCell, embed: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Move on through a block: rewards (T, N), and τ before each observation (T, N, F)."""
        starts = self.memory.starts(batch)
        opening = starts | (batch.valid & (batch.valid.cumsum(0) == 1))
        first, following = embed_episodes(batch, opening, embed)
        before, after, seen = torch.zeros_like(first), torch.zeros_like(first), torch.zeros_like(self.state)
        for t in range(batch.shape[0]):
            valid = batch.valid[t].unsqueeze(1)
            before[t] = torch.where(starts[t].unsqueeze(1), 0, self.state)
            seen = torch.where(opening[t].unsqueeze(1), first[t], seen)
            after[t] = cell(seen, before[t])
            self.state.copy_(torch.where(valid, torch.where(batch.done[t].unsqueeze(1), 0, after[t]), self.state))
            seen = torch.where(valid, following[t], seen)
        rows = torch.cat([following, after], 2)

        def nearest(t: int) -> Tensor:
            live = self.memory.live
            if live.shape[1] == 0:
                return rows.new_zeros(len(live))
            observations, trajectories = (self.memory.stored - rows[t].unsqueeze(1)).chunk(2, 2)
            return novelty(observations, trajectories).masked_fill(~live, torch.inf).amin(1)

        return self.memory.visit(batch, torch.cat([first, torch.zeros_like(first)], 2), rows, nearest), before


@register("deir")
class DEIR(MemoryBonus, Learner):
    """Episodic novelty over the distance of the trajectories that led there, in features of a discriminator."""

    label = "DEIR"
    family = "episodic"
    use = "Novelty within an episode, in features that tell whether an action caused the change."
    Config = DEIRConfig
    config: DEIRConfig
    reference = (
        "Wan, Tang, Tian & Kaneko 2023, DEIR: Efficient and Robust Exploration through Discriminative-Model-Based "
        "Episodic Intrinsic Rewards (arXiv 2304.10770)"
    )
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = Experience(
            spaces, self.rollout, config.normalise, clip=5.0, frozen=False,
            columns={"memory": ((config.features,), torch.float32)},
        )  # fmt: skip
        self.model = Discriminator(spaces, config)
        self.add_optimizer("model", self.model.parameters(), config.lr)
        self.trajectory = Trajectory(self.num_envs, config.memory_size, config.features)
        row = math.prod(spaces.obs_shape) * spaces.obs_dtype.itemsize
        size = max(self.rollout, min(64 * self.rollout, 100_000, QUEUE_BYTES // row))
        self.queue = RingBuffer(config.queue_size or size, {"obs": (spaces.obs_shape, spaces.obs_dtype)})
        self.rewards = RunningMoments(())

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        trajectory = self.trajectory if keep else copy.deepcopy(self.trajectory)
        reward = torch.zeros(batch.shape, device=batch.device)
        memory = reward.unsqueeze(2).expand(-1, -1, self.config.features)
        if self.experience.ready:
            reward, memory = trajectory.walk(batch, self.model.cell, self.experience.seen_by(self.model.encoder))
        if not keep:
            return reward
        if self.experience.ready:
            self.rewards.observe(reward[batch.valid])
        # the mean is that of the last update, so that no block depends on how it is cut
        interesting = batch.valid & ((reward >= self.rewards.mean) | (not self.rewards.ready))
        self.queue.push(obs=batch.next_obs[interesting])
        self.experience.observe(batch, memory=memory[batch.valid])
        return reward

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        buffer, slots, hits = self.experience.buffer, self.experience.fresh, []
        self.rewards.commit()

        def loss(rows: Prepared) -> Tensor:
            at = slots[rows.index]
            false, differ = self._false(buffer["next_obs"][at], generator)
            true_logit, false_logit = self.model(
                buffer["memory"][at], rows.x, rows.code, rows.x_next, self.experience.input(false)
            )
            hits.append(0.5 * ((true_logit > 0).float().mean() + (false_logit <= 0).float().mean()).detach())
            return discriminator_loss(true_logit, false_logit, differ)

        value = self.fit("model", loss, generator)
        return {"discriminator_loss": value, "discriminator_accuracy": torch.stack(hits).mean()}

    def _false(self, true: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """An observation of another time for each successor, and whether it differs from it: of two, the first that
        does."""
        drawn = torch.randint(len(self.queue), (2, len(true)), generator=generator).to(true.device)
        first, second = self.queue["obs"][drawn]
        same = (first == true).flatten(1).all(1)
        false = torch.where(same.reshape(-1, *(1,) * (true.ndim - 1)), second, first)
        return false, ~(false == true).flatten(1).all(1)
