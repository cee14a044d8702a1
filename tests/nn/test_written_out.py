"""Losses whose gradients are written out train as autograd does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

import lpm
from lpm.nn import written_out
from lpm.nn.experience import Experience, WrittenOut

ACTIONS = (Discrete(5), Discrete(1), MultiDiscrete([3, 2]), Box(-1, 1, (2,)))
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("icm", {}),
    ("icm", {"hidden": (32, 16)}),
    ("idf", {}),
    ("ride", {}),
    ("e3b", {}),
    ("ngu", {}),
    ("ensemble", {}),
    ("ensemble", {"keep": 1.0, "hidden": (32, 16)}),
    ("cig", {}),
)


def block(spaces: lpm.Spaces, seed: int) -> lpm.Transitions:
    generator = torch.Generator().manual_seed(seed)
    stream = torch.randn(13, 4, 3, generator=generator)
    action = torch.stack([torch.as_tensor(spaces.action.sample()) for _ in range(48)]).view(12, 4, *spaces.action_shape)
    return lpm.Transitions.build(stream[:-1], action, stream[1:])


def trained(name: str, action: Space[Any], fields: dict[str, Any]) -> tuple[list[torch.Tensor], torch.Tensor]:
    spaces = lpm.Spaces(Box(-9, 9, (3,)), action)
    action.seed(0)
    bonus = lpm.make(name, spaces, num_envs=4, rollout_steps=12, batch_size=16, seed=1, **fields)
    for seed in range(3):
        bonus.step(block(spaces, seed))
        bonus.update()
    return list(bonus.parameters()), bonus.score(block(spaces, 9))


@pytest.mark.parametrize(("name", "fields"), CASES)
@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_equal_to_autograd(name: str, fields: dict[str, Any], action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand, score = trained(name, action, fields)
    with monkeypatch.context() as changed:
        changed.setattr(written_out, "linear_layers", lambda _: None)
        changed.setattr(written_out.FusedForward, "can", staticmethod(lambda _: False))
        by_autograd, expected = trained(name, action, fields)
    for ours, theirs in zip(by_hand, by_autograd, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)  # Adam enlarges what rounds to 0
    torch.testing.assert_close(score, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["icm", "ride", "e3b", "ngu", "ensemble", "cig"])
def test_it_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds, fit = [], Experience.fit
    monkeypatch.setattr(Experience, "fit", lambda self, loss, *rest: kinds.append(type(loss)) or fit(self, loss, *rest))
    trained(name, Discrete(5), {})
    assert WrittenOut in kinds
