"""Random encoders for efficient exploration (Seo et al. 2021): entropy of states in a frozen random feature space."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, Settings
from lpm.core.transitions import Transitions
from lpm.nn.frozen import random_encoder
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.memory import RingBuffer, exact_squares

PAIRS = 2**21
"""Distances that are computed at a time."""


@dataclass(frozen=True)
class RE3Config(Settings):
    """Settings of RE3."""

    features: Count = 64
    """Width of the random features (paper: 64 for MiniGrid, 50 for DeepMind Control)."""
    neighbours: Count = 3
    """k: the distance to the k-th nearest neighbour is the reward (paper: 3)."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the random encoder for vectors. Images have the convolutions of the other methods."""
    memory_size: Count | None = None
    """States among which neighbours are looked for, the latest ones, over all environments. None: one rollout, as
    many as the paper's on-policy batch holds; the paper's off-policy agents search the whole replay buffer."""
    normalise: Literal["auto", "none", "standard"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    Rewards are 0 and nothing is remembered until the statistics exist. Paper: none stated."""
    warmup: Count = 1
    """Transitions to observe before the statistics freeze."""


@register("re3")
class RE3(MemoryBonus):
    """Random encoder entropy: log distance to the k-th nearest of the latest states, in frozen random features."""

    label = "RE3"
    family = "novelty"
    use = "State entropy by nearest neighbours in random features; nothing is learnt."
    Config = RE3Config
    config: RE3Config
    reference = "Seo et al. 2021, State Entropy Maximization with Random Encoders for Efficient Exploration"
    episodic = True  # the latest states of each environment

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        standard = config.normalise == "standard" or (config.normalise == "auto" and spaces.kind == "vector")
        self.input = ObservationInput(spaces, "standard" if standard else "none")
        self.encoder = random_encoder(spaces.input_shape, config.features, hidden=config.hidden)
        steps = self.rollout_steps if config.memory_size is None else max(1, config.memory_size // self.num_envs)
        # a row is a time step of all environments: which states are forgotten never depends on their order
        row = ((self.num_envs, config.features), torch.float32)
        self.memory = RingBuffer(steps, {"states": row, "held": ((self.num_envs,), torch.bool)})

    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        """At each step all environments' states enter the memory, then each looks for neighbours."""
        rewards = torch.zeros(batch.shape, device=batch.device)
        if not self.input.ready:
            if keep:
                self.input.observe(batch.next_obs[batch.valid])
            return rewards
        embedded = rewards.new_zeros(*batch.shape, self.config.features)
        embedded[batch.valid] = in_chunks(lambda obs: self.encoder(self.input(obs)), batch.next_obs[batch.valid])
        seen = batch.valid.any(1)  # a step of nothing but filler is none
        if not bool(seen.any()):
            return rewards
        old = self.memory.last(self.memory.capacity)
        rows = torch.cat([self.memory["states"][old], embedded[seen]])
        held = torch.cat([self.memory["held"][old], batch.valid[seen]])
        rewards[seen] = self._entropy(rows, held, len(old), self.memory.capacity)
        if keep:
            self.memory.push(states=embedded[seen], held=batch.valid[seen])
        return rewards

    def _entropy(self, rows: Tensor, held: Tensor, known: int, capacity: int) -> Tensor:
        """log(1 + distance to the k-th nearest) of the steps from `known` on among the latest `capacity` steps.

        To the farthest if there are fewer; 0 if there is none. `rows` are (K, N, F), the result (K − known, N).
        """
        envs, results = rows.shape[1], [rows.new_zeros(0, rows.shape[1])]
        sizes = rows.square().sum(2).masked_fill(~held, torch.inf)  # what is not held is infinitely far
        at_once = max(1, PAIRS // (envs**2 * min(capacity, len(rows))))
        for start in range(known, len(rows), at_once):
            end, begin = min(start + at_once, len(rows)), max(0, start + 1 - capacity)
            query, others = rows[start:end].flatten(0, 1), rows[begin:end].flatten(0, 1)
            rough = torch.addmm(sizes[begin:end].flatten(), query, others.T, alpha=-2)
            by_step = rough.view(end - start, envs, end - begin, envs)
            for i, step in enumerate(range(start, end)):
                by_step[i, :, : max(0, step + 1 - capacity - begin)] = torch.inf  # forgotten
                by_step[i, :, step + 1 - begin :] = torch.inf  # to come
                by_step[i, :, step - begin].fill_diagonal_(torch.inf)  # itself
            squares = exact_squares(rough.unsqueeze(0), query.unsqueeze(0), others.unsqueeze(0), self.config.neighbours)
            farthest = squares.masked_fill(squares.isinf(), 0).amax(2)
            results.append(torch.log1p(farthest.sqrt()).view(end - start, envs))
        return torch.cat(results)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        moments = self.input.moments
        if moments is not None and not self.input.ready and moments.total >= self.config.warmup:
            self.input.commit()
        return {}
