"""Random network distillation."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from lpm import Spaces
from lpm.nn.frozen import RandomTargetErrorModel, RandomTargetModel

VECTOR = Spaces(Box(-1, 1, (4,)), Discrete(2))
IMAGE = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))


@pytest.mark.parametrize("spaces", [VECTOR, IMAGE], ids=["vector", "image"])
def test_only_the_predictor_learns(spaces: Spaces) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = RandomTargetModel(spaces, features=8, hidden=(16,))
        x = torch.rand(16, *spaces.input_shape)
    frozen = copy.deepcopy(model.target.state_dict())
    assert all(not p.requires_grad for p in model.target.parameters())
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    errors = []
    for _ in range(60):
        loss = model.errors(x, x, x).mean()
        errors.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert errors[-1] < 0.2 * errors[0]
    assert all(torch.equal(frozen[name], value) for name, value in model.target.state_dict().items())


def test_the_error_is_of_the_next_observation() -> None:
    model = RandomTargetModel(VECTOR, features=8)
    x, y, action = torch.rand(3, 4), torch.rand(3, 4), torch.rand(3, 2)
    expected = (model.predictor(y) - model.target(y)).square().mean(1)
    assert torch.equal(model.errors(x, action, y), expected)
    assert model.errors(x, action, y).shape == (3,)


@pytest.mark.parametrize(("extra", "linears"), [(0, 3), (1, 4), (2, 5)])
def test_extra_layers_of_the_predictor(extra: int, linears: int) -> None:
    model = RandomTargetModel(VECTOR, features=8, hidden=(16, 16), extra=extra)
    assert sum(isinstance(m, nn.Linear) for m in model.target.modules()) == 3
    assert sum(isinstance(m, nn.Linear) for m in model.predictor.modules()) == linears
    assert model.predictor(torch.rand(2, 4)).shape == (2, 8)


def test_outputs_take_both_signs() -> None:
    """Neither network ends in an activation, or half of the target could not be told apart."""
    model = RandomTargetModel(VECTOR, features=64)
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    for output in (model.target(x), model.predictor(x)):
        assert (output < 0).any()
        assert (output > 0).any()


def test_error_model_reads_the_target_without_owning_it() -> None:
    model = RandomTargetModel(VECTOR, features=8)
    error_model = RandomTargetErrorModel(model, VECTOR, hidden=(8,))
    assert all(name.startswith("body.") for name in error_model.state_dict())
    x, action = torch.rand(5, 4), torch.eye(2)[torch.tensor([0, 1, 0, 1, 1])]
    assert error_model(x, action).shape == (5, 1)
    error_model.loss(x, action, torch.ones(5)).backward()
    assert all(p.grad is None for p in model.parameters())
    expected = (error_model(x, action)[:, 0] - 1).square().mean()
    torch.testing.assert_close(error_model.loss(x, action, torch.ones(5)), expected)


def test_a_deep_copy_reads_the_copied_target() -> None:
    pair = nn.ModuleDict({"model": (model := RandomTargetModel(VECTOR, features=8))})
    pair["errors"] = RandomTargetErrorModel(model, VECTOR, hidden=(8,))
    twin = copy.deepcopy(pair)
    assert twin["errors"]._model[0] is twin["model"]
