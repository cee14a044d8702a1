"""The references that pay nothing."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import random_block
from lpm.core.spaces import Spaces

SPACES = Spaces(Box(-1.0, 1.0, (3,)), Discrete(2))


@pytest.mark.parametrize(("name", "uniform"), [("none", False), ("random", True)])
def test_pays_nothing_and_says_how_to_act(name: str, uniform: bool) -> None:
    bonus = lpm.make(name, SPACES, num_envs=3)
    assert torch.equal(bonus.step(random_block(SPACES)), torch.zeros(8, 3))
    assert bonus.update() == {}
    assert bonus.uniform_policy is uniform


def test_it_follows_its_device() -> None:
    bonus = lpm.make("none", SPACES, device="meta")
    assert bonus.device.type == "meta"
