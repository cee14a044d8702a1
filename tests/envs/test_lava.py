"""LavaCrossing: equal to minigrid step for step, over many layouts and episodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lpm.envs  # noqa: F401
from lpm.envs.lava import FORWARD, GOAL, LAVA, RIGHT, LavaCrossingVector, generate_layout


@pytest.mark.parametrize(("size", "num_crossings"), [(9, 1), (9, 3), (11, 5)])
def test_equals_minigrid_over_many_episodes(size: int, num_crossings: int) -> None:
    crossing = pytest.importorskip("minigrid.envs").CrossingEnv
    theirs = SyncVectorEnv([lambda: crossing(size=size, num_crossings=num_crossings)] * 4)
    ours = LavaCrossingVector(4, size, num_crossings)
    obs, _ = ours.reset(seed=20)
    expected, _ = theirs.reset(seed=20)
    rng = np.random.default_rng(0)
    episodes = 0
    for _ in range(500):
        np.testing.assert_array_equal(obs, expected["image"])
        np.testing.assert_array_equal(ours._direction, expected["direction"])
        actions = rng.choice(7, 4, p=[0.2, 0.2, 0.48, 0.03, 0.03, 0.03, 0.03])
        expected, *outcome, _ = theirs.step(actions)
        obs, *own, info = ours.step(actions)
        for a, b in zip(own, outcome, strict=True):
            np.testing.assert_array_equal(a, b)
        for row, env in enumerate(theirs.envs):
            x, y = env.unwrapped.agent_pos
            assert info["cell"][row] == (y - 1) * (size - 2) + x - 1
        np.testing.assert_array_equal(info["success"], own[0] > 0)
        episodes += int((own[1] | own[2]).sum())
    assert episodes > 20


def test_goal_reward_equals_minigrid() -> None:
    crossing = pytest.importorskip("minigrid.envs").CrossingEnv
    theirs, ours = crossing(size=5, num_crossings=0), LavaCrossingVector(1, 5, 0)
    theirs.reset(seed=0)
    ours.reset(seed=0)
    for action in (FORWARD, FORWARD, RIGHT, FORWARD, FORWARD):
        _, reward, terminated, _, _ = theirs.step(action)
        _, own_reward, own_terminated, _, info = ours.step(np.array([action]))
        assert own_reward[0] == reward
        assert own_terminated[0] == terminated
    assert reward > 0.9
    assert info["success"][0]


@pytest.mark.parametrize("seed", range(20))
def test_layouts_have_lava_and_a_way_through(seed: int) -> None:
    grid = generate_layout(np.random.default_rng(seed), 11, 5)
    reached, border = {(1, 1)}, [(1, 1)]
    while border:
        y, x = border.pop()
        for place in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if place not in reached and grid[place] in (1, GOAL):
                reached.add(place)
                border.append(place)
    assert (9, 9) in reached
    assert (grid == LAVA).sum() > 20


def test_contract() -> None:
    make = partial(gymnasium.make_vec, "lpm/LavaCrossing-v0", max_episode_steps=20)
    check_seeding(make, 80)
    check_autoreset_modes(make, 80)
    check_save_and_restore(make, 25, 60)
    check_spaces(make, 100)


def test_single_environment() -> None:
    check_env(gymnasium.make("lpm/LavaCrossing-v0", num_crossings=2, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 8}, "size must be an odd number of at least 5, got 8"),
        ({"num_crossings": 99}, r"num_crossings must lie in \[0, 6\] for size 9, got 99"),
        ({"max_episode_steps": 0}, "max_episode_steps must be at least 1, got 0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LavaCrossingVector(**settings)


def test_bad_action() -> None:
    env = LavaCrossingVector(2, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected an action in MultiDiscrete.*got \[0, 7\]"):
        env.step(np.array([0, 7]))
