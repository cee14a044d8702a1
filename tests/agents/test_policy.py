from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Categorical, Normal

from lpm.agents.policy import ActionDistribution, ActorCritic, NetworkConfig
from lpm.core.spaces import Spaces

VECTOR = Box(-1, 1, (3,), np.float32)


def chooser(action: Any) -> ActionDistribution:
    return ActionDistribution(Spaces(VECTOR, action))


def test_categorical_equals_torch_distributions() -> None:
    logits, index = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), torch.arange(7)[:, None] % 4
    log_prob, entropy = chooser(Discrete(4)).log_prob(logits, index)
    reference = Categorical(logits=logits)
    torch.testing.assert_close(log_prob, reference.log_prob(index[:, 0]))
    torch.testing.assert_close(entropy, reference.entropy())


def test_factors_are_independent() -> None:
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(1))
    raw_action = torch.tensor([[0, 2], [1, 1], [0, 0], [1, 2], [1, 0]])
    log_prob, entropy = chooser(MultiDiscrete([2, 3])).log_prob(logits, raw_action)
    a, b = Categorical(logits=logits[:, :2]), Categorical(logits=logits[:, 2:])
    torch.testing.assert_close(log_prob, a.log_prob(raw_action[:, 0]) + b.log_prob(raw_action[:, 1]))
    torch.testing.assert_close(entropy, a.entropy() + b.entropy())


def test_gaussian_equals_torch_distributions() -> None:
    generator = torch.Generator().manual_seed(2)
    policy, raw_action = torch.randn(6, 4, generator=generator), torch.randn(6, 2, generator=generator)
    log_prob, entropy = chooser(Box(-1, 1, (2,), np.float32)).log_prob(policy, raw_action)
    reference = Normal(policy[:, :2], policy[:, 2:].exp())
    torch.testing.assert_close(log_prob, reference.log_prob(raw_action).sum(-1))
    torch.testing.assert_close(entropy, reference.entropy().sum(-1))


def test_sampled_frequencies_are_the_probabilities() -> None:
    c, generator = chooser(Discrete(3)), torch.Generator().manual_seed(3)
    logits = torch.tensor([0.5, 0.2, 0.3]).log()
    raw_actions = c.sample(logits, c.noise(1, 40_000, generator)[0])
    shares = torch.bincount(raw_actions[:, 0], minlength=3) / 40_000
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


@pytest.mark.parametrize(("normalise", "act"), [("none", "tanh"), ("standard", "relu"), ("robust", "tanh")])
@pytest.mark.parametrize("action", [Discrete(3), Box(-1, 1, (2,), np.float32)])
def test_fused_passes_equal_the_modules(action: Any, normalise: Any, act: Any) -> None:
    """Same outputs, same gradients, same acting, with and without observation statistics."""
    generator = torch.Generator().manual_seed(6)
    spaces = Spaces(VECTOR, action)
    plain = ActorCritic(spaces, NetworkConfig(hidden=(16, 8), activation=act, normalise=normalise), 2, generator)
    with torch.no_grad():
        for p in plain.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator))
    plain.input.observe(torch.randn(50, 3, generator=generator) * 4 + 1)
    plain.input.commit()
    fused = copy.deepcopy(plain)
    flat = fused.fuse()
    assert flat is not None
    obs = torch.randn(9, 3, generator=generator) * 30

    def loss_of(network: ActorCritic) -> torch.Tensor:
        policy, values = network(obs)
        loss = policy.square().sum() + (values * torch.tensor([1.0, -2.0])).sin().sum()
        network.backward(loss)
        return policy

    torch.testing.assert_close(loss_of(fused), loss_of(plain), atol=1e-5, rtol=1e-5)
    for (name, a), b in zip(fused.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-4, rtol=1e-4, msg=name)
    with torch.inference_mode():
        (acting, values), spread = fused.for_acting()(obs), fused.shared_log_std()
        assert values is None  # they would cost as much again
        whole = acting if spread is None else torch.cat([acting, spread.expand_as(acting)], 1)
        torch.testing.assert_close(whole, plain.policy(obs), atol=1e-5, rtol=1e-5)
    gradient = torch.cat([p.grad.flatten() for p in plain.parameters() if p.grad is not None])
    actor, critic = fused.parts()
    norm = flat.clip(0.5, [sum(p.numel() for p in part) for part in (actor, critic)])
    torch.testing.assert_close(norm, gradient.norm(), rtol=1e-4, atol=0)
    for part in (actor, critic):  # each by itself: a large error of the critic does not shorten the actor's step
        clipped = torch.cat([p.grad.flatten() for p in part if p.grad is not None])
        torch.testing.assert_close(clipped.norm(), torch.tensor(0.5), rtol=1e-4, atol=0)


def test_other_networks_are_not_fused() -> None:
    generator = torch.Generator().manual_seed(7)
    elu = ActorCritic(Spaces(VECTOR, Discrete(2)), NetworkConfig(activation="elu"), 1, generator)
    assert elu.fuse() is None
    image = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))
    assert ActorCritic(image, NetworkConfig(features=8), 1, generator).fuse() is None


@pytest.mark.parametrize(
    ("observation", "standardised"),
    [(Box(0, 1, (4,), np.uint8), False), (Box(-np.inf, np.inf, (4,)), True), (Box(0, np.inf, (4,)), True)],
)
def test_bits_are_not_standardised(observation: Any, standardised: bool) -> None:
    policy = ActorCritic(Spaces(observation, Discrete(2)), NetworkConfig(), 1, torch.Generator().manual_seed(0))
    assert (policy.input.moments is not None) == standardised
    rare = torch.tensor([[1, 0, 0, 0]] + [[0, 0, 0, 1]] * 999).to(policy.spaces.obs_dtype)
    policy.input.observe(rare)
    policy.input.commit()
    assert (policy.input(rare)[0, 0] > 5) == standardised  # what a rare 1 becomes


def test_numbers_of_one_range_share_one_deviation() -> None:
    one = ActorCritic(Spaces(Box(-1, 11, (2,)), Discrete(2)), NetworkConfig(), 1, torch.Generator().manual_seed(0))
    rows = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 0.1])
    one.input.observe(rows)
    one.input.commit()
    spread = one.input(rows).std(0)
    assert spread[0] / spread[1] == pytest.approx(30, rel=0.1)  # noise stays small
