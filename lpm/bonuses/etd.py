"""Episodic novelty through temporal distance (Jiang et al. 2025); the LPM paper calls it EDT.

A quasimetric d(x → y) is trained so that c(y) − d(x → y) tells the future states of x from other states. The reward is
the smallest distance from any state of the present episode to the new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import FitConfig, Learner, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Bound, Count, Fraction, NonNegative
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.inputs import in_chunks
from lpm.nn.memory import EpisodicMemory, embed_episodes
from lpm.nn.quasimetric import QuasimetricModel, contrastive_loss, last_of_segment, mrn_distances, truncated_geometric
from lpm.nn.seeding import seeded

MEMORY_BYTES = 128 * 2**20
MEMORY_STEPS = 1024


@dataclass(frozen=True)
class ETDConfig(FitConfig):
    """Settings of ETD. "Code" is the authors' published code."""

    features: Count = 256
    """Width of the encoder's output (code: 64 for MiniGrid, 256 for pixels)."""
    embedding: Annotated[int, Bound("even and at least 2", lambda width: width >= 2 and width % 2 == 0)] = 64
    """Width of the embedding that distances are taken of; half of it for each part of the MRN (code: 64)."""
    hidden: tuple[int, ...] = (256,)
    """Hidden layers of the vector encoder, the embedding head and the potential (code: 256)."""
    layer_norm: bool = True
    """Normalise the encoder's output (code: class default no, scripts yes)."""
    normalise: Literal["auto", "none", "standard"] = "auto"
    """Standardise observations by running statistics, clipped at ±5. "auto": vectors yes, images no. Code: no."""
    discount: Fraction = 0.99
    """γ of the geometric law of the steps between a state and its positive (code: 0.99)."""
    logsumexp_weight: NonNegative = 0.0
    """Weight of the squared log-sum-exp of the energies in the loss (code: class default 0.1, scripts 0)."""
    lr: NonNegative = 3e-4
    """Adam learning rate (code: 3e-4 or 1e-4)."""
    batch_size: Count = 512
    """Pairs in a minibatch; the other members are the negatives (code: 512)."""
    epochs: Count = 4
    """Passes over the rollout per update (code: 4)."""
    memory: Literal["observations", "embeddings"] = "observations"
    """What the memory keeps between updates. Observations are embedded again after each update, which is exact;
    embeddings take less space and go stale. Code: features of the encoder, which go stale in part."""
    memory_size: Count | None = None
    """Steps of an episode that each environment remembers; the oldest are forgotten first. None: 1,024, or as many
    observations as 128 MiB hold (16 environments of 4×84×84 uint8: 297). Code: the whole episode."""


@register("etd")
class ETD(MemoryBonus, Learner):
    """Episodic temporal distance: how far the new state is from every state of the present episode."""

    label = "ETD"
    family = "episodic"
    use = "Novelty within an episode, by temporal distance."
    Config = ETDConfig
    config: ETDConfig
    reference = "Jiang et al. 2025, Episodic Novelty Through Temporal Distance"
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = Experience(
            spaces,
            self.rollout,
            config.normalise,
            clip=5.0,
            frozen=False,
            next_only=True,
            columns={"env": ((), torch.int64), "done": ((), torch.bool)},
        )
        with seeded(self.generator):
            self.model = QuasimetricModel(
                spaces,
                features=config.features,
                embedding=config.embedding,
                hidden=config.hidden,
                layer_norm=config.layer_norm,
            )
        self.add_optimizer("model", self.model.parameters(), config.lr)
        size = _default_memory(spaces, self.num_envs) if config.memory_size is None else config.memory_size
        self.memory = EpisodicMemory(self.num_envs, size, (config.embedding,))
        self.kept: EpisodicMemory | None = None
        if config.memory == "observations":
            self.kept = EpisodicMemory(self.num_envs, size, spaces.obs_shape, spaces.obs_dtype)

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        places = self.memory.places(batch)
        first, following = embed_episodes(batch, self.memory.starts(batch), self._embed)
        reward = self.memory.compare(places, first, following, _nearest)
        if not keep:
            return reward
        self.memory.store(batch, places, first, following)
        if self.kept is not None:
            self.kept.store(batch, places, batch.obs, batch.next_obs)
        env = torch.arange(self.num_envs, device=batch.device).expand(batch.shape)
        self.experience.observe(batch, env=env[batch.valid], done=batch.done[batch.valid])
        return reward

    def _embed(self, obs: Tensor) -> Tensor:
        return self.model.embed(self.experience.input(obs))

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        c, hits = self.config, []
        slots, last = self._episodes()

        def loss(rows: Prepared) -> Tensor:
            uniform = torch.rand(len(rows.index), generator=generator, dtype=torch.float64).to(slots.device)
            ahead = truncated_geometric(last[rows.index] - rows.index + 1, c.discount, uniform)
            future = self.experience.buffer["next_obs"][slots[rows.index + ahead - 1]]
            energy = self.model.energies(rows.x, self.experience.input(future))
            own = torch.arange(len(energy), device=energy.device)
            hits.append((energy.detach().argmax(1) == own).float().mean())
            return contrastive_loss(energy, c.logsumexp_weight)

        batches = replace(self.experience.passes(c.batch_size, c.epochs, generator), slots=slots)
        value = self.experience.fit(loss, self.optimizer("model"), batches)
        self._embed_memory()
        return {"contrastive_loss": value, "contrastive_accuracy": torch.stack(hits).mean()}

    def _episodes(self) -> tuple[Tensor, Tensor]:
        """Slots of what came since the last update, by environment and then time, and each row's last row.

        The last row is that of the same episode, so that positives never come from the next one. Every row has a
        future: at least its own successor.
        """
        slots, buffer = self.experience.fresh, self.experience.buffer
        slots = slots[torch.argsort(buffer["env"][slots], stable=True)]
        env = buffer["env"][slots]
        ends = buffer["done"][slots].clone()
        ends[:-1] |= env[1:] != env[:-1]
        return slots, last_of_segment(ends)

    @torch.no_grad()
    def _embed_memory(self) -> None:
        """Embed the remembered observations with the updated model."""
        if self.kept is None or not bool(self.kept.count.any()):
            return
        env, slot = self.kept.live.nonzero(as_tuple=True)
        observations = self.kept.rows
        self.memory.rows[env, slot] = in_chunks(lambda e, s: self._embed(observations[e, s]), env, slot)


def _nearest(query: Tensor, rows: Tensor, seen: Tensor) -> Tensor:
    """Temporal distance to each query (n, T, D) from the nearest of the rows (n, M, D) that it sees; 0 if none."""
    distance = mrn_distances(rows, query).transpose(1, 2).masked_fill(~seen, torch.inf).amin(2)
    return distance.masked_fill(~seen.any(2), 0)


def _default_memory(spaces: Spaces, num_envs: int) -> int:
    step = num_envs * math.prod(spaces.obs_shape) * spaces.obs_dtype.itemsize
    return max(1, min(MEMORY_STEPS, MEMORY_BYTES // step))
