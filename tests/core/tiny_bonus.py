"""The smallest bonus that uses everything: a network, an optimiser, a generator, statistics and a counter."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lpm import IntrinsicReward, Spaces, Transitions
from lpm.core.seeding import seeded


@dataclass(frozen=True)
class TinyConfig:
    lr: float = 0.01
    power: float = 2.0


class Tiny(IntrinsicReward):
    """Pays |w·(o' − o) − mean|, where w learns from noisy sums and the mean is taken of what was seen up to the last
    update."""

    Config = TinyConfig
    variants = {"square": {"power": 2.0}, "cube": {"power": 3.0}}  # noqa: RUF012
    total: Tensor
    count: Tensor
    mean: Tensor

    def __init__(
        self,
        spaces: Spaces,
        config: TinyConfig | None = None,
        *,
        num_envs: int = 1,
        rollout_steps: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
        self.config = TinyConfig() if config is None else config
        with seeded(self.generator):
            self.head = nn.Linear(spaces.input_shape[0], 1)
        self.add_optimizer("head", self.head.parameters(), self.config.lr)
        for name in ("total", "count", "mean"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def change(self, batch: Transitions) -> Tensor:
        """What happened, as one number per transition."""
        low = self.head.in_features
        return self.head((batch.next_obs.float() - batch.obs.float()).flatten(2)[..., :low] / 100).squeeze(-1)

    def _score(self, batch: Transitions) -> Tensor:
        return (self.change(batch) - self.mean.float()).abs()

    def _observe(self, batch: Transitions) -> None:
        self.total += batch.next_obs[batch.valid].double().sum() / 1000
        self.count += batch.valid.sum()

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.count == 0:
            return {}
        self.mean.copy_(self.total / self.count)
        noise = torch.rand(4, self.head.in_features, generator=generator)
        loss = (self.head(noise) - self.mean.float()).square().mean()
        self.descend("head", loss)
        return {"loss": loss}
