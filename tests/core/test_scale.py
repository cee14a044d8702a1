"""The scale of a stream of rewards: what it is, and that no quiet start, spike or long rest can set it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.core.mixer import (
    BONUS_QUANTILE,
    CLIP,
    KEPT,
    SEGMENT,
    TASK_QUANTILE,
    TASK_SEGMENTS,
    MixerConfig,
    ReturnScale,
    RewardMixer,
    RunningDeviation,
    discounted_filter,
    lower_quantile,
)

ENVS = 4
seeds = st.integers(0, 2**32 - 1)


def bonus_scale(envs: int = ENVS, **settings: Any) -> ReturnScale:
    return ReturnScale(envs, 0.99, quantile=BONUS_QUANTILE, **settings)


def task_scale(envs: int = ENVS) -> ReturnScale:
    return ReturnScale(envs, 0.99, quantile=TASK_QUANTILE, recent=TASK_SEGMENTS)


def show(scale: Any, rewards: Any) -> Any:
    rewards = np.asarray(rewards)
    scale.observe(rewards, np.ones(rewards.shape, dtype=bool))
    return scale


def stream(segments: int, seed: int = 0, size: float = 1.0) -> Any:
    """Rewards as a bonus gives them: not negative, skewed."""
    return size * np.random.default_rng(seed).exponential(size=(segments * SEGMENT, ENVS)).astype(np.float32)


# ---- what it is -------------------------------------------------------------------------------------------
def test_it_is_a_quantile_of_the_median_deviations_of_segments() -> None:
    rewards = stream(7)
    sizes = []
    for segment in rewards.reshape(7, SEGMENT, ENVS):
        filtered, _ = discounted_filter(segment, np.zeros(ENVS), 0.99)
        sizes.append(float(np.median(filtered.std(0))))
    scale = show(bonus_scale(), rewards)
    assert scale.value == pytest.approx(lower_quantile(np.array(sizes), 0.9))
    assert scale.latest == pytest.approx(sizes[-1])


def test_environments_without_a_reward_do_not_lower_it() -> None:
    rewards = stream(3)
    rewards[:, 1:] = 0
    alone = show(bonus_scale(1), rewards[:, :1])
    assert show(bonus_scale(), rewards).value == pytest.approx(alone.value)


@given(seeds, st.lists(st.integers(1, 400), max_size=4))
@settings(max_examples=30)
def test_splitting_blocks_leaves_it_unchanged(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    rewards, valid = rng.normal(size=(500, 3)), rng.random((500, 3)) < 0.8
    whole, parts = (bonus_scale(3) for _ in range(2))
    whole.observe(rewards, valid)
    cuts = [0, *sorted(min(sum(lengths[: i + 1]), 500) for i in range(len(lengths))), 500]
    for start, stop in pairwise(cuts):
        parts.observe(rewards[start:stop], valid[start:stop])
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    for key, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[key], value, rtol=1e-9, atol=1e-9)


@given(seeds, st.floats(1e-6, 1e6), st.integers(1, 400))
@settings(max_examples=30)
def test_larger_rewards_have_a_scale_as_much_larger(seed: int, factor: float, steps: int) -> None:
    rewards = np.random.default_rng(seed).normal(size=(steps, 3))
    for kind in (bonus_scale, task_scale):
        plain, larger = show(kind(3), rewards), show(kind(3), factor * rewards)
        if steps > 1:
            assert larger.value == pytest.approx(factor * plain.value, rel=1e-6)


@given(seeds)
@settings(max_examples=20)
def test_filler_counts_for_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, valid = rng.normal(size=(300, 3)), rng.random((300, 3)) < 0.5
    one, other = (bonus_scale(3) for _ in range(2))
    one.observe(rewards, valid)
    other.observe(np.where(valid, rewards, 1e9), valid)
    assert one.value == other.value


# ---- what cannot set it -----------------------------------------------------------------------------------
BLACK = np.zeros((10 * SEGMENT, ENVS), np.float32)
FLASH = np.full((SEGMENT, ENVS), 1e7, np.float32)
SPIKE = np.zeros((SEGMENT, ENVS), np.float32)
SPIKE[17, :] = 1e6
REST = np.zeros((100 * SEGMENT, ENVS), np.float32)
AFTER = stream(20, 2)
JITTER = 1e-6 * np.random.default_rng(5).exponential(size=REST.shape).astype(np.float32)


@cache
def undisturbed(before: int, shift: int) -> float:
    """The scale after so many segments, less `shift` steps, and those of AFTER."""
    return float(show(bonus_scale(), np.concatenate((stream(before, 1)[shift:], AFTER))).value)


@pytest.mark.parametrize(
    ("before", "shift"), [(0, 0), (1, 40), (5, 0), (50, 40)]
)  # at the start of a segment or within
@pytest.mark.parametrize(
    "disturbance",
    [(BLACK,), (BLACK, FLASH), (FLASH,), (FLASH, FLASH), (SPIKE,), (BLACK, SPIKE), (REST,), (JITTER,), (JITTER, FLASH)],
    ids=["black", "black flash", "flash", "two flashes", "spike", "black spike", "rest", "jitter", "jitter flash"],
)
def test_twenty_segments_after_a_disturbance_the_bonus_is_what_it_is_without(
    disturbance: Sequence[Any], before: int, shift: int
) -> None:
    disturbed, start = bonus_scale(), stream(before, 1)[shift:]
    for block in (start, *disturbance, AFTER):
        show(disturbed, block)
    with_it, without = (
        np.minimum(AFTER / value, CLIP).mean() for value in (disturbed.value, undisturbed(before, shift))
    )
    assert 0.5 < with_it / without < 2.0


@given(seeds, st.integers(0, 30), st.floats(1.0, 1e9))
@settings(max_examples=20)
def test_one_segment_of_any_size_at_any_time_changes_little(seed: int, before: int, size: float) -> None:
    start, after, odd = stream(before, seed), stream(20, seed + 1), stream(1, seed + 2, size)
    clean = show(bonus_scale(), np.concatenate((start, after))).value
    assert 0.5 < show(bonus_scale(), np.concatenate((start, odd, after))).value / clean < 2.0


def test_a_glitch_in_one_environment_does_not_set_it() -> None:
    rewards = stream(30)
    glitched = rewards.copy()
    glitched[::50, 0] = 1e6  # in every segment
    assert show(bonus_scale(), glitched).value < 2 * show(bonus_scale(), rewards).value


# ---- what follows, and what does not ----------------------------------------------------------------------
def test_a_tasks_scale_follows_rewards_that_shrink_or_grow() -> None:
    for factor in (1e-3, 1e3):
        scale = show(task_scale(), stream(300))
        show(scale, stream(65, 3, factor))
        assert scale.value == pytest.approx(show(task_scale(), stream(65, 3, factor)).value, rel=0.3)


def test_a_dead_bonus_is_no_bonus() -> None:
    """What is left when everything is known is not scaled up: 80 segments alive, 800 at a hundredth of that."""
    mixer = RewardMixer(MixerConfig(weight=1.0), ENVS)
    alive = stream(80)
    valid = np.ones(alive.shape, dtype=bool)
    before = mixer.mix(np.zeros_like(alive), alive, valid).bonus[-SEGMENT:].mean()
    left = stream(1, 1, 0.01)
    for _ in range(800):
        after = mixer.mix(np.zeros_like(left), left, valid[:SEGMENT]).bonus.mean()
    assert 0.005 < after / before < 0.05


def test_the_whole_run_counts_however_long_it_is() -> None:
    """Sizes are thinned out evenly: a first fifth of the run stays a fifth of them."""
    scale = bonus_scale(1)
    for segment in range(2 * KEPT):
        show(scale, np.full((SEGMENT, 1), 1.0 if segment < 0.4 * KEPT else 0.01))
    assert len(scale.state_dict()["sizes"]) == KEPT
    assert scale.value == pytest.approx(show(bonus_scale(1), np.ones((SEGMENT, 1))).value)


# ---- odd rewards ------------------------------------------------------------------------------------------
ODD: dict[str, Callable[[int], Any]] = {
    "zero": lambda t: 0.0,
    "constant": lambda t: 1.0,
    "negative": lambda t: -1.0,
    "huge": lambda t: 1e12,
    "huge once": lambda t: 3e38 * (t == 700),
    "tiny": lambda t: 1e-38 * (t % 7),
    "denormal": lambda t: 1e-45 * (t == 3),
    "once": lambda t: 1.0 * (t == 999_999 % 1000),
    "alternating": lambda t: (-1.0) ** t,
}


@pytest.mark.parametrize("kind", ["unit", "task", "bonus", "none"])
@pytest.mark.parametrize("name", ODD)
def test_odd_rewards_leave_everything_finite(name: str, kind: Any) -> None:
    rewards = np.array([[ODD[name](t)] * 2 for t in range(1000)], dtype=np.float32)
    valid = np.ones(rewards.shape, dtype=bool)
    ordinary = np.random.default_rng(0).random(rewards.shape).astype(np.float32)
    for task, bonus in ((rewards, ordinary), (ordinary, rewards)):
        mixer = RewardMixer(MixerConfig(scale=kind, weight=0.3), 2)
        for start in range(0, 1000, 100):
            rows = slice(start, start + 100)
            mixed = mixer.mix(task[rows], bonus[rows], valid[rows])
            assert np.isfinite(mixed.task).all()
            assert np.isfinite(mixed.bonus).all()
            if kind == "unit":
                assert np.abs(mixed.task).max() <= CLIP
                assert np.abs(mixed.bonus).max() <= 0.3 * CLIP * (1 + 1e-6)
        assert all(np.isfinite(value) for value in mixer.metrics().values())


def test_a_reward_once_in_a_million_steps() -> None:
    scale = task_scale(8)
    quiet = np.zeros((SEGMENT, 8))
    for segment in range(1000):  # 1,024,000 steps
        quiet[60, 3] = 5.0 if segment == 976 else 0.0
        show(scale, quiet)
    assert 0.1 < scale.value < 5.0  # of the one segment that had a reward


def test_constant_rewards_have_the_scale_of_their_sum() -> None:
    filtered, _ = discounted_filter(np.ones((SEGMENT, 1)), np.zeros(1), 0.99)
    assert show(task_scale(1), np.full((3 * SEGMENT, 1), -2.0)).value == pytest.approx(2.0 * filtered.std())


@pytest.mark.parametrize("steps", [8, 16, 32, 64])
def test_a_part_of_the_first_segment_stands_for_the_whole(steps: int) -> None:
    whole = show(bonus_scale(), np.ones((SEGMENT, ENVS))).value
    assert show(bonus_scale(), np.ones((steps, ENVS))).value == pytest.approx(whole, rel=0.3)


# ---- state ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [bonus_scale, task_scale, lambda: RunningDeviation(ENVS, 0.99)])
@pytest.mark.parametrize("steps", [0, 50, SEGMENT, 700])
def test_a_saved_scale_goes_on_exactly(make: Callable[[], Any], steps: int) -> None:
    rewards = stream(12)
    first, second = show(make(), rewards[:steps]) if steps else make(), make()
    second.load_state_dict(first.state_dict())
    for scale in (first, second):
        show(scale, rewards[steps:])
    assert first.value == second.value
    for key, value in first.state_dict().items():
        assert torch.equal(second.state_dict()[key], value)


def test_the_running_deviation_is_that_of_all_sums() -> None:
    rewards = stream(2)
    filtered, _ = discounted_filter(rewards, np.zeros(ENVS), 0.99)
    whole = show(RunningDeviation(ENVS, 0.99), rewards)
    parts = RunningDeviation(ENVS, 0.99)
    for block in np.split(rewards, 4):
        show(parts, block)
    assert whole.value == pytest.approx(filtered.std())
    assert parts.value == pytest.approx(filtered.std())
