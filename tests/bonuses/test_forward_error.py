"""The forward error: plain MSE, so noise pays its variance for ever."""

from __future__ import annotations

import pytest
import torch
from bonus_cases import VECTOR, arm, train
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import random_block
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

RAW = {"normalise": "none", "hidden": (64,)}


def test_noise_pays_its_variance() -> None:
    bonus = lpm.make("forward_error", VECTOR, num_envs=4, rollout_steps=32, **RAW)
    train(bonus, 0.5, 150)
    final = torch.cat([bonus.score(arm(0.5, 1000 + i)) for i in range(40)]).mean()
    assert final == pytest.approx(0.25, rel=0.05)


def test_a_constant_environment_pays_nothing_in_the_end() -> None:
    bonus = lpm.make("forward_error", VECTOR, num_envs=4, rollout_steps=32, **RAW)
    means = train(bonus, 0.0, 60)
    assert means[0] > 0
    assert means[-1] < 0.05 * means[0]


def test_equals_the_error_that_lpm_takes_the_logarithm_of() -> None:
    settings = {"num_envs": 3, "rollout_steps": 8, "seed": 3}
    plain = lpm.make("forward_error", VECTOR, normalise="none", **settings)
    other = lpm.make("lpm", VECTOR, variant="paper", queue_size=1, **settings)
    other.dynamics.load_state_dict(plain.dynamics.state_dict())
    block = random_block(VECTOR, seed=1)
    reward = plain.score(block)
    other.observe(block)
    queued = other.buffer["error"][: reward.numel()].view_as(reward)
    torch.testing.assert_close(queued.exp() - other.floor, reward, rtol=1e-4, atol=1e-6)


def test_nothing_is_paid_before_the_scale_is_known() -> None:
    bonus = lpm.make("forward_error", VECTOR, num_envs=4, rollout_steps=32)
    assert bonus.step(arm(1.0, 0)).abs().max() == 0
    bonus.update()
    assert bonus.step(arm(1.0, 1)).min() > 0


def test_mnist_variant_has_the_published_layers_and_steps_once_per_batch() -> None:
    spaces = Spaces(Box(0.0, 1.0, (784,)), Discrete(1))
    bonus = lpm.make("forward_error", spaces, variant="mnist", num_envs=32, rollout_steps=1)
    shapes = [tuple(p.shape) for p in bonus.dynamics.parameters() if p.ndim == 2]
    assert shapes == [(784, 784), (784, 784), (784, 784), (784, 1568)]
    pixels = torch.rand(1, 32, 784, generator=torch.Generator().manual_seed(0))
    batch = Transitions.build(pixels, torch.zeros(1, 32, dtype=torch.int64), pixels)
    assert bonus.step(batch).min() > 0
    bonus.update()
    (steps,) = {int(s["step"]) for s in bonus.optimizer("dynamics").state.values()}
    assert steps == 1


@pytest.mark.parametrize(
    ("field", "value"), [("normalise", "min-max"), ("predict", "reward"), ("epochs", 0), ("lr", -1.0), ("warmup", 0)]
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"ForwardErrorConfig\.{field}: expected .*, got "):
        lpm.make("forward_error", VECTOR, **{field: value})
