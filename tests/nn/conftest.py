from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Networks that a test builds by hand start from the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
