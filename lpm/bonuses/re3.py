"""Random encoders for efficient exploration (Seo et al. 2021): entropy of states in a frozen random feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._settings import expect, expect_at_least, expect_choice
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.transitions import Transitions
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.memory import StepMemory, nearest_squares
from lpm.nn.random_target import random_encoder
from lpm.nn.seeding import seeded


@dataclass(frozen=True)
class RE3Config:
    """Settings of RE3."""

    features: int = 64
    """Width of the random features (paper: 64 for MiniGrid, 50 for DeepMind Control)."""
    neighbours: int = 3
    """k: the distance to the k-th nearest neighbour is paid (paper: 3)."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the random encoder for vectors. Images have the convolutions of the other methods."""
    memory_size: int | None = None
    """States among which neighbours are looked for, the latest ones, over all environments. None: one rollout, as
    many as the paper's on-policy batch holds; the paper's off-policy agents search the whole replay buffer."""
    normalise: Literal["auto", "none", "standard"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    Nothing is paid or remembered until the statistics exist. Paper: none stated."""
    warmup: int = 1
    """Transitions to observe before the statistics freeze."""

    def __post_init__(self) -> None:
        expect_at_least(self, 1, "features", "neighbours", "warmup")
        expect_choice(self, "normalise", "auto", "none", "standard")
        expect(self, "memory_size", self.memory_size is None or self.memory_size >= 1, "at least 1, or None")


@register("re3")
class RE3(IntrinsicReward):
    """Random encoder entropy: log distance to the k-th nearest of the latest states, in frozen random features."""

    Config = RE3Config
    config: RE3Config
    reference = "Seo et al. 2021, State Entropy Maximization with Random Encoders for Efficient Exploration"
    episodic = True  # the latest states of each environment

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        standard = config.normalise == "standard" or (config.normalise == "auto" and spaces.kind == "vector")
        self.input = ObservationInput(spaces, "standard" if standard else "none")
        with seeded(self.generator):
            self.encoder = random_encoder(spaces.input_shape, config.features, hidden=config.hidden)
        steps = self.rollout_steps if config.memory_size is None else max(1, config.memory_size // self.num_envs)
        self.memory = StepMemory(self.num_envs, steps, (config.features,))

    def _score(self, batch: Transitions) -> Tensor:
        return self._run(batch, self.memory.fork())

    def _observe(self, batch: Transitions) -> None:
        self._step(batch)

    def _step(self, batch: Transitions) -> Tensor:
        reward = self._run(batch, self.memory)
        if not self.input.ready:
            self.input.observe(batch.next_obs[batch.valid])
        return reward

    def _run(self, batch: Transitions, memory: StepMemory) -> Tensor:
        """Rewards of a block; at each step all environments' states enter `memory`, then each looks for neighbours."""
        rewards = torch.zeros(batch.shape, device=batch.device)
        if not self.input.ready:
            return rewards
        embedded = rewards.new_zeros(*batch.shape, self.config.features)
        embedded[batch.valid] = in_chunks(lambda obs: self.encoder(self.input(obs)), batch.next_obs[batch.valid])
        for t in range(batch.shape[0]):
            if not bool(batch.valid[t].any()):
                continue
            slot = memory.push(embedded[t], batch.valid[t])
            rewards[t] = self._entropy(embedded[t], memory, slot)
        return rewards

    def _entropy(self, query: Tensor, memory: StepMemory, slot: int) -> Tensor:
        """log(1 + distance to the k-th nearest), or to the farthest if there are fewer; 0 if there is none, (N,)."""
        used, envs = memory.used, query.shape[0]
        others = memory.held[:used].flatten().repeat(envs, 1)
        place = torch.arange(envs, device=query.device)
        others[place, slot * envs + place] = False
        squares = nearest_squares(query, memory.rows[:used].flatten(0, 1), others, self.config.neighbours)
        return torch.log1p(squares.masked_fill(squares.isinf(), 0).amax(1).sqrt())

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        moments = self.input.moments
        if moments is not None and not self.input.ready and moments.total >= self.config.warmup:
            self.input.commit()
        return {}
