import importlib
import math
import sys

import gymnasium as gym
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

pytest.importorskip("numba")

import re

import lpm.envs  # noqa: F401
from lpm.envs.maze import NMaze, NMazeVector, draw_map
from lpm.envs.maze_geometry import START, Action
from lpm.utils.versions import pip_install

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
CONDITIONS = [{}, {"noise": "state"}, {"noise": "action", "images": IMAGES, "sticky": 0.25}]
IDS = ["none", "state", "action"]


def make(**settings):
    return lambda num_envs=1, **more: NMazeVector(num_envs, width=40, height=30, **{**settings, **more})


@pytest.mark.parametrize("settings", CONDITIONS, ids=IDS)
def test_gymnasium_accepts_it(settings):
    env = gym.make("lpm/NMaze-v0", width=40, height=30, render_mode="rgb_array", **settings)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("settings", CONDITIONS, ids=IDS)
def test_contract(settings):
    check_spaces(make(**settings), 20)
    check_seeding(make(max_steps=17, **settings), 40)
    check_save_and_restore(make(max_steps=25, **settings), 15, 20)
    check_autoreset_modes(make(max_steps=9, **settings), 40)


def test_registered_names():
    envs = gym.make_vec("lpm/NMaze-v0", num_envs=3, noise="state")
    frames, _ = envs.reset(seed=0)
    assert frames.shape == (3, 120, 160, 3)
    assert envs.single_action_space == gym.spaces.Discrete(5)
    assert (envs.unwrapped.maze_cells, envs.unwrapped.reachable_cells) == (2176, 1876)
    envs.close()
    env = gym.make("lpm/NMaze-v0", width=80, height=60)
    frame, info = env.reset(seed=0)
    assert frame.shape == (60, 80, 3)
    assert info["cell"] == 8 * 48 + 4
    assert info["pose"].tolist() == list(START)
    assert info["executed"] == -1
    assert not info["noise"]
    env.close()


def test_no_resets_unless_asked_for():
    envs = make()(2)
    envs.reset(seed=0)
    outcomes = [envs.step(np.array([2, 0])) for _ in range(50)]
    assert not any(o[2].any() or o[3].any() or o[1].any() for o in outcomes)
    limited = make(max_steps=3, autoreset_mode=AutoresetMode.DISABLED)(1)
    limited.reset(seed=0)
    assert [bool(limited.step(np.array([0]))[3][0]) for _ in range(3)] == [False, False, True]


def test_state_noise_changes_the_noise_wall_and_nothing_else():
    """From the corridor, looking at the wall: idle frames differ on the wall only, and only with noise."""
    clean, noisy = make()(1), make(noise="state")(1)
    for env in (clean, noisy):
        env.reset(seed=0)
        state = env.get_state()
        state["pose"][0] = (9.0, 11.0, math.pi / 2)
        env.set_state(state)
    idle = np.array([Action.IDLE])
    still = [clean.step(idle)[0][0] for _ in range(2)]
    first, second = (noisy.step(idle) for _ in range(2))
    np.testing.assert_array_equal(*still)
    on_wall = (first[0][0] != still[0]).any(axis=-1)
    changed = (first[0][0] != second[0][0]).any(axis=-1)
    # The wall fills a band of rows over the full width: from 11 m it spans z = 8, heights 0 to 2.74.
    focal = 15 / math.tan(math.radians(30))
    band = np.arange(30) + 0.5
    expected = (band > 15 - focal * 1.24 / 3) & (band < 15 + focal * 1.5 / 3)
    assert not changed[~expected].any()
    assert not on_wall[~expected].any()
    assert changed[expected].mean() > 0.99
    assert first[4]["noise"][0]
    assert not clean.step(idle)[4]["noise"][0]
    # In the arm the wall is out of sight, and the frame is the clean one.
    for env in (clean, noisy):
        env.reset(seed=0)
    a, b = clean.step(idle), noisy.step(idle)
    np.testing.assert_array_equal(a[0], b[0])
    assert not b[4]["noise"][0]


def test_action_noise_shows_an_image_and_freezes_the_pose():
    flat = np.stack([np.full((4, 4, 3), value, dtype=np.uint8) for value in (10, 90, 200)])
    clean, noisy = make()(2), make(noise="action", images=flat)(2)
    for env in (clean, noisy):
        env.reset(seed=4)
    rng = np.random.default_rng(1)
    shown = set()
    for _ in range(60):
        actions = rng.integers(5, size=2)
        before = noisy.get_state()["pose"]
        frames, _, _, _, info = noisy.step(actions)
        expected, _, _, _, clean_info = clean.step(actions)
        np.testing.assert_array_equal(info["pose"], clean_info["pose"])
        for row in range(2):
            assert info["noise"][row] == (actions[row] == Action.IDLE)
            if info["noise"][row]:
                np.testing.assert_array_equal(info["pose"][row], before[row])
                values = np.unique(frames[row])
                assert len(values) == 1
                shown.add(int(values[0]))
            else:
                np.testing.assert_array_equal(frames[row], expected[row])
    assert shown == {10, 90, 200}


def test_sticky_actions_repeat_the_executed_action():
    envs = make(sticky=0.25)(16)
    _, info = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    previous = info["executed"]
    repeated = total = 0
    for t in range(300):
        actions = rng.integers(5, size=16)
        executed = envs.step(actions)[4]["executed"]
        assert ((executed == actions) | (executed == previous)).all()
        if t == 0:
            np.testing.assert_array_equal(executed, actions)
        else:
            differs = actions != previous
            repeated += (executed[differs] == previous[differs]).sum()
            total += differs.sum()
        previous = executed
    assert repeated / total == pytest.approx(0.25, abs=0.03)


def test_drawing_is_independent_of_the_batch_and_of_resets_elsewhere():
    envs = make(noise="state", max_steps=6)(3)
    envs.reset(seed=0)
    for _ in range(4):
        envs.step(np.array([2, 2, 2]))
    before = envs.get_state()["pose"]
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    after = envs.get_state()["pose"]
    assert after[1].tolist() == list(START)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])


def test_picture_holds_the_view_and_a_map():
    env = NMaze(width=80, height=60, render_mode="rgb_array")
    frame, _ = env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (60, 80 + 90, 3)
    np.testing.assert_array_equal(picture[:, :80], frame)
    agent = (draw_map(np.array(START), 120) == (210, 40, 40)).all(axis=-1)
    assert np.argwhere(agent).mean(axis=0) == pytest.approx([13, 20], abs=4)
    env.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "tv"}, 'noise must be "none", "state" or "action", got \'tv\''),
        ({"sticky": 1.5}, r"sticky must be a probability in \[0, 1\], got 1.5"),
        ({"max_steps": 0}, "max_steps must be at least 1 or None, got 0"),
        ({"width": 4}, r"at least 8 pixels, got \(4, 120\)"),
        ({"noise_wall": 12}, "noise_wall must be the index of one of 12 walls, got 12"),
        ({"images": IMAGES}, "images are shown only with noise=\"action\", got 'none'"),
        ({"noise": "action", "images": IMAGES / 255}, r"uint8 array .* got float64 of shape \(5, 32, 32, 3\)"),
        ({"noise": "action", "images": IMAGES[:0]}, "non-empty"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
    ],
)
def test_bad_settings_say_what_was_expected(settings, message):
    with pytest.raises(ValueError, match=message):
        NMazeVector(**settings)


def test_bad_action_says_what_was_expected():
    envs = make()(2)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected an action in .*got \[0, 5\]"):
        envs.step(np.array([0, 5]))
    env = NMaze(width=40, height=30)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected an action in .*got 7"):
        env.step(7)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "lpm.envs.maze_render", raising=False)
    with pytest.raises(ImportError, match=re.escape(pip_install("maze"))):
        importlib.import_module("lpm.envs.maze_render")


def test_the_wall_of_the_suite_is_in_view_at_the_start_and_another_can_be_chosen() -> None:
    """`lpm/NoisyMaze-v0` fills a wall of the first arm; of the long wall between the arms a short run sees nothing."""
    clean, wall = (gym.make_vec("lpm/NoisyMaze-v0", num_envs=2, noise=n, width=36, height=36) for n in ("none", "wall"))
    seen, _ = clean.reset(seed=0)
    noisy, info = wall.reset(seed=0)
    changed = (seen != noisy).any(axis=(1, 3))  # by column
    assert info["noise"].all()
    assert 0.1 < changed.mean() < 0.5  # seen from the side
    assert (noisy[0] != noisy[1]).any()
    for _ in range(18):  # a quarter turn to the left: the wall nearly fills the picture
        seen, noisy = (envs.step(np.full(2, Action.TURN_LEFT))[0] for envs in (clean, wall))
    assert (seen != noisy).any(axis=(1, 3)).mean() > 0.9
    assert not make(noise="state")(2).reset(seed=0)[1]["noise"].any()
