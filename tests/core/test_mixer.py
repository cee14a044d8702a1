"""The mixer: what a learner sees of both rewards, on each scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lpm.agents.agent import scheduled
from lpm.core.mixer import SEGMENT, MixerConfig, RewardMixer, discounted_filter

ALL = np.ones((5, 1), dtype=bool)
SCALES = ("unit", "task", "bonus", "none")


def both(seed: int = 0, steps: int = 3 * SEGMENT, envs: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    task, bonus = rng.normal(5.0, 2.0, (steps, envs)), rng.exponential(0.01, (steps, envs))
    return task.astype(np.float32), bonus.astype(np.float32), np.ones((steps, envs), dtype=bool)


def mixed_by(config: MixerConfig, seed: int = 0) -> tuple[RewardMixer, Any]:
    mixer = RewardMixer(config, 2)
    return mixer, mixer.mix(*both(seed))


# ---- the filter -------------------------------------------------------------------------------------------
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


# ---- the scales -------------------------------------------------------------------------------------------
def test_unit_divides_each_reward_by_its_own_scale() -> None:
    task, bonus, _ = both()
    mixer, mixed = mixed_by(MixerConfig(weight=2.0, scale="unit"))
    np.testing.assert_allclose(mixed.task, task / mixer.task_scale.value, rtol=1e-6)
    np.testing.assert_allclose(mixed.bonus, 2.0 * bonus / mixer.bonus_scale.value, rtol=1e-6)


def test_task_leaves_the_task_and_brings_the_bonus_to_its_scale() -> None:
    task, bonus, _ = both()
    mixer, mixed = mixed_by(MixerConfig(weight=2.0, scale="task"))
    assert np.array_equal(mixed.task, task)
    expected = 2.0 * bonus / mixer.bonus_scale.value * mixer.task_scale.value
    np.testing.assert_allclose(mixed.bonus, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", ["unit", "task"])
def test_the_balance_of_both_does_not_depend_on_their_units(scale: Any) -> None:
    task, bonus, valid = both()
    shares, ratios = [], []
    for of_task, of_bonus in ((1.0, 1.0), (1e3, 1e-2), (1e-4, 1e5)):
        mixer = RewardMixer(MixerConfig(scale=scale), 2)
        mixed = mixer.mix(np.float32(of_task) * task, np.float32(of_bonus) * bonus, valid)
        ratios.append(mixed.bonus.mean() / mixed.task.mean())
        shares.append(mixer.share)
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-4)
    assert shares == pytest.approx([shares[0]] * 3, rel=1e-4)


def test_bonus_divides_by_the_deviation_over_the_run_as_rnd_does() -> None:
    task, bonus, _ = both()
    _, mixed = mixed_by(MixerConfig.of_bonus(weight=2.0))
    filtered, _ = discounted_filter(bonus, np.zeros(2), 0.99)
    np.testing.assert_allclose(mixed.bonus, 2.0 * bonus / filtered.std(), rtol=1e-5)
    assert np.array_equal(mixed.task, task)


def test_none_adds_them_as_they_come() -> None:
    task, bonus, _ = both()
    _, mixed = mixed_by(MixerConfig(weight=0.5, scale="none", extrinsic_weight=2.0))
    assert np.array_equal(mixed.bonus, np.float32(0.5) * bonus)
    assert np.array_equal(mixed.task, 2 * task)
    assert np.array_equal(mixed.total, mixed.task + mixed.bonus)


@pytest.mark.parametrize("scale", ["task", "bonus", "none"])
def test_weight_zero_leaves_the_tasks_reward_bit_for_bit(scale: Any) -> None:
    task, _, _ = both()
    _, mixed = mixed_by(MixerConfig(weight=0.0, scale=scale))
    assert np.array_equal(mixed.total, task)
    assert mixed.total.dtype == np.float32


def test_before_a_reward_there_is_a_bonus() -> None:
    """A sparse task: its scale is 1 until a reward comes, and what is at once divided by it is bounded."""
    _, bonus, valid = both()
    for scale in ("unit", "task"):
        mixer = RewardMixer(MixerConfig(scale=scale), 2)  # type: ignore[arg-type]
        mixed = mixer.mix(np.zeros_like(bonus), bonus, valid)
        assert mixer.task_scale.value == 1.0
        assert mixed.bonus.mean() > 0
        first = np.zeros_like(bonus)
        first[5, 0] = 1e6
        assert np.abs(mixer.mix(first, bonus, valid).total).max() <= (10 + 3 if scale == "unit" else np.inf)


# ---- clipping, weights ------------------------------------------------------------------------------------
def test_clip_is_symmetric_and_before_the_weight() -> None:
    mixer = RewardMixer(MixerConfig(weight=3.0, clip=1.0, scale="none"), 1)
    rewards = np.array([[-9.0], [-0.5], [0.0], [0.5], [9.0]], dtype=np.float32)
    np.testing.assert_allclose(mixer.mix(np.zeros_like(rewards), rewards, ALL).bonus[:, 0], [-3, -1.5, 0, 1.5, 3])


@pytest.mark.parametrize("scale", ["unit", "task"])
def test_on_a_common_scale_both_are_bounded_by_ten_deviations(scale: Any) -> None:
    task, bonus, valid = both()
    bonus[100, 0] = 1e6
    task[100, 0] = 1e6
    mixer = RewardMixer(MixerConfig(weight=1.0, scale=scale), 2)
    mixed = mixer.mix(task, bonus, valid)
    unit = mixer.task_scale.value if scale == "task" else 1.0
    assert mixed.bonus[100, 0] == pytest.approx(10.0 * unit)
    assert mixed.task[100, 0] == (1e6 if scale == "task" else 10.0)


def test_the_tasks_reward_is_clipped_before_its_weight() -> None:
    mixer = RewardMixer(MixerConfig(extrinsic_weight=0.5, clip_task=1.0, scale="bonus"), 1)
    rewards = np.array([[-9.0], [-0.5], [0.0], [0.5], [200.0]], dtype=np.float32)
    expected = [-0.5, -0.25, 0, 0.25, 0.5]
    np.testing.assert_allclose(mixer.mix(rewards, np.zeros_like(rewards), ALL).task[:, 0], expected)
    np.testing.assert_allclose(mixer.task(torch.from_numpy(rewards))[:, 0], expected)


@pytest.mark.parametrize("scale", SCALES)
def test_a_replayed_reward_is_mixed_as_when_it_was_met(scale: Any) -> None:
    task, bonus, _ = both()
    mixer, mixed = mixed_by(MixerConfig(0.5, scale=scale, clip=1.5))
    before = mixer.state_dict()
    np.testing.assert_allclose(mixer.bonus(torch.from_numpy(bonus)).numpy(), mixed.bonus, rtol=1e-6)
    np.testing.assert_allclose(mixer.task(torch.from_numpy(task)).numpy(), mixed.task, rtol=1e-6)
    assert all(torch.equal(before[key], value) for key, value in mixer.state_dict().items())


def test_filler_has_no_bonus_and_no_say() -> None:
    task, bonus, valid = both()
    valid[::3] = False
    spoilt = np.where(valid, bonus, np.float32(1e9))
    mixers = [RewardMixer(MixerConfig(), 2) for _ in range(2)]
    clean, other = (mixer.mix(task, given, valid) for mixer, given in zip(mixers, (bonus, spoilt), strict=True))
    assert np.array_equal(clean.bonus, other.bonus)
    assert (clean.bonus[::3] == 0).all()


# ---- what is logged, state --------------------------------------------------------------------------------
def test_the_share_grows_with_the_weight() -> None:
    shares = [mixed_by(MixerConfig(weight=weight))[0].share for weight in (0.0, 0.1, 1.0, 1e6)]
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0, abs=1e-4)
    metrics = mixed_by(MixerConfig(weight=1.0))[0].metrics()
    assert metrics["share"] == shares[2]
    assert metrics.keys() == {"task_scale", "bonus_scale", "share"}
    assert mixed_by(MixerConfig.of_bonus())[0].metrics() == {}


@pytest.mark.parametrize("scale", SCALES)
def test_state_round_trip(scale: Any) -> None:
    first, second = mixed_by(MixerConfig(scale=scale))[0], RewardMixer(MixerConfig(scale=scale), 2)
    second.load_state_dict(first.state_dict())
    a, b = (mixer.mix(*both(1)).total for mixer in (first, second))
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="3 environments, got 2"):
        RewardMixer(MixerConfig(scale=scale), 3).load_state_dict(first.state_dict())


# ---- bad input --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("name", ["task", "bonus"])
def test_rewards_that_are_no_numbers_are_refused_and_change_nothing(name: str, value: float) -> None:
    mixer, _ = mixed_by(MixerConfig())
    before = mixer.state_dict()
    task, bonus, valid = both()
    given = {"task": task.astype(np.float64), "bonus": bonus.astype(np.float64)}
    given[name][3, 1] = value
    with pytest.raises(ValueError, match=f"{name}: expected finite rewards"):
        mixer.mix(given["task"], given["bonus"], valid)
    assert all(torch.equal(before[key], new) for key, new in mixer.state_dict().items())


def test_rewards_of_another_shape_are_refused() -> None:
    task, bonus, valid = both(envs=3)
    with pytest.raises(ValueError, match=r"task: expected rewards \(T, 2\), got shape \(384, 3\)"):
        RewardMixer(MixerConfig(), 2).mix(task, bonus, valid)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weight", -0.1),
        ("weight", float("inf")),
        ("weight", float("nan")),
        ("extrinsic_weight", -1.0),
        ("scale", "mean"),
        ("gamma", 1.5),
        ("clip", 0.0),
        ("clip_task", -1.0),
    ],
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"MixerConfig.{field}"):
        MixerConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "middle"), [("constant", 4.0), ("linear", 2.5), ("exponential", 2.0), ("cosine", 2.5)]
)
def test_schedules(schedule: Any, middle: float) -> None:
    values = [scheduled(schedule, 4.0, 1.0, p) for p in (0.0, 0.5, 1.0, 2.0)]
    end = 4.0 if schedule == "constant" else 1.0
    assert values == pytest.approx([4.0, middle, end, end])


def test_a_clipped_task_is_measured_as_it_is_clipped() -> None:
    rewards = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (256, 1))
    scales = []
    for factor in (1.0, 1000.0):
        mixer = RewardMixer(MixerConfig(clip_task=1.0), 1)
        mixer.mix(factor * rewards, np.zeros((256, 1), np.float32), np.ones((256, 1), np.bool_))
        scales.append(mixer.task_scale.value)
    assert scales[0] == scales[1] > 0


def test_where_nothing_varies_the_bonus_has_no_share() -> None:
    assert RewardMixer(MixerConfig(), 1).share == 0.0
