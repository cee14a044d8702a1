"""The state of an agent that several processes train: one state, as a single process would have it, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lpm.core.group import RowIndex


def whole_rows(parts: Sequence[Any], shared: Sequence[str]) -> Any:
    """States of environments beside each other; None if they cannot be: then new episodes begin.

    A state is an array or a tensor with an entry per environment, or a dict of such; `shared` names entries that
    belong to all environments together.
    """
    first = parts[0]
    if isinstance(first, dict):
        found = {
            key: first[key] if key.split(".")[-1] in shared else whole_rows([part[key] for part in parts], shared)
            for key in first
        }
        return None if any(value is None for value in found.values()) else found
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    return np.concatenate(parts) if isinstance(first, np.ndarray) and first.ndim else None


def part_of_rows(whole: Any, rank: int, size: int, shared: Sequence[str]) -> Any:
    """The state of the environments of process `rank` of `size`."""
    if isinstance(whole, Mapping):
        return {
            key: value if key.split(".")[-1] in shared else part_of_rows(value, rank, size, shared)
            for key, value in whole.items()
        }
    count = len(whole) // size
    return whole[rank * count : (rank + 1) * count]


def minibatches(order: Tensor, size: int, place: RowIndex | None) -> tuple[Tensor, list[int] | int, list[int] | None]:
    """Of a shuffled `order` of all rows, cut into minibatches of `size`: this process's rows, how many each has, and
    by how many each counts. A minibatch of which it has none is given its first row, which counts 0."""
    if place is None:
        return order, size, None
    table = torch.full((place.total,), -1, device=order.device)
    table[place.index] = torch.arange(len(place.index), device=order.device)
    parts = [part[part >= 0] for part in torch.split(table[order], size)]
    weights = [len(part) for part in parts]
    parts = [part if len(part) else part.new_zeros(1) for part in parts]
    return torch.cat(parts), [len(part) for part in parts], weights
