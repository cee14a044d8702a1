"""DeepSea: transitions and rewards worked out by hand, bsuite's mapping of actions, and the contract."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import lpm.envs  # noqa: F401
from lpm.envs.deep_sea import DeepSeaVector

LEFT, RIGHT = 0, 1


def dive(moves: list[int], size: int = 3, mapping_seed: int = 42) -> tuple[list[int], list[float], list[bool], Any]:
    """Cells, rewards and ends of one episode of these moves, and the last observation."""
    env = DeepSeaVector(1, size, mapping_seed, AutoresetMode.DISABLED)
    obs, info = env.reset(seed=0)
    cells, rewards, ends = [int(info["cell"][0])], [], []
    for move in moves:
        row, column = divmod(cells[-1], size)
        assert np.flatnonzero(obs[0]).tolist() == [cells[-1]]
        right = env.right[row, column]
        obs, reward, terminated, truncated, info = env.step(np.array([right if move == RIGHT else 1 - right]))
        cells.append(int(info["cell"][0]))
        rewards.append(float(reward[0]))
        ends.append(bool(terminated[0]))
        assert not truncated[0]
        assert not info["noise"][0]
    return cells, rewards, ends, obs[0]


@pytest.mark.parametrize(
    ("moves", "places", "rewards"),
    [
        ([RIGHT, RIGHT, RIGHT], [(0, 0), (1, 1), (2, 2), (3, 2)], [-0.01 / 3, -0.01 / 3, 1 - 0.01 / 3]),
        ([RIGHT, RIGHT, LEFT], [(0, 0), (1, 1), (2, 2), (3, 1)], [-0.01 / 3, -0.01 / 3, 0]),
        ([LEFT, RIGHT, RIGHT], [(0, 0), (1, 0), (2, 1), (3, 2)], [0, -0.01 / 3, -0.01 / 3]),
        ([LEFT, LEFT, LEFT], [(0, 0), (1, 0), (2, 0), (3, 0)], [0, 0, 0]),
        ([RIGHT, LEFT, RIGHT], [(0, 0), (1, 1), (2, 0), (3, 1)], [-0.01 / 3, 0, -0.01 / 3]),
    ],
)
def test_transitions_by_hand(moves: list[int], places: list[tuple[int, int]], rewards: list[float]) -> None:
    cells, paid, ends, seen = dive(moves)
    assert cells == [3 * row + column for row, column in places]
    np.testing.assert_allclose(paid, rewards, rtol=1e-12, atol=0)
    assert ends == [False, False, True]
    assert not seen.any()


@pytest.mark.parametrize("size", [2, 10, 40])
def test_only_the_diagonal_pays(size: int) -> None:
    _, rewards, ends, _ = dive([RIGHT] * size, size)
    assert sum(rewards) == pytest.approx(0.99)
    assert ends.index(True) == size - 1
    for wrong in range(size):
        moves = [RIGHT] * size
        moves[wrong] = LEFT
        assert sum(dive(moves, size)[1]) <= 0


def test_the_mapping_is_an_argument_and_not_the_seed() -> None:
    first, other = DeepSeaVector(2), DeepSeaVector(2, mapping_seed=1)
    before = first.right.copy()
    first.reset(seed=7)
    np.testing.assert_array_equal(first.right, before)
    assert (first.right != other.right).any()
    assert 0.3 < first.right.mean() < 0.7
    # NumPy's documented legacy stream, which bsuite draws from: the first row for seed 42
    np.testing.assert_array_equal(first.right[0], np.random.RandomState(42).random_sample(10) > 0.5)


def test_equals_bsuite() -> None:
    theirs = pytest.importorskip("bsuite.environments.deep_sea").DeepSea(6, mapping_seed=42)
    env, rng = gymnasium.make("lpm/DeepSea-v0", size=6), np.random.default_rng(0)
    for _ in range(30):
        obs, _ = env.reset()
        step, done = theirs.reset(), False
        while not done:
            np.testing.assert_array_equal(obs, step.observation.ravel())
            action = int(rng.integers(2))
            obs, reward, done, _, _ = env.step(action)
            step = theirs.step(action)
            assert float(reward) == pytest.approx(step.reward)
            assert done == step.last()


def test_contract() -> None:
    make = partial(gymnasium.make_vec, "lpm/DeepSea-v0", size=5)
    check_seeding(make, 40)
    check_autoreset_modes(make, 40)
    check_save_and_restore(make, 13, 20)
    check_spaces(make, 40)
    check_env(gymnasium.make("lpm/DeepSea-v0", render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 1}, "size must be from 2 to 1000, got 1"),
        ({"mapping_seed": -1}, "mapping_seed must be from 0 to 4294967295, got -1"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepSeaVector(**settings)
