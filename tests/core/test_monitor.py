"""Each condition is found once, after it has held for long enough, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lpm.core.mixer import SEGMENT, MixerConfig, RewardMixer
from lpm.core.monitor import PATIENCE, BonusMonitor

VALID = np.ones((SEGMENT, 2), dtype=bool)


def segment(mixer: RewardMixer, task: float = 1.0, bonus: float = 1.0) -> None:
    rng = np.random.default_rng(0)
    rewards = rng.random((2, SEGMENT, 2)).astype(np.float32)
    mixer.mix(np.float32(task) * rewards[0], np.float32(bonus) * rewards[1], VALID)


def ordinary(**settings: Any) -> RewardMixer:
    mixer = RewardMixer(MixerConfig(**settings), 2)
    for _ in range(20):
        segment(mixer)
    return mixer


# name -> (settings of the mixer, size of the task's reward, of the bonus, what the monitor is told besides)
Told = dict[str, Any]
CASES: dict[str, tuple[dict[str, Any], float, float, Callable[[int], Told]]] = {
    "dominates": ({"weight": 100.0}, 1.0, 1.0, lambda i: {}),
    "dead": ({}, 1.0, 1e-5, lambda i: {}),
    "noise": ({}, 1.0, 1.0, lambda i: {"metrics": {"unpredictable": 0.9}, "mean_return": 5.0 if i else 10.0}),
    "clipped": ({}, 1.0, 1.0, lambda i: {"clipped": 0.2}),
}


def run(name: str, updates: int, **settings: Any) -> tuple[BonusMonitor, list[int]]:
    """The monitor, and in which updates it found something new."""
    own, task, bonus, told = CASES[name]
    mixer, monitor, found = ordinary(**{**own, **settings}), BonusMonitor(), []
    for update in range(updates):
        segment(mixer, task, bonus)
        messages = monitor.observe(mixer, **{"metrics": {}, **told(update)})
        found += [update] * len(messages)
    return monitor, found


@pytest.mark.parametrize("name", CASES)
def test_each_condition_is_found_once_after_it_has_held_long_enough(name: str) -> None:
    monitor, found = run(name, 3 * PATIENCE)
    first = PATIENCE if name == "noise" else PATIENCE - 1  # the return has fallen from the second update on
    assert found == [first]
    assert monitor.found == {name}
    assert run(name, PATIENCE - 1)[1] == []


@pytest.mark.parametrize("name", CASES)
def test_a_condition_that_pauses_begins_anew(name: str) -> None:
    own, task, bonus, told = CASES[name]
    mixer, monitor = ordinary(**own), BonusMonitor()
    quiet = ordinary()
    for update in range(3 * PATIENCE):
        if update % (PATIENCE // 2) == PATIENCE // 2 - 1:
            monitor.observe(quiet, {}, mean_return=20.0)
        else:
            segment(mixer, task, bonus)
            assert monitor.observe(mixer, **{"metrics": {}, **told(update)}) == []


def test_an_ordinary_run_has_none() -> None:
    mixer, monitor = ordinary(), BonusMonitor()
    for update in range(5 * PATIENCE):
        segment(mixer)
        assert monitor.observe(mixer, {"unpredictable": 0.9}, mean_return=float(update), clipped=0.01) == []


@pytest.mark.parametrize("name", CASES)
def test_an_experiment_with_a_weight_of_its_own_is_left_alone(name: str) -> None:
    assert run(name, 3 * PATIENCE, scale="bonus")[1] == []


@pytest.mark.parametrize("name", ["dominates", "dead", "noise"])
def test_weight_zero_has_nothing_to_warn_of(name: str) -> None:
    assert run(name, 3 * PATIENCE, weight=0.0)[1] == []


def test_the_bonus_may_dominate_where_the_task_is_left_out_or_has_no_reward() -> None:
    assert run("dominates", 3 * PATIENCE, extrinsic_weight=0.0)[1] == []
    mixer, monitor = RewardMixer(MixerConfig(), 2), BonusMonitor()
    for _ in range(2 * PATIENCE):
        segment(mixer, task=0.0)
        assert monitor.observe(mixer, {}) == []
    assert mixer.share == 1.0


def test_a_bonus_that_never_was_is_dead() -> None:
    mixer, monitor = RewardMixer(MixerConfig(), 2), BonusMonitor()
    for _ in range(2 * PATIENCE):
        segment(mixer, bonus=0.0)
        monitor.observe(mixer, {})
    assert monitor.found == {"dead"}
