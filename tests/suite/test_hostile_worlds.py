"""Worlds that change half-way do so, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from lpm.suite.hostile import DELAY, WORLDS, HostileRooms, rows, run

STAY = 4


def seen(world: str, action: int, steps: int, change: int) -> np.ndarray:
    """What one environment shows, step by step."""
    env = HostileRooms(world, num_envs=1, change=change)
    first, _ = env.reset(seed=0)
    return np.stack([first[0], *(env.step(np.array([action]))[0][0] for _ in range(steps))])


@pytest.mark.parametrize(("world", "action"), [("dynamics", 1), ("tv", STAY), ("heavy tails", STAY), ("drift", STAY)])
def test_what_is_seen_differs_from_a_calm_world_after_the_change_only(world: str, action: int) -> None:
    calm, found = seen("calm", action, 8, 4), seen(world, action, 8, 4)
    np.testing.assert_array_equal(found[:4], calm[:4])
    assert not np.array_equal(found[4:], calm[4:])


def test_delayed_noise_comes_when_it_was_asked_for() -> None:
    env = HostileRooms("delayed", num_envs=1)
    env.reset(seed=0)
    shown = [bool(env.step(np.array([STAY if step == 0 else 0]))[4]["noise"][0]) for step in range(2 * DELAY)]
    assert np.flatnonzero(shown).tolist() == [DELAY]


def test_the_reward_moves_to_another_room() -> None:
    env = HostileRooms("reward", num_envs=1, change=2)
    env.reset(seed=0)
    goals = []
    for _ in range(2):
        env.step(np.array([STAY]))
        goals.append(env._goal.copy())
    assert goals[0].any()
    assert goals[1].any()
    assert not (goals[0] & goals[1]).any()


def test_a_run_is_measured_in_both_halves_and_becomes_a_row() -> None:
    result = run("tv", "none", 0, steps=4096)
    assert min(result["cells"]) > 1
    assert result["noise_share"][0] == 0 < result["noise_share"][1]
    table = {bonus: cells for bonus, *cells in rows([result], "cells")}
    assert table["none"][list(WORLDS).index("tv")] == " → ".join(map(str, result["cells"]))


def test_an_unknown_world_is_refused() -> None:
    with pytest.raises(ValueError, match="world: expected one of calm"):
        HostileRooms("hell")
