"""The written-out passes give what autograd gives."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn import experience as module
from lpm.nn.dynamics import DynamicsModel, ErrorModel
from lpm.nn.experience import Experience, LeastSquares, Minibatches, Prepared, Regressor, regression
from lpm.nn.frozen import RandomTargetErrorModel, RandomTargetModel
from lpm.nn.fused import FusedMLP, adam_step, least_squares, linear_layers
from lpm.nn.networks import Encoder, SkipMLP, mlp

SPACES = Spaces(Box(-1, 1, (3,), np.float32), Discrete(2))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("act", ["relu", "leaky_relu", "tanh"])
def test_gradients_are_autograds(act: str) -> None:
    plain = nn.Sequential(Encoder((3,), 4, hidden=(8, 6), act=act), mlp(4, (5,), 2, act))  # type: ignore[arg-type]
    fused = copy.deepcopy(plain)
    layers = linear_layers(fused)
    assert layers is not None
    assert len(layers) == 5
    network = FusedMLP(layers)
    for rows in (7, 3, 7):  # storage of an earlier size is used again
        x, y = torch.randn(rows, 3, generator=generator()), torch.randn(rows, 2, generator=generator())
        outputs = plain(x)
        plain.zero_grad()
        (outputs * y).sum().backward()
        torch.testing.assert_close(network.forward(x), outputs.detach(), atol=1e-6, rtol=1e-5)
        network.backward(y)
        for a, b in zip(fused.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-5)


def test_other_networks_are_left_to_autograd() -> None:
    assert linear_layers(Encoder((1, 36, 36), 8)) is None
    assert linear_layers(SkipMLP(3, (4,), 2)) is None
    assert linear_layers(mlp(3, (4,), 2, "elu")) is None
    assert linear_layers(nn.Sequential(nn.ReLU(), nn.Linear(2, 2))) is None
    assert linear_layers(nn.Sequential(nn.Linear(2, 2, bias=False))) is None
    assert linear_layers(nn.Sequential()) is None
    assert linear_layers(SkipMLP(3, (), 2)) is not None


def test_least_squares_descends_as_autograd_does() -> None:
    plain = mlp(3, (16, 16), 2)
    fused = copy.deepcopy(plain)
    optimizers = [torch.optim.Adam(net.parameters(), lr=1e-2) for net in (plain, fused)]
    batches = [(torch.randn(8, 3, generator=generator()), torch.randn(8, 2, generator=generator())) for _ in range(5)]
    layers = linear_layers(fused)
    assert layers is not None
    losses = least_squares(layers, batches, optimizers[1])
    for (x, y), found in zip(batches, losses, strict=True):
        loss = (plain(x) - y).square().mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
        torch.testing.assert_close(found, loss.detach(), atol=1e-5, rtol=1e-5)


def models() -> dict[str, Regressor]:
    torch.manual_seed(1)
    random_target = RandomTargetModel(SPACES, features=6, hidden=(5,), extra=2)
    g = ErrorModel(SPACES, hidden=(8,), outputs=3)
    for parameter in g.body[-1].parameters():
        nn.init.normal_(parameter)
    g.mean.fill_(-2.0)
    g.scale.fill_(0.5)
    return {
        "f": DynamicsModel(SPACES, hidden=(8, 8)),
        "delta": DynamicsModel(SPACES, hidden=(8, 8), delta=True),
        "g": g,
        "random target": random_target,
        "its g": RandomTargetErrorModel(random_target, SPACES, hidden=(8,)),
    }


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("at_once", [1, 2**23])
def test_fit_is_the_same_with_and_without_autograd(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also however many minibatches are gathered at once."""
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", at_once)
    x, x_next = torch.randn(2, 1, 20, 3, generator=generator())
    experience = Experience(SPACES, 20)
    experience.observe(Transitions.build(x, torch.randint(2, (1, 20), generator=generator()), x_next))
    batches = [torch.randperm(20, generator=generator())[:6] for _ in range(4)]

    def view(rows: Prepared) -> tuple[Tensor, Tensor, Tensor]:
        return rows.x, rows.code, rows.x_next if name in ("f", "delta", "random target") else rows.x_next[:, 0]

    def run(fused: bool) -> tuple[Tensor, list[Tensor]]:
        model = models()[name]
        assert isinstance(model, nn.Module)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        if not fused:
            monkeypatch.setattr(model, "layers", lambda: None)
        assert isinstance(regression(model, view), LeastSquares) == fused
        loss = experience.fit(regression(model, view), optimizer, Minibatches(torch.arange(20), batches))
        return loss, [p.detach() for p in model.parameters()]

    (loss, parameters), (expected, others) = run(True), run(False)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(parameters, others, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"fused": False}])
def test_adam_step_is_the_step_of_adam(options: dict[str, Any]) -> None:
    plain = mlp(3, (4,), 2)
    twin = copy.deepcopy(plain)
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.1, **{"fused": True, **options}) for net in (plain, twin)]
    for step in range(3):
        for p, q in zip(plain.parameters(), twin.parameters(), strict=True):
            p.grad, q.grad = torch.full_like(p, step - 0.5), torch.full_like(q, step - 0.5)
        optimizers[0].step()
        adam_step(optimizers[1])
        assert all(torch.equal(p, q) for p, q in zip(plain.parameters(), twin.parameters(), strict=True))
