"""The reference that pays nothing."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import random_block
from lpm.core.spaces import Spaces

SPACES = Spaces(Box(-1.0, 1.0, (3,)), Discrete(2))


def test_pays_nothing() -> None:
    bonus = lpm.make("none", SPACES, num_envs=3)
    assert torch.equal(bonus.step(random_block(SPACES)), torch.zeros(8, 3))
    assert bonus.update() == {}


def test_random_actions_are_a_policy() -> None:
    assert "random" not in lpm.names()
    with pytest.raises(ValueError, match="unknown bonus 'random'"):
        lpm.make("random", SPACES)


def test_it_follows_its_device() -> None:
    bonus = lpm.make("none", SPACES, device="meta")
    assert bonus.device.type == "meta"
