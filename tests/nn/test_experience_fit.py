"""Experience.fit of a regression: the same numbers with and without autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from lpm.core.check import random_block
from lpm.core.spaces import Spaces
from lpm.nn import experience as module
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Experience, regression, successor

SPACES = Spaces(Box(-1, 1, (3,), np.float32), Discrete(2))


def fitted(monkeypatch: pytest.MonkeyPatch, *, autograd: bool) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(2)
    model = DynamicsModel(SPACES, hidden=(8,))
    if autograd:
        monkeypatch.setattr(model, "layers", lambda: None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    experience = Experience(SPACES, 64, "standard")
    experience.observe(random_block(SPACES, filler=True))
    assert experience.begin_update()
    batches = experience.passes(5, 3, torch.Generator().manual_seed(3))
    loss = experience.fit(regression(model, successor), optimizer, batches)
    return loss, [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("at_once", [0, 2**23])
def test_fit_of_a_model(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows are too large to be preprocessed all at once."""
    expected = fitted(monkeypatch, autograd=True)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", at_once)
    torch.testing.assert_close(fitted(monkeypatch, autograd=False), expected, atol=1e-5, rtol=1e-4)
