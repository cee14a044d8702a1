"""Deterministic initialisation that leaves the global random state alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Build modules inside: their initial weights follow from `generator`, and the global state is put back."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
