"""RND: whitened and clipped input, a frozen target, an error that familiarity removes."""

from __future__ import annotations

import copy

import pytest
import torch
from bonus_cases import DIM, IMAGE, MORE_SPACES, VECTOR, arm, train

import lpm
from lpm.core.check import random_block
from lpm.core.transitions import Transitions

FAST = {"lr": 1e-3, "features": 32, "hidden": (32,)}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def settle(bonus: lpm.IntrinsicReward) -> None:
    """One update on unit Gaussian data, so that statistics exist."""
    bonus.step(arm(1.0, 0))
    bonus.update()


def at(value: torch.Tensor) -> Transitions:
    """One transition that ends at `value`."""
    return Transitions.build(
        torch.zeros(1, 1, DIM), torch.zeros(1, 1, dtype=torch.int64), value.expand(1, 1, DIM).contiguous()
    )


def test_nothing_is_paid_before_there_are_statistics() -> None:
    bonus = lpm.make("rnd", VECTOR, **SIZE, **FAST)
    assert bonus.step(arm(1.0, 0)).abs().max() == 0
    bonus.update()
    assert bonus.score(arm(1.0, 1)).min() > 0


def test_a_predictor_that_equals_the_target_pays_nothing() -> None:
    bonus = lpm.make("rnd", VECTOR, extra=0, **SIZE, **FAST)
    settle(bonus)
    bonus.model.predictor[0].load_state_dict(bonus.model.target.state_dict())
    assert bonus.score(arm(1.0, 1)).abs().max() == 0


def test_a_repeated_observation_loses_nine_tenths() -> None:
    bonus = lpm.make("rnd", VECTOR, **SIZE, **FAST)
    settle(bonus)
    bonus.update()
    same = at(torch.tensor(0.7))
    before = bonus.score(same)
    for _ in range(60):
        bonus.step(same)
        bonus.update()
    assert bonus.score(same) < 0.1 * before


def test_novel_pays_more_than_familiar() -> None:
    bonus = lpm.make("rnd", VECTOR, **SIZE, **FAST)
    train(bonus, 1.0, 40)
    familiar = bonus.score(arm(1.0, 99)).mean()
    novel = bonus.score(arm(1.0, 99, start=8.0)).mean()
    assert novel > 3 * familiar


def test_an_absurd_observation_is_clipped() -> None:
    bonus = lpm.make("rnd", VECTOR, **SIZE, **FAST)
    settle(bonus)
    moments = bonus.experience.input.moments
    edge = bonus.score(at(moments.mean + 5.001 * moments.std))
    far = bonus.score(at(moments.mean + 1e6 * moments.std))
    torch.testing.assert_close(far, edge)


def test_the_target_never_changes() -> None:
    bonus = lpm.make("rnd", VECTOR, **SIZE, **FAST)
    before = copy.deepcopy(bonus.model.target.state_dict())
    train(bonus, 1.0, 5)
    assert all(torch.equal(before[k], v) for k, v in bonus.model.target.state_dict().items())
    assert not any(p.requires_grad for p in bonus.model.target.parameters())


def test_rewards_and_learning_look_only_at_the_next_observation() -> None:
    first, second = (lpm.make("rnd", VECTOR, **SIZE, **FAST) for _ in range(2))
    block = arm(1.0, 0)
    other = Transitions.build(torch.randn_like(block.obs), 1 - block.action, block.next_obs)
    for bonus, data in ((first, block), (second, other)):
        bonus.step(data)
        bonus.update()
    torch.testing.assert_close(first.score(block), second.score(other))


def test_only_the_last_channels_count() -> None:
    images = MORE_SPACES["grid/discrete"]
    bonus = lpm.make("rnd", images, channels=1, num_envs=3, rollout_steps=8, **FAST)
    block = random_block(images, seed=0)
    bonus.step(block)
    bonus.update()
    other = block.next_obs.clone()
    other[..., :2] = 255 - other[..., :2]
    kept = Transitions.build(block.obs, block.action, other)
    torch.testing.assert_close(bonus.score(kept), bonus.score(block))
    other[..., 2] = 255 - other[..., 2]
    assert not torch.allclose(bonus.score(kept), bonus.score(block))
    with pytest.raises(ValueError, match="channels: expected an image with at least 2 channels"):
        lpm.make("rnd", IMAGE, channels=2)


def test_proportion_is_the_share_of_samples_that_teach() -> None:
    # with a proportion so small that most minibatches keep nobody, most steps change nothing
    bonus = lpm.make("rnd", VECTOR, num_envs=1, rollout_steps=1, proportion=1e-6, epochs=1, **FAST)
    before = copy.deepcopy(bonus.model.predictor.state_dict())
    bonus.step(at(torch.tensor(0.5)))
    assert bonus.update()["predictor_loss"] == 0
    assert all(torch.equal(before[k], v) for k, v in bonus.model.predictor.state_dict().items())


@pytest.mark.parametrize(("field", "value"), [("clip", 0.0), ("proportion", 0.0), ("features", 0), ("epochs", 0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"RNDConfig\.{field}: expected .*, got "):
        lpm.make("rnd", VECTOR, **{field: value})
