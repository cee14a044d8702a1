"""Inverse dynamics heads for every action space."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import nn

from lpm.core.spaces import Spaces
from lpm.nn.dynamics import InverseModel

OBS = Box(-1.0, 1.0, (4,))
SPACES = {
    "discrete": Spaces(OBS, Discrete(3, start=5)),
    "single": Spaces(OBS, Discrete(1)),
    "multi_discrete": Spaces(OBS, MultiDiscrete([3, 2])),
    "multi_binary": Spaces(OBS, MultiBinary(4)),
    "box1": Spaces(OBS, Box(-2.0, 2.0, (1,))),
    "box3": Spaces(OBS, Box(-2.0, 2.0, (3,))),
    "box2x2": Spaces(OBS, Box(-np.inf, np.inf, (2, 2))),
}


def sample(spaces: Spaces, count: int) -> torch.Tensor:
    spaces.action.seed(0)
    actions = torch.as_tensor(np.stack([np.asarray(spaces.action.sample()) for _ in range(count)]))
    return actions.to(spaces.action_dtype)


def silent(spaces: Spaces) -> InverseModel:
    """A head whose output is 0 whatever it sees."""
    head = InverseModel(spaces, 6)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    return head


@torch.no_grad()
def accuracy(head: InverseModel, phi: torch.Tensor, phi_next: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """The share of factors that are right, or of the variance of continuous actions that is explained; at most 1."""
    output = head(phi, phi_next)
    if head.continuous:
        target = head.spaces.encode_action(action)
        return 1 - (output - target).square().mean() / (target - target.mean(0)).square().mean()
    guess = torch.stack([logits.argmax(1) for logits in output.split(list(head.spaces.factors), dim=1)], 1)
    return (guess == head.spaces.action_index(action)).float().mean()


@pytest.mark.parametrize("name", SPACES)
def test_one_loss_per_sample_for_every_action_space(name: str) -> None:
    spaces = SPACES[name]
    torch.manual_seed(0)
    head, actions = InverseModel(spaces, 6), sample(spaces, 8)
    phi, phi_next = torch.randn(8, 6), torch.randn(8, 6)
    loss = head.loss(phi, phi_next, actions)
    assert loss.shape == (8,)
    # no sample may see another's: what a (B, A) by (B,) broadcast would get wrong
    alone = torch.cat([head.loss(phi[i : i + 1], phi_next[i : i + 1], actions[i : i + 1]) for i in range(8)])
    torch.testing.assert_close(loss, alone)


def test_values_by_hand() -> None:
    phi = torch.zeros(2, 6)
    discrete = silent(SPACES["discrete"]).loss(phi, phi, torch.tensor([5, 7]))
    torch.testing.assert_close(discrete, torch.full((2,), math.log(3)))
    factors = silent(SPACES["multi_discrete"]).loss(phi, phi, torch.tensor([[0, 1], [2, 0]]))
    torch.testing.assert_close(factors, torch.full((2,), math.log(3) + math.log(2)))
    # the action (2, -1, 0) in [-2, 2] is encoded as (1, -0.5, 0)
    box = silent(SPACES["box3"]).loss(phi, phi, torch.tensor([[2.0, -1.0, 0.0], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(box, torch.tensor([0.5 * 1.25, 0.0]))


def test_a_single_action_carries_no_loss() -> None:
    phi = torch.randn(3, 6)
    assert InverseModel(SPACES["single"], 6).loss(phi, phi, torch.zeros(3, dtype=torch.int64)).abs().max() == 0


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "box3"])
def test_learns_actions_that_the_features_show(name: str) -> None:
    spaces = SPACES[name]
    torch.manual_seed(0)
    actions = sample(spaces, 128)
    code = spaces.encode_action(actions)
    phi = torch.randn(128, 6)
    phi_next = phi + nn.functional.pad(code, (0, 6 - code.shape[1]))
    head = InverseModel(spaces, 6)
    before = accuracy(head, phi, phi_next, actions)
    optimizer = torch.optim.Adam(head.parameters(), 1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        head.loss(phi, phi_next, actions).mean().backward()
        optimizer.step()
    assert before < 0.8 < 0.95 < accuracy(head, phi, phi_next, actions) <= 1
