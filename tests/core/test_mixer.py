from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lpm.core.mixer import MixerConfig, RewardMixer, discounted_filter, scheduled

ALL = np.ones((5, 1), dtype=bool)


def test_filter_runs_along_time_and_carries_over() -> None:
    rewards = np.array([[1.0], [1.0], [1.0], [0.0], [0.0]])
    filtered, carry = discounted_filter(rewards, np.zeros(1), 0.99)
    np.testing.assert_allclose(filtered[:, 0], [1, 1.99, 2.9701, 2.940399, 2.91099501])
    again, _ = discounted_filter(rewards[:1], carry, 0.99)
    np.testing.assert_allclose(again[0, 0], 0.99 * 2.91099501 + 1)


def test_filter_keeps_environments_apart() -> None:
    rewards = np.random.default_rng(0).normal(size=(9, 4))
    together, _ = discounted_filter(rewards, np.zeros(4), 0.9)
    for env in range(4):
        alone, _ = discounted_filter(rewards[:, env : env + 1], np.zeros(1), 0.9)
        np.testing.assert_array_equal(together[:, env], alone[:, 0])


def test_filter_passes_over_filler() -> None:
    valid = np.array([[True], [False], [True]])
    filtered, carry = discounted_filter(np.array([[1.0], [7.0], [1.0]]), np.zeros(1), 0.5, valid)
    np.testing.assert_allclose(filtered[:, 0], [1, 1, 1.5])
    np.testing.assert_allclose(carry, [1.5])


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_splitting_blocks_leaves_the_statistics_unchanged(seed: int, cut: int) -> None:
    rewards = np.random.default_rng(seed).normal(size=(8, 3)).astype(np.float32)
    valid = np.random.default_rng(seed + 1).random((8, 3)) < 0.8
    zero = np.zeros_like(rewards)
    whole, halves = RewardMixer(MixerConfig(), 3), RewardMixer(MixerConfig(), 3)
    whole.mix(zero, rewards, valid, 0.0)
    halves.mix(zero[:cut], rewards[:cut], valid[:cut], 0.0)
    halves.mix(zero[cut:], rewards[cut:], valid[cut:], 0.0)
    assert whole.std == pytest.approx(halves.std, rel=1e-9)


def test_normalisation_divides_by_the_std_of_the_filtered_return_and_keeps_signs() -> None:
    rewards = np.random.default_rng(1).normal(3.0, 1.0, size=(50, 2)).astype(np.float32)
    valid = np.ones((50, 2), dtype=bool)
    mixer = RewardMixer(MixerConfig(weight=2.0), 2)
    streams = mixer.mix(np.zeros_like(rewards), rewards, valid, 0.0)
    filtered, _ = discounted_filter(rewards, np.zeros(2), 0.99)
    np.testing.assert_allclose(streams.bonus, 2.0 * rewards / filtered.std(), rtol=1e-5)
    assert (np.sign(streams.bonus) == np.sign(rewards)).all()


def test_clip_is_symmetric_and_before_the_weight() -> None:
    mixer = RewardMixer(MixerConfig(weight=3.0, clip=1.0, normalise="none"), 1)
    rewards = np.array([[-9.0], [-0.5], [0.0], [0.5], [9.0]], dtype=np.float32)
    streams = mixer.mix(np.zeros_like(rewards), rewards, ALL, 0.0)
    np.testing.assert_allclose(streams.bonus[:, 0], [-3, -1.5, 0, 1.5, 3])


def test_the_tasks_reward_is_clipped_before_its_weight() -> None:
    mixer = RewardMixer(MixerConfig(extrinsic_weight=0.5, clip_task=1.0), 1)
    rewards = np.array([[-9.0], [-0.5], [0.0], [0.5], [200.0]], dtype=np.float32)
    expected = [-0.5, -0.25, 0, 0.25, 0.5]
    np.testing.assert_allclose(mixer.mix(rewards, np.zeros_like(rewards), ALL, 0.0).task[:, 0], expected)
    np.testing.assert_allclose(mixer.task(torch.from_numpy(rewards))[:, 0], expected)


def test_the_parts_and_their_sum() -> None:
    task, bonus = np.full((5, 1), 2.0, dtype=np.float32), np.full((5, 1), 0.5, dtype=np.float32)
    mixed = RewardMixer(MixerConfig(normalise="none", extrinsic_weight=0.5), 1).mix(task, bonus, ALL, 0.0)
    assert [r[0, 0] for r in (mixed.task, mixed.bonus, mixed.total)] == [1.0, 0.5, 1.5]


@pytest.mark.parametrize("normalise", ["return_std", "none"])
def test_a_replayed_bonus_is_weighed_as_when_it_was_met(normalise: Any) -> None:
    rewards = np.random.default_rng(3).normal(2.0, 1.0, size=(9, 2)).astype(np.float32)
    config = MixerConfig(0.5, "linear", 0.1, normalise=normalise, clip=1.5)
    mixer = RewardMixer(config, 2)
    mixed = mixer.mix(np.zeros_like(rewards), rewards, np.ones((9, 2), dtype=bool), 0.25)
    before = mixer.state_dict()
    again = mixer.replay(torch.from_numpy(rewards), 0.25)
    np.testing.assert_allclose(again.numpy(), mixed.bonus, rtol=1e-6)
    assert all(torch.equal(before[key], value) for key, value in mixer.state_dict().items())


def test_constant_zero_and_single_rewards_stay_finite() -> None:
    mixer = RewardMixer(MixerConfig(), 1)
    zero = np.zeros((5, 1), dtype=np.float32)
    assert (mixer.mix(zero, zero, ALL, 0.0).bonus == 0).all()
    single = RewardMixer(MixerConfig(), 1).mix(zero[:1], zero[:1] + 3, ALL[:1], 0.0)
    assert single.bonus[0, 0] == 3.0
    nothing = RewardMixer(MixerConfig(), 1).mix(zero, zero + 3, ~ALL, 0.0)
    assert (nothing.bonus == 0).all()


@pytest.mark.parametrize(
    ("schedule", "middle"), [("constant", 4.0), ("linear", 2.5), ("exponential", 2.0), ("cosine", 2.5)]
)
def test_schedules(schedule: str, middle: float) -> None:
    values = [scheduled(schedule, 4.0, 1.0, p) for p in (0.0, 0.5, 1.0, 2.0)]  # type: ignore[arg-type]
    end = 4.0 if schedule == "constant" else 1.0
    assert values == pytest.approx([4.0, middle, end, end])


def test_state_round_trip() -> None:
    rewards = np.random.default_rng(2).normal(size=(6, 2)).astype(np.float32)
    valid = np.ones((6, 2), dtype=bool)
    first, second = RewardMixer(MixerConfig(), 2), RewardMixer(MixerConfig(), 2)
    first.mix(rewards, rewards, valid, 0.0)
    second.load_state_dict(first.state_dict())
    a, b = (m.mix(rewards, rewards, valid, 0.5).bonus for m in (first, second))
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="3 environments, got 2"):
        RewardMixer(MixerConfig(), 3).load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("field", "value"),
    [("schedule", "sometimes"), ("normalise", "mean"), ("gamma", 1.5), ("clip", 0.0), ("clip_task", -1.0)],
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"MixerConfig.{field}"):
        MixerConfig(**{field: value})  # type: ignore[arg-type]
