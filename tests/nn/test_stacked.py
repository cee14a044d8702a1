"""Stacked networks compute what as many separate ones would."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lpm.nn.networks import StackedForward, StackedLinear


def member(layer: StackedLinear, k: int, x: Tensor) -> Tensor:
    return x @ layer.weight[k] + layer.bias[k]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_a_stacked_layer_equals_separate_layers(shared: bool, members: int) -> None:
    torch.manual_seed(0)
    layer = StackedLinear(members, 5, 2)
    x = torch.randn(7, 5) if shared else torch.randn(members, 7, 5)
    expected = torch.stack([member(layer, k, x if shared else x[k]) for k in range(members)])
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("blocks", [0, 2])
def test_stacked_models_equal_separate_models(blocks: int) -> None:
    torch.manual_seed(0)
    model = StackedForward(4, 2, hidden=(8, 6), blocks=blocks, members=3)
    phi, action = torch.randn(5, 4), torch.randn(5, 2)
    act = nn.LeakyReLU()
    for k, prediction in enumerate(model(phi, action)):
        h = phi
        for layer in model.hidden:
            h = act(member(layer, k, torch.cat([h, action], 1)))
        for i in range(blocks):
            inner = act(member(model.blocks[2 * i], k, torch.cat([h, action], 1)))
            h = h + member(model.blocks[2 * i + 1], k, torch.cat([inner, action], 1))
        torch.testing.assert_close(prediction, member(model.out, k, torch.cat([h, action], 1)))


def test_initial_spread_is_that_of_a_linear_layer() -> None:
    torch.manual_seed(0)
    layer = StackedLinear(4, 100, 50)
    assert float(layer.weight.abs().max().detach()) <= 0.1
    assert float(layer.weight.std().detach()) == pytest.approx(0.1 / 3**0.5, rel=0.02)


def test_gradients_of_members_do_not_mix() -> None:
    model = StackedForward(4, 0, hidden=(8,), members=3)
    model(torch.randn(5, 4), torch.zeros(5, 0))[1].sum().backward()
    for parameter in model.parameters():
        assert parameter.grad[0].abs().max() == parameter.grad[2].abs().max() == 0
        assert parameter.grad[1].abs().max() > 0
