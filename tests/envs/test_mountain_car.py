"""MountainCar: Gymnasium's dynamics to the last bit, the noise, the reward points."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import lpm.envs  # noqa: F401
from lpm.envs import mountain_car
from lpm.envs.mountain_car import MountainCar, MountainCarVector, draw_points
from lpm.envs.numba_helpers import uncompiled

MODES: list[Any] = [False, True, "idle"]


@pytest.mark.parametrize("policy", ["random", "pumping", "left"])
@pytest.mark.parametrize("terminate", [False, True])
def test_equals_gymnasium_to_the_last_bit(policy: str, terminate: bool) -> None:
    seeds = range(4)
    ours = MountainCarVector(len(seeds), terminate_at_goal=terminate, max_episode_steps=10_000)
    theirs = [gymnasium.make("MountainCarContinuous-v0").unwrapped for _ in seeds]
    obs, _ = ours.reset(seed=0)
    np.testing.assert_array_equal(obs, [env.reset(seed=seed)[0] for seed, env in enumerate(theirs)])
    rng = np.random.default_rng(1)
    ends = 0
    for _ in range(600):
        if policy == "random":
            actions = rng.uniform(-1, 1, (4, 1)).astype(np.float32)
        else:
            actions = np.sign(obs[:, 1:]) if policy == "pumping" else np.full((4, 1), -1, dtype=np.float32)
        expected = [env.step(action) for env, action in zip(theirs, actions, strict=True)]
        obs, _, terminated, _, _ = ours.step(actions)
        np.testing.assert_array_equal(obs, [step[0] for step in expected])
        assert obs.dtype == np.float32
        if terminate:
            np.testing.assert_array_equal(terminated, [step[2] for step in expected])
            if terminated.any():
                ends += 1
                break
        else:
            assert not terminated.any()
    assert ends == (policy == "pumping" and terminate)


def test_plain_python_kernel_equals_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    compiled_run = _trajectory()
    for name in ("_mix64", "within_one", "cell_at", "drive", "advance"):
        plain = uncompiled(getattr(mountain_car, name).py_func)
        monkeypatch.setattr(mountain_car, name, plain)
    for a, b in zip(compiled_run, _trajectory(), strict=True):
        np.testing.assert_array_equal(a, b)


def _trajectory() -> list[Any]:
    env = MountainCarVector(3, noise=True, max_episode_steps=30)
    out = [env.reset(seed=4)[0]]
    env.action_space.seed(2)
    for _ in range(80):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        out += [obs, reward, terminated, truncated, info["cell"], info["noise"]]
    return out


def test_noise_action_freezes_the_car_and_shows_uniform_noise() -> None:
    env = MountainCarVector(64, noise=True)
    env.reset(seed=0)
    drive = np.tile(np.float32([1.0, -0.5]), (64, 1))
    watch = np.tile(np.float32([1.0, 0.5]), (64, 1))
    obs, *_, info = env.step(drive)
    assert not info["noise"].any()
    true = obs
    seen = []
    for _ in range(200):
        obs, reward, _, _, noisy = env.step(watch)
        assert noisy["noise"].all()
        assert not reward.any()
        np.testing.assert_array_equal(noisy["cell"], info["cell"])
        seen.append(obs)
    plain = MountainCarVector(64)
    plain.reset(seed=0)
    np.testing.assert_array_equal(plain.step(drive[:, :1])[0], true)
    np.testing.assert_array_equal(plain.step(drive[:, :1])[0], env.step(drive)[0])
    values = np.concatenate(seen).ravel()
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() <= 1
    np.testing.assert_allclose(np.histogram(values, 10, (-1, 1))[0] / values.size, 0.1, atol=0.01)
    assert abs(np.corrcoef(np.concatenate(seen).T)[0, 1]) < 0.02


def test_idle_shows_the_frozen_state() -> None:
    env = MountainCarVector(2, noise="idle")
    start, _ = env.reset(seed=0)
    obs, *_, info = env.step(np.ones((2, 2), dtype=np.float32))
    np.testing.assert_array_equal(obs, start)
    assert not info["noise"].any()
    assert env.observation_space == MountainCarVector(2).observation_space


def test_a_point_pays_once_an_episode() -> None:
    env = MountainCar(points=(-0.7, 0.3, 0.5), max_episode_steps=200)
    for _ in range(2):
        obs, _ = env.reset(seed=0)
        rewards = []
        for _ in range(200):
            previous = obs[0]
            obs, reward, *_ = env.step(np.sign(obs[1:]))
            rewards.append(reward)
            crossed = sum((previous - point) * (obs[0] - point) <= 0 for point in (-0.7, 0.3, 0.5))
            assert reward <= crossed
        assert sum(rewards) == 3
        assert max(rewards) == 1


@given(st.integers(0, 2**63))
def test_points_are_drawn_from_the_seed_away_from_the_start(seed: int) -> None:
    points = draw_points(seed)
    np.testing.assert_array_equal(points, draw_points(seed))
    assert ((points >= -1.2) & (points <= 0.6) & ((points <= -0.7 + 1e-9) | (points >= -0.3 - 1e-9))).all()


def test_points_are_shared_by_rows_and_stay_until_the_next_seed() -> None:
    env = MountainCarVector(3, max_episode_steps=5)
    env.reset(seed=1)
    first = env.points
    env.reset()
    np.testing.assert_array_equal(env.points, first)
    env.reset(seed=2)
    assert (env.points != first).all()


@settings(max_examples=30, deadline=None)
@given(st.floats(-1.2, 0.6), st.floats(-0.07, 0.07))
def test_cells_are_the_ten_by_ten_grid(position: float, velocity: float) -> None:
    cell = mountain_car.cell_at(position, velocity)
    column, row = divmod(cell, 10)
    assert column == min(int((position + 1.2) / 1.8 * 10), 9)
    assert row == min(int((velocity + 0.07) / 0.14 * 10), 9)


@pytest.mark.parametrize("noise", MODES)
def test_contract(noise: Any) -> None:
    make = partial(gymnasium.make_vec, "lpm/MountainCar-v0", noise=noise, max_episode_steps=17)
    check_seeding(make, 60)
    check_autoreset_modes(make, 60)
    check_save_and_restore(make, 25, 40)
    check_spaces(make, 300)


@pytest.mark.parametrize("noise", MODES)
def test_single_environment(noise: Any) -> None:
    check_env(gymnasium.make("lpm/MountainCar-v0", noise=noise, render_mode="rgb_array").unwrapped)
    single = gymnasium.make("lpm/MountainCar-v0", noise=noise)
    vector = MountainCarVector(3, noise=noise)
    obs, info = single.reset(seed=6)
    batch, infos = vector.reset(seed=6)
    single.action_space.seed(0)
    for _ in range(50):
        np.testing.assert_array_equal(obs, batch[0])
        assert info == {"cell": infos["cell"][0], "noise": infos["noise"][0]}
        action = single.action_space.sample()
        obs, _, _, _, info = single.step(action)
        batch, _, _, _, infos = vector.step(np.stack([action] * 3))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"noise": "loud"}, "noise must be False, True or \"idle\", got 'loud'"),
        ({"points": (0.0, 0.1)}, "points must be 3 places"),
        ({"points": (0.0, 0.1, 2.0)}, "points must be 3 places"),
        ({"max_episode_steps": 0}, "max_episode_steps must be at least 1, got 0"),
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
    ],
)
def test_bad_settings(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MountainCarVector(**settings_)


def test_numbers_serve_as_truth_values() -> None:
    assert MountainCarVector(noise=1).single_observation_space == MountainCarVector(noise=True).single_observation_space


@pytest.mark.parametrize(
    "actions",
    [
        np.full((2, 1), 1.5, dtype=np.float32),
        np.full((2, 1), np.nan, dtype=np.float32),
        np.zeros((2, 2), dtype=np.float32),
        np.zeros((2, 1)),
        [[0.0], [0.0]],
    ],
)
def test_bad_actions_are_refused_and_change_nothing(actions: Any) -> None:
    env = MountainCarVector(2)
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ValueError, match="expected an action in Box"):
        env.step(actions)
    for key, value in env.get_state().items():
        np.testing.assert_array_equal(value, before[key])


def test_wrong_use_says_what_to_do() -> None:
    env = MountainCarVector(2, autoreset_mode=AutoresetMode.DISABLED, max_episode_steps=1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(np.zeros((2, 1), dtype=np.float32))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.get_state()
    env.reset(seed=0)
    env.step(np.zeros((2, 1), dtype=np.float32))
    with pytest.raises(ValueError, match=r"rows \[0, 1\] have ended"):
        env.step(np.zeros((2, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="at least one True"):
        env.reset(options={"reset_mask": np.zeros(2, dtype=np.bool_)})
    with pytest.raises(ValueError, match=r"boolean array of shape \(2,\)"):
        env.reset(options={"reset_mask": np.zeros(3, dtype=np.bool_)})
    with pytest.raises(ValueError, match="expected one seed for each of the 2 rows, got 3"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="expected a state with the keys"):
        env.set_state({})
