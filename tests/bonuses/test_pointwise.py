"""Pointwise progress: both models see the same data, so a frozen f pays exactly nothing, whatever the noise."""

from __future__ import annotations

import math

import pytest
import torch
from bonus_cases import VECTOR, arm, train

import lpm
from lpm.bonuses._progress import progress
from lpm.core.transitions import Transitions

RAW = {"normalise": "none", "hidden": (64,)}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def test_progress_by_hand() -> None:
    old, new = torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.0])
    torch.testing.assert_close(progress(old, new, "log", 1e-12), torch.tensor([math.log(4), 0.0]))
    torch.testing.assert_close(progress(old, new, "linear"), torch.tensor([0.75, 0.0]))


def test_a_frozen_model_pays_exactly_nothing_on_noise() -> None:
    bonus = lpm.make("pointwise", VECTOR, lr=0.0, **RAW, **SIZE)
    train(bonus, 2.0, 3)
    assert bonus.score(arm(2.0, 99)).abs().max() == 0


def test_a_learnable_transition_pays_while_it_is_learnt_and_then_no_more() -> None:
    bonus = lpm.make("pointwise", VECTOR, **RAW, **SIZE)
    means = train(bonus, 0.0, 60)
    assert means[0] == 0  # no snapshot yet
    assert min(means[1:6]) > 0
    assert abs(sum(means[-5:]) / 5) < 0.05


@pytest.mark.parametrize("lag", [1, 3])
def test_rewards_of_a_fixed_transition_telescope(lag: int) -> None:
    bonus = lpm.make("pointwise", VECTOR, lag=lag, **RAW, **SIZE)
    block = arm(0.3, 0)
    errors, rewards = [], []
    for _ in range(9):
        inputs = block.obs.flatten(0, 1), torch.tensor([[1.0, 0.0]]).expand(128, 2), block.next_obs.flatten(0, 1)
        with torch.no_grad():
            errors.append(torch.log(bonus.dynamics.errors(*inputs) + bonus.floor).view(block.shape))
        rewards.append(bonus.step(block))
        bonus.update()
    for t, reward in enumerate(rewards):
        expected = errors[t - lag] - errors[t] if t >= lag else torch.zeros_like(reward)
        torch.testing.assert_close(reward, expected, rtol=1e-4, atol=1e-5)
    if lag == 1:
        torch.testing.assert_close(sum(rewards), errors[0] - errors[-1], rtol=1e-4, atol=1e-4)


def test_on_noise_it_varies_less_than_lpm() -> None:
    settings = {"lag": 1, "lr": 1e-3, "epochs": 1, **RAW}
    point = lpm.make("pointwise", VECTOR, **settings, **SIZE)
    other = lpm.make(
        "lpm", VECTOR, normalise="none", dynamics_hidden=(64,), dynamics_steps=1, error_steps=1,
        error_hidden=(16,), buffer_size=128, **SIZE,
    )  # fmt: skip
    for seed in range(150):
        for bonus in (point, other):
            bonus.step(arm(1.0, seed))
            bonus.update()
    fresh = [arm(1.0, 1000 + i) for i in range(20)]
    spread = {name: torch.cat([bonus.score(b) for b in fresh]).std() for name, bonus in (("p", point), ("l", other))}
    assert spread["p"] < 0.1 * spread["l"]
    # LPM's is that of log(χ²₄/4), 0.803, as long as its error model is nearly constant
    assert spread["l"] == pytest.approx(0.803, rel=0.1)


def test_the_linear_form_is_the_difference_of_errors() -> None:
    bonus = lpm.make("pointwise", VECTOR, form="linear", **RAW, **SIZE)
    train(bonus, 0.5, 2)
    block = arm(0.5, 9)
    code = torch.tensor([[1.0, 0.0]]).expand(128, 2)
    inputs = block.obs.flatten(0, 1), code, block.next_obs.flatten(0, 1)
    with torch.no_grad():
        expected = bonus.snapshots[0].errors(*inputs) - bonus.dynamics.errors(*inputs)
    torch.testing.assert_close(bonus.score(block).flatten(), expected)


def test_an_empty_update_leaves_the_snapshot_alone() -> None:
    bonus = lpm.make("pointwise", VECTOR, **RAW, **SIZE)
    train(bonus, 0.5, 2)
    before = bonus.score(arm(0.5, 9))
    block = arm(0.5, 10)
    bonus.step(Transitions.build(block.obs, block.action, block.next_obs, valid=torch.zeros(32, 4, dtype=torch.bool)))
    assert bonus.update() == {}
    assert torch.equal(bonus.score(arm(0.5, 9)), before)


@pytest.mark.parametrize(("field", "value"), [("lag", 0), ("form", "ratio"), ("error_floor", 0.0), ("epochs", 0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"PointwiseConfig\.{field}: expected .*, got "):
        lpm.make("pointwise", VECTOR, **{field: value})
