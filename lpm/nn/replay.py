"""A ring buffer of transitions that knows what came since the last update."""

from __future__ import annotations

import torch
from torch import Tensor

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.buffers import Columns, RingBuffer


class TransitionBuffer(RingBuffer):
    """Valid transitions in raw form (images as uint8), with extra columns if named."""

    marked: Tensor

    def __init__(
        self,
        spaces: Spaces,
        capacity: int,
        extra: Columns | None = None,
    ) -> None:
        observation = (spaces.obs_shape, spaces.obs_dtype)
        fields = {
            "obs": observation,
            "action": (spaces.action_shape, spaces.action_dtype),
            "next_obs": observation,
            **(extra or {}),
        }
        super().__init__(capacity, fields)
        self.register_buffer("marked", torch.zeros((), dtype=torch.int64))

    def observe(self, batch: Transitions, **extra: Tensor) -> int:
        """Append the valid transitions of a block, with extra columns given per valid row; return how many."""
        rows = batch.rows()
        self.push(obs=rows.obs, action=rows.action, next_obs=rows.next_obs, **extra)
        return rows.obs.shape[0]

    @property
    def fresh(self) -> int:
        """How many transitions were observed since the last `mark`."""
        return self.total - int(self.marked)

    def mark(self) -> None:
        """Everything so far has been learnt from."""
        self.marked.copy_(self.pushed)

    def rows(self, slots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raw (obs, action, next_obs) of the given slots."""
        return self["obs"][slots], self["action"][slots], self["next_obs"][slots]
