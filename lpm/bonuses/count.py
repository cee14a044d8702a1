"""Count-based bonuses: 1/√N(s'), over the whole run or within the episode."""

import copy
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from lpm.bonuses._learner import MemoryBonus
from lpm.core import settings
from lpm.core.registry import register
from lpm.core.settings import Bound
from lpm.core.transitions import Transitions
from lpm.nn.hashing import CountSketch, KeyConfig, ObservationKeys, episode_counts
from lpm.nn.memory import EpisodicMemory


@dataclass(frozen=True)
class CountConfig(KeyConfig):
    """Settings of the count bonus."""

    table_bits: Annotated[int, Bound("1 to 30", lambda bits: 1 <= bits <= 30)] = 18
    """log2 of the cells in each table of the sketch. 18: 4 MiB in all; 1 % of counts too large at 10^5 states."""
    table_depth: settings.Count = 4
    """Tables of the sketch; a count is wrong only if a state shares its cell in all of them."""


@register("count")
class Count(MemoryBonus):
    """Counts: 1/√N of the visits to the new state over the whole run, all environments together."""

    label = "Count"
    family = "novelty"
    use = "Visits of hashed states over the run: small state spaces."
    Config = CountConfig
    config: CountConfig
    reference = "Strehl & Littman 2008; Tang et al. 2017, #Exploration: A Study of Count-Based Exploration"

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.keys = ObservationKeys(spaces, config)
        self.sketch = CountSketch(config.table_bits, config.table_depth)

    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        """The visits of a time step are all counted before any of them is rewarded."""
        sketch = self.sketch if keep else copy.deepcopy(self.sketch)
        rewards, keys = torch.zeros(batch.shape, device=batch.device), self.keys(batch.next_obs[batch.valid])
        for valid, here, visited in zip(batch.valid, rewards, keys.split(batch.valid.sum(1).tolist()), strict=True):
            sketch.add(visited)
            here[valid] = sketch.count(visited).float().rsqrt()
        return rewards


@dataclass(frozen=True)
class EpisodicCountConfig(KeyConfig):
    """Settings of the episodic count bonus."""

    memory_size: settings.Count = 4096
    """Steps of an episode that each environment remembers, as one key each; the oldest are forgotten first."""


@register("episodic_count")
class EpisodicCount(MemoryBonus):
    """Episodic counts: 1/√N of the visits to the new state within the present episode."""

    label = "Episodic count"
    family = "episodic"
    use = "Visits of hashed states within the episode."
    Config = EpisodicCountConfig
    config: EpisodicCountConfig
    reference = "Raileanu & Rocktäschel 2020 (the count term of RIDE)"
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.keys = ObservationKeys(spaces, config)
        self.memory = EpisodicMemory(self.num_envs, config.memory_size, dtype=torch.int64)

    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        return episode_counts(batch, self.memory, self.keys, keep).float().rsqrt()
