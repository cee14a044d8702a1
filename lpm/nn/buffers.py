"""Preallocated ring buffers whose whole state is in `state_dict`, and which of their rows are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

Columns = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Name to the shape and dtype of a row."""


class RingBuffer(nn.Module):
    """A fixed number of rows in named tensors; the newest overwrite the oldest.

    >>> import torch
    >>> ring = RingBuffer(3, {"x": ((), torch.float32)})
    >>> ring.push(x=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> ring["x"][ring.last(2)]
    tensor([3., 4.])
    """

    pushed: Tensor

    def __init__(self, capacity: int, fields: Columns) -> None:
        super().__init__()
        if capacity < 1:
            raise ValueError(f"RingBuffer.capacity: expected at least 1, got {capacity}")
        self.capacity = capacity
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))
        self.fields = tuple(fields)
        self.contents = tuple(f"rows_{name}" for name in fields)
        for name, (shape, dtype) in fields.items():
            self.register_buffer(f"rows_{name}", torch.zeros((capacity, *shape), dtype=dtype))

    def __len__(self) -> int:
        return min(self.total, self.capacity)

    def __getitem__(self, name: str) -> Tensor:
        """The storage of a field, (capacity, ...), in slot order."""
        storage = getattr(self, f"rows_{name}")
        assert isinstance(storage, Tensor)
        return storage

    @property
    def total(self) -> int:
        """How many rows were ever pushed."""
        return int(self.pushed)

    @property
    def nbytes(self) -> int:
        return sum(self[name].nbytes for name in self.fields)

    @torch.no_grad()
    def push(self, **rows: Tensor) -> None:
        """Append rows (B, ...) in order."""
        if set(rows) != set(self.fields):
            raise ValueError(f"RingBuffer.push: expected fields {sorted(self.fields)}, got {sorted(rows)}")
        count = next(iter(rows.values())).shape[0]
        for name, values in rows.items():
            expected = (count, *self[name].shape[1:])
            if tuple(values.shape) != expected:
                raise ValueError(f"RingBuffer.push: expected {name} of shape {expected}, got {tuple(values.shape)}")
        kept = min(count, self.capacity)
        start = (self.total + count - kept) % self.capacity
        head = min(kept, self.capacity - start)
        for name, values in rows.items():
            values, storage = values[count - kept :], self[name]
            storage[start : start + head] = values[:head]
            storage[: kept - head] = values[head:]
        self.pushed += count

    def last(self, count: int) -> Tensor:
        """Slots of the newest `count` rows (or as many as there are), oldest first."""
        count = min(count, len(self))
        return torch.arange(self.total - count, self.total, device=self.pushed.device) % self.capacity


class TransitionBuffer(RingBuffer):
    """Valid transitions in raw form (images as uint8), with extra columns if named; knows what is new since `mark`."""

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
        # index_select copies whole rows; indexing would look at every pixel
        return (
            self["obs"].index_select(0, slots),
            self["action"].index_select(0, slots),
            self["next_obs"].index_select(0, slots),
        )


def fixed_sample(count: int, most: int) -> Tensor:
    """Indices of at most `most` of `count` rows: always the same ones, and no regular pattern of the rows.

    >>> len(fixed_sample(10, 4)), sorted(fixed_sample(3, 4).tolist())
    (4, [0, 1, 2])
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]


def minibatches(size: int, batch: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """`steps` index tensors into `size` rows, without replacement within a pass; the tail of a pass is dropped.

    Indices are drawn on the CPU, where the generator lives, so that every device sees the same minibatches.
    """
    batch = min(batch, size)
    order, position = torch.randperm(size, generator=generator), 0
    for _ in range(steps):
        if position + batch > size:
            order, position = torch.randperm(size, generator=generator), 0
        yield order[position : position + batch]
        position += batch
