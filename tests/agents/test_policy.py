from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Categorical, Normal

from lpm.agents.policy import ActorCritic, Chooser, NetworkConfig
from lpm.core.spaces import Spaces

VECTOR = Box(-1, 1, (3,), np.float32)


def chooser(action: Any) -> Chooser:
    return Chooser(Spaces(VECTOR, action))


def test_categorical_equals_torch_distributions() -> None:
    logits, index = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), torch.arange(7)[:, None] % 4
    log_prob, entropy = chooser(Discrete(4)).log_prob(logits, index)
    reference = Categorical(logits=logits)
    torch.testing.assert_close(log_prob, reference.log_prob(index[:, 0]))
    torch.testing.assert_close(entropy, reference.entropy())


def test_factors_are_independent() -> None:
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(1))
    choice = torch.tensor([[0, 2], [1, 1], [0, 0], [1, 2], [1, 0]])
    log_prob, entropy = chooser(MultiDiscrete([2, 3])).log_prob(logits, choice)
    a, b = Categorical(logits=logits[:, :2]), Categorical(logits=logits[:, 2:])
    torch.testing.assert_close(log_prob, a.log_prob(choice[:, 0]) + b.log_prob(choice[:, 1]))
    torch.testing.assert_close(entropy, a.entropy() + b.entropy())


def test_gaussian_equals_torch_distributions() -> None:
    generator = torch.Generator().manual_seed(2)
    policy, choice = torch.randn(6, 4, generator=generator), torch.randn(6, 2, generator=generator)
    log_prob, entropy = chooser(Box(-1, 1, (2,), np.float32)).log_prob(policy, choice)
    reference = Normal(policy[:, :2], policy[:, 2:].exp())
    torch.testing.assert_close(log_prob, reference.log_prob(choice).sum(-1))
    torch.testing.assert_close(entropy, reference.entropy().sum(-1))


def test_sampled_frequencies_are_the_probabilities() -> None:
    c, generator = chooser(Discrete(3)), torch.Generator().manual_seed(3)
    logits = torch.tensor([0.5, 0.2, 0.3]).log()
    choices = c.sample(logits, c.noise(1, 40_000, generator)[0])
    shares = torch.bincount(choices[:, 0], minlength=3) / 40_000
    torch.testing.assert_close(shares, logits.exp(), atol=0.01, rtol=0)
    assert c.greedy(logits[None]).item() == 0


def test_gaussian_samples_are_scaled_to_the_box_and_clipped() -> None:
    c = chooser(Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32)))
    executed = c.executed(np.array([[0.0, 0.0], [0.5, -1.0], [-9.0, 9.0]], np.float32))
    np.testing.assert_allclose(executed, [[0, 5], [1, 0], [-2, 10]])
    assert executed.dtype == np.float32


def test_uniform_fills_the_box() -> None:
    c, generator = chooser(Box(-4, 2, (1,), np.float32)), torch.Generator().manual_seed(4)
    actions = c.executed(c.uniform(c.noise(1, 20_000, generator)[0]).numpy())
    counts, _ = np.histogram(actions, bins=6, range=(-4, 2))
    np.testing.assert_allclose(counts / 20_000, 1 / 6, atol=0.01)


@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete([2, 3]), Box(-1, 1, (2,), np.float32)])
def test_acting_and_learning_see_the_same_policy(action: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    network = ActorCritic(Spaces(VECTOR, action), NetworkConfig(), 2, generator)
    obs = torch.randn(6, 3, generator=generator)
    policy, values = network(obs)
    assert values.shape == (6, 2)
    torch.testing.assert_close(network.policy(obs), policy)
    torch.testing.assert_close(network.values(obs), values)
    assert policy.shape[1] == Spaces(VECTOR, action).policy_width


def test_discrete_actions_count_from_their_start() -> None:
    np.testing.assert_array_equal(chooser(Discrete(3, start=-1)).executed(np.array([[0], [2]])), [-1, 1])
