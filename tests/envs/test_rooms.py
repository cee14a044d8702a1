"""Rooms: the contract in every family of noise, the layout, and what each family does."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env

import lpm.envs  # noqa: F401
from lpm.envs.noise_sources import GRAY
from lpm.envs.rooms import FAMILIES, WATCH, RoomsVector, generate_layout

UP, DOWN, LEFT, RIGHT = range(4)

PICTURES = np.random.default_rng(0).integers(0, 256, (4000, 32, 32, 3), np.uint8)


@pytest.fixture(autouse=True)
def pictures_without_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpm.envs.rooms.images_or_cifar10", lambda: (PICTURES, "a test's"))


def walk(noise: Any, actions: Any, **settings: Any) -> tuple[RoomsVector, Any, Any, Any]:
    """The environment after these actions in 64 rows, with all observations, cells and noise flags."""
    env = RoomsVector(64, noise, **settings)
    obs, info = env.reset(seed=0)
    seen, cells, shown = [obs], [info["cell"]], [info["noise"]]
    for action in actions:
        obs, _, _, _, info = env.step(np.full(64, action))
        seen.append(obs)
        cells.append(info["cell"])
        shown.append(info["noise"])
    return env, np.array(seen), np.array(cells), np.array(shown)


@pytest.mark.parametrize("noise", FAMILIES)
def test_contract(noise: str) -> None:
    make = partial(gymnasium.make_vec, "lpm/Rooms-v0", noise=noise, room_size=2, max_episode_steps=20)
    check_seeding(make, 60)
    check_autoreset_modes(make, 60)
    check_save_and_restore(make, 25, 45)
    check_spaces(make, 60)
    check_spaces(partial(make, observation="onehot"), 40)


@pytest.mark.parametrize("noise", ["none", "sequence", "room"])
def test_single_environment(noise: str) -> None:
    check_env(gymnasium.make("lpm/Rooms-v0", noise=noise, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("layout", range(10))
def test_every_cell_can_be_reached(layout: int) -> None:
    free = generate_layout(4, 7, layout)
    reached, border = {(1, 1)}, [(1, 1)]
    while border:
        y, x = border.pop()
        for place in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if place not in reached and free[place]:
                reached.add(place)
                border.append(place)
    assert len(reached) == free.sum()
    assert free.sum() == 16 * 49 + 24
    assert not free[[0, -1]].any()
    assert not free[:, [0, -1]].any()


def test_layout_is_an_argument_and_not_the_seed() -> None:
    same, other = RoomsVector(), RoomsVector(layout=1)
    same.reset(seed=9)
    np.testing.assert_array_equal(same.free, generate_layout(4, 7, 0))
    assert (same.free != other.free).any()


def test_walls_stop_and_cells_count_free_places() -> None:
    env, seen, cells, _ = walk("none", [LEFT, UP, RIGHT, DOWN, *[RIGHT] * 9])
    assert (cells[:3] == 0).all()
    assert (cells[3] == 1).all()
    assert (cells[5:] >= cells[4]).all()
    np.testing.assert_allclose(seen[0], -1)
    np.testing.assert_allclose(seen[4, 0], [-1 + 2 / 30] * 2, rtol=1e-6)
    assert env.num_cells == env.free.sum()
    _, info = env.reset(seed=1)
    assert (info["cell"] == 0).all()


def test_onehot_has_a_one_for_each_axis() -> None:
    _, seen, _, _ = walk("none", [RIGHT, DOWN, DOWN], observation="onehot")
    assert seen.shape[2] == 66
    np.testing.assert_array_equal(np.flatnonzero(seen[-1, 0]), [2, 33 + 3])


@pytest.mark.parametrize("noise", ["action", "sequence"])
def test_the_fifth_action_shows_noise_and_stands_still(noise: Any) -> None:
    _, seen, cells, shown = walk(noise, [RIGHT, WATCH, WATCH, RIGHT])
    assert shown[:, 0].tolist() == [False, False, True, True, False]
    assert (cells[1:4] == 1).all()
    watched = seen[2:4]
    assert watched.std() == pytest.approx(1 / np.sqrt(3), abs=0.06)
    np.testing.assert_array_equal(seen[4, :, 1], -1)


def test_the_sequence_goes_on_where_it_stood() -> None:
    env, seen, _, _ = walk("sequence", [WATCH] * 3 + [RIGHT, WATCH])
    again = RoomsVector(64, "sequence")
    again.reset(seed=5)
    again._clock[:] = env._clock - 4
    frames = [again.step(np.full(64, WATCH))[0] for _ in range(4)]
    np.testing.assert_array_equal(np.array(frames), seen[[1, 2, 3, 5]])


def test_photographs_are_grey_levels_of_a_picture_of_the_set() -> None:
    env, seen, cells, shown = walk("photographs", [RIGHT, WATCH, WATCH, RIGHT], observation="onehot")
    assert shown[:, 0].tolist() == [False, False, True, True, False]
    assert (cells[1:4] == 1).all()
    assert env.images_source == "a test's"
    first = PICTURES[:, 0, 7] @ GRAY / 255  # of 66 pixels evenly apart the first is number 7 of 1,024
    assert np.isin(seen[2:4, :, 0].round(5), first.astype(np.float32).round(5)).all()
    assert len(np.unique(seen[2:4].reshape(128, -1), axis=0)) > 120
    assert (seen >= 0).all()
    assert (seen <= 1).all()


def test_walking_against_a_wall_shows_noise() -> None:
    env, seen, cells, shown = walk("wall", [UP, RIGHT, UP, DOWN, LEFT, LEFT])
    assert shown[:, 0].tolist() == [False, True, False, True, False, False, True]
    np.testing.assert_array_equal(seen[~shown][:, 2:], 0)
    assert seen[shown][:, 2:].std() == pytest.approx(1 / np.sqrt(3), abs=0.06)
    np.testing.assert_array_equal(seen[1, :, :2], -1)
    assert env.single_action_space.n == 4  # type: ignore[attr-defined]
    assert (cells[-1] == cells[-2]).all()


def test_half_are_noise_of_about_the_variance_of_the_place() -> None:
    env, seen, _, shown = walk("half", [UP] * 50)
    assert shown.all()
    place = np.stack(np.nonzero(env.free)) / 15 - 16 / 15
    np.testing.assert_allclose(seen[..., 2:].var((0, 1)), place.var(1), rtol=0.2)
    np.testing.assert_array_equal(seen[..., :2], -1)


def test_small_noise_is_a_twentieth_of_the_range() -> None:
    _, seen, _, _ = walk("small", [UP] * 50)
    np.testing.assert_allclose(seen.std((0, 1)), 0.1, rtol=0.05)
    np.testing.assert_allclose(seen.mean((0, 1)), -1, atol=0.01)


def test_noise_grows_with_the_place() -> None:
    env, seen, _, shown = walk("place", [RIGHT] * 6)
    assert not shown.any()
    np.testing.assert_array_equal(seen[0, :, 2:], 0)
    np.testing.assert_allclose(seen[6, :, 2:].std(), 6 / 30 / np.sqrt(3), rtol=0.15)
    env._place[:] = env._side + env._side - 2
    obs, _, _, _, info = env.step(np.full(64, UP))
    np.testing.assert_allclose(obs[:, 2:].std(), 1 / np.sqrt(3), rtol=0.15)
    assert info["noise"].all()


def test_every_other_room_is_noisy() -> None:
    env, seen, _, _ = walk("room", [UP])
    np.testing.assert_array_equal(seen[..., 2:], 0)
    env._place[:] = env._side + 9  # the corner of the next room
    obs, _, _, _, info = env.step(np.full(64, UP))
    assert info["noise"].all()
    assert obs[:, 2:].std() > 0.5


def test_the_video_is_smooth_but_for_its_restarts() -> None:
    _, seen, _, shown = walk("video", [UP] * 200)
    assert shown.all()
    jumps = np.abs(np.diff(seen[..., 2:], axis=0)).max(2) > 0.25  # eight waves of 256 frames move by 0.2 at most
    assert 0.015 < jumps.mean() < 0.03 + 0.01
    assert len(np.unique(seen[..., 2:].reshape(-1, 4), axis=0)) <= 256


def test_sticky_actions_repeat_the_last() -> None:
    _, _, cells, _ = walk("sticky", [RIGHT, DOWN])
    assert (cells[1] == 1).all()  # nothing to repeat yet
    assert 5 < (cells[2] == 2).sum() < 28


def test_moves_are_mirrored_in_every_other_room() -> None:
    env, _, cells, _ = walk("dynamics", [RIGHT])
    assert (cells[1] == 1).all()
    env._place[:] = env._side + 10
    before = env._info()["cell"]
    *_, info = env.step(np.full(64, LEFT))
    np.testing.assert_array_equal(info["cell"], before + 1)
    *_, info = env.step(np.full(64, RIGHT))
    np.testing.assert_array_equal(info["cell"], before)
    assert not info["noise"].any()


def test_doors_let_through_three_times_in_ten() -> None:
    env, _, _, _ = walk("doors", [], max_episode_steps=10_000)
    door = np.flatnonzero(env._door)[0]
    action, step = (DOWN, env._side) if door // env._side % 8 == 0 else (RIGHT, 1)
    passed = 0
    for _ in range(20):
        env._place[:] = door - step
        env.step(np.full(64, action))
        passed += int((env._place == door).sum())
    assert 0.25 < passed / (20 * 64) < 0.35
    env._place[:] = door
    env.step(np.full(64, action))
    assert (env._place == door + step).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "tv"}, "noise must be one of none, action, .*, got 'tv'"),
        ({"observation": "pixels"}, 'observation must be "xy" or "onehot", got \'pixels\''),
        ({"num_rooms": 0}, "num_rooms must be at least 1, got 0"),
        ({"room_size": 1}, "room_size must be at least 2, got 1"),
        ({"layout": -1}, "layout must be at least 0, got -1"),
        ({"max_episode_steps": 0}, "max_episode_steps must be at least 1, got 0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RoomsVector(**settings)
