"""Disagreement: population variance over members, none when they agree, and none in the end on noise."""

from __future__ import annotations

import pytest
import torch
from bonus_cases import VECTOR, arm, train

import lpm
from lpm.bonuses.ensemble import disagreement
from lpm.core.check import random_block
from lpm.core.transitions import Transitions

SMALL = {"features": 16, "hidden": (32,), "encoder_hidden": (32,)}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def settled(**fields: object) -> lpm.IntrinsicReward:
    bonus = lpm.make("ensemble", VECTOR, **SIZE, **SMALL, **fields)
    bonus.step(random_block(VECTOR, steps=32, envs=4))
    bonus.update()
    return bonus


def test_variance_is_that_of_the_population() -> None:
    # sample variance would give 2.5
    assert disagreement(torch.arange(5.0).view(5, 1, 1)).item() == 2.0


def test_equal_members_agree_exactly() -> None:
    bonus = settled()
    with torch.no_grad():
        for parameter in bonus.ensemble.parameters():
            parameter.copy_(parameter[:1].expand_as(parameter).clone())
    assert bonus.score(random_block(VECTOR, seed=1)).max() < 1e-12


def test_members_start_apart() -> None:
    bonus = lpm.make("ensemble", VECTOR, **SIZE, **SMALL)
    assert all(not torch.equal(p[0], p[1]) for p in bonus.ensemble.parameters())


def test_reward_depends_on_observation_and_action_only() -> None:
    bonus, block = settled(), random_block(VECTOR, seed=1)
    reward = bonus.score(block)
    changed = Transitions.build(block.obs, block.action, torch.randn_like(block.next_obs))
    assert torch.equal(bonus.score(changed), reward)
    assert not torch.equal(bonus.score(Transitions.build(block.obs, 1 - block.action, block.next_obs)), reward)


def test_reward_does_not_depend_on_the_order_of_members() -> None:
    bonus, block = settled(), random_block(VECTOR, seed=1)
    reward = bonus.score(block)
    with torch.no_grad():
        for parameter in bonus.ensemble.parameters():
            parameter.copy_(parameter.flip(0).clone())
    torch.testing.assert_close(bonus.score(block), reward)


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_members_agree_in_the_end_on_constant_and_on_noisy_arms(sigma: float) -> None:
    bonus = lpm.make("ensemble", VECTOR, lr=1e-3, **SIZE, **SMALL)
    means = train(bonus, sigma, 120)
    assert means[0] == 0  # no statistics yet
    assert means[1] > 0
    assert means[-1] < (0.05 if sigma == 0 else 0.1) * means[1]


def test_every_member_learns_from_its_own_share_of_samples() -> None:
    bonus = lpm.make("ensemble", VECTOR, num_envs=1, rollout_steps=1, keep=1e-6, epochs=1, **SMALL)
    bonus.step(arm(0.0, 0, steps=1, envs=1))
    assert bonus.update()["ensemble_loss"] == 0
    assert lpm.make("ensemble", VECTOR, keep=1.0, **SIZE, **SMALL).config.keep == 1


@pytest.mark.parametrize(("field", "value"), [("members", 1), ("keep", 0.0), ("clip", 0.0), ("blocks", -1)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"EnsembleConfig\.{field}: expected .*, got "):
        lpm.make("ensemble", VECTOR, **{field: value})
