"""Curiosity-Critic: error now minus the error that training leaves. Noise pays nothing, the new pays at once."""

from __future__ import annotations

import pytest
import torch
from bonus_cases import VECTOR, arm, train
from torch import nn

import lpm

RAW = {"normalise": "none", "hidden": (64,), "critic_hidden": (64,)}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def test_before_the_first_update_it_is_the_forward_error() -> None:
    critic = lpm.make("curiosity_critic", VECTOR, **RAW, **SIZE)
    plain = lpm.make("forward_error", VECTOR, normalise="none", hidden=(64,), **SIZE)
    critic.dynamics.load_state_dict(plain.dynamics.state_dict())
    torch.testing.assert_close(critic.score(arm(1.0, 0)), plain.score(arm(1.0, 0)))


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_a_frozen_model_pays_nothing_on_average_once_the_critic_has_fitted(sigma: float) -> None:
    bonus = lpm.make("curiosity_critic", VECTOR, lr=0.0, **RAW, **SIZE)
    train(bonus, sigma, 60)
    final = torch.cat([bonus.score(arm(sigma, 1000 + i)) for i in range(40)]).mean()
    error = torch.cat([bonus.experience.each(bonus._errors, arm(sigma, 1000 + i)) for i in range(40)]).mean()
    assert error > 0.2
    assert abs(final) < 0.05 * error


def test_on_noise_the_critic_learns_the_variance_and_the_reward_vanishes() -> None:
    # the critic is centred on the latest block: its error is that of a block's mean, σ²·√(2 / (block · D)) = 0.004
    bonus = lpm.make("curiosity_critic", VECTOR, num_envs=16, rollout_steps=128, **RAW)
    blocks = [arm(0.5, seed, steps=128, envs=16) for seed in range(40)]
    for block in blocks[:30]:
        bonus.step(block)
        bonus.update()
    assert torch.cat([bonus.score(b) for b in blocks[30:]]).mean() == pytest.approx(0, abs=0.02)
    assert bonus.experience.each(bonus.baseline, blocks[-1]).mean() == pytest.approx(0.25, abs=0.02)


def test_something_new_and_learnable_pays_at_first_contact() -> None:
    bonus = lpm.make("curiosity_critic", VECTOR, **RAW, **SIZE)
    means = train(bonus, 0.0, 60)
    assert abs(means[-1]) < 0.01
    assert bonus.score(arm(0.0, 0, start=-1.0)).min() > 0.1


def test_the_baseline_is_never_negative() -> None:
    bonus = lpm.make("curiosity_critic", VECTOR, **RAW, **SIZE)
    nn.init.constant_(bonus.critic.body[-1].bias, -5.0)
    assert bonus.experience.each(bonus.baseline, arm(1.0, 0)).abs().max() == 0


def test_the_critic_is_regressed_on_the_error_after_the_update() -> None:
    bonus = lpm.make("curiosity_critic", VECTOR, **RAW, **SIZE)
    block = arm(0.5, 0)
    bonus.step(block)
    reported = bonus.update()["remaining_error"]
    assert torch.allclose(reported, bonus.experience.each(bonus._errors, block).mean())
    assert bonus.critic.mean == pytest.approx(float(reported))


def test_the_norm_is_the_root_of_the_sum_of_squares() -> None:
    square = lpm.make("curiosity_critic", VECTOR, **RAW, **SIZE)
    norm = lpm.make("curiosity_critic", VECTOR, error="norm", **RAW, **SIZE)
    torch.testing.assert_close(norm.score(arm(1.0, 0)), (4 * square.score(arm(1.0, 0))).sqrt())


@pytest.mark.parametrize(("field", "value"), [("error", "l1"), ("critic_epochs", 0), ("critic_lr", -1.0), ("lr", -1.0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"CuriosityCriticConfig\.{field}: expected .*, got "):
        lpm.make("curiosity_critic", VECTOR, **{field: value})
