"""Atari: preprocessing, idle actions, images in the frame stack, Montezuma's rooms, saving."""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import lpm.envs  # noqa: F401

pytest.importorskip("ale_py")

import ale_py
from ale_py.vector_env import AtariVectorEnv

from lpm.envs.atari import MONTEZUMA, AtariVector, area_matrix, cell_of, noise_screen, rom_name, rom_path, rooms_of
from lpm.utils.versions import pip_install

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
FRAMES = noise_screen(IMAGES, "tile").frames(np.arange(5))
make = partial(gymnasium.make_vec, "lpm/Atari-v0", images=IMAGES)


def is_image(frame: Any) -> bool:
    return any((frame == image).all() for image in FRAMES)


@pytest.mark.parametrize(
    ("game", "size", "ties"),
    # 42 pixels: five rows of the screen in each, so that more averages lie half-way
    [("space_invaders", 84, 1e-3), ("up_n_down", 84, 1e-3), (MONTEZUMA, 84, 1e-3), ("ms_pacman", 42, 1e-2)],
)
def test_equals_ale_pys_own_vector_environment(game: str, size: int, ties: float) -> None:
    screen = {"img_height": size, "img_width": size}
    plain = {"reward_clipping": False, "use_fire_reset": False, "episodic_life": False}
    native = AtariVectorEnv(game, 2, noop_max=0, repeat_action_probability=0.0, **plain, **screen)
    ours = AtariVector(2, game, noop_max=0, size=size, idle_actions=0)
    assert native.single_observation_space == ours.single_observation_space
    assert ours.single_observation_space.shape == (4, size, size)
    assert native.single_action_space == ours.single_action_space
    frames = [env.reset(seed=np.arange(2))[0] if env is native else env.reset(seed=0)[0] for env in (native, ours)]
    differing, total = 0, 0
    for actions in np.random.default_rng(0).integers(0, native.single_action_space.n, (60, 2)):
        steps = [env.step(actions) for env in (native, ours)]
        frames = [step[0].astype(np.int64) for step in steps]
        # Averages that lie half-way between two gray levels may round either way.
        assert np.abs(frames[0] - frames[1]).max() <= 1
        differing, total = differing + (frames[0] != frames[1]).sum(), total + frames[0].size
        for index in (1, 2, 3):
            np.testing.assert_array_equal(steps[0][index], steps[1][index])
        np.testing.assert_array_equal(steps[0][4]["lives"], steps[1][4]["lives"])
    assert differing / total < ties


def test_sticky_actions_repeat_the_last_frames_action() -> None:
    settings: dict[str, Any] = {"game": "space_invaders", "noop_max": 0}
    plain, never, always = (make(num_envs=1, repeat_action_probability=p, **settings) for p in (0.0, 1e-9, 1.0))
    noop = make(num_envs=1, **settings)
    for env in (plain, never, always, noop):
        env.reset(seed=0)
    for action in (*[3] * 40, 2, 3, 1):
        walked, stood = plain.step(np.array([action]))[0], noop.step(np.array([0]))[0]
        np.testing.assert_array_equal(never.step(np.array([action]))[0], walked)
        np.testing.assert_array_equal(always.step(np.array([action]))[0], stood)
    assert (walked != stood).any()
    check_save_and_restore(partial(make, repeat_action_probability=0.5, **settings), 5, 10)


def test_idle_actions_are_noops_and_the_stack_carries_the_image() -> None:
    settings: dict[str, Any] = {"game": "space_invaders", "noop_max": 0}
    noisy = make(num_envs=2, noise=True, **settings)
    clean = make(num_envs=2, **settings)
    native_actions = int(noisy.single_action_space.n) - 2
    assert clean.single_action_space == noisy.single_action_space
    noisy.reset(seed=0)
    clean.reset(seed=0)
    history = []
    for action in [1, 1, native_actions, 1, native_actions + 1, 1, 1, 1, 1, 0]:
        actions = np.array([action, 3])
        obs, reward, *_, info = noisy.step(actions)
        truth, true_reward, *_, clean_info = clean.step(actions)
        idle = action >= native_actions
        history.append(idle)
        np.testing.assert_array_equal(info["noise"], [idle, False])
        assert not clean_info["noise"].any()
        np.testing.assert_array_equal(reward, true_reward)
        np.testing.assert_array_equal(obs[1], truth[1])
        for age in range(min(4, len(history))):
            if history[-1 - age]:
                assert is_image(obs[0, 3 - age])
            else:
                np.testing.assert_array_equal(obs[0, 3 - age], truth[0, 3 - age])
    noop = make(num_envs=2, **settings)
    noop.reset(seed=0)
    idle_env = make(num_envs=2, **settings)
    idle_env.reset(seed=0)
    np.testing.assert_array_equal(noop.step(np.array([0, 0]))[0], idle_env.step(np.full(2, native_actions + 1))[0])


def test_the_small_screen_shows_small_images() -> None:
    env = make(num_envs=1, game="ms_pacman", noise=True, size=42)
    env.reset(seed=0)
    obs, *_ = env.step(np.array([env.single_action_space.n - 1]))
    frames = noise_screen(IMAGES, "tile", 42).frames(np.arange(5))
    assert any((obs[0, 3] == image).all() for image in frames)


def test_autoreset_and_seeding() -> None:
    build = partial(make, game="space_invaders", noise=True, max_episode_frames=120)
    check_autoreset_modes(build, 40)
    check_seeding(build, 40)
    check_spaces(build, 45)


def test_save_and_restore() -> None:
    build = partial(make, game=MONTEZUMA, noise=True, max_episode_frames=160)
    check_save_and_restore(build, 9, 30)


@pytest.mark.parametrize("noise", [False, True])
def test_single_environment(noise: bool) -> None:
    env = gymnasium.make("lpm/Atari-v0", game="MsPacman", noise=noise, images=IMAGES, render_mode="rgb_array")
    check_env(env.unwrapped)


def test_montezuma_reports_its_place() -> None:
    env = make(num_envs=1, game="Montezuma's Revenge", noop_max=0)
    _, info = env.reset(seed=0)
    start = info["cell"][0]
    assert start == cell_of(77, 235, 1)
    assert info["room"][0] == 1
    right = env._game_actions.index(ale_py.Action.RIGHT.value)
    for _ in range(12):
        *_, info = env.step(np.array([right]))
    assert info["cell"][0] != start
    assert rooms_of(info["cell"])[0] == info["room"][0] == 1
    assert env.num_cells == 24 * 256 * 256


def test_area_matrix_averages() -> None:
    matrix = area_matrix(210, 84)
    assert matrix[0, :4].tolist() == [2.0, 2.0, 1.0, 0.0]
    np.testing.assert_array_equal(matrix.sum(axis=1), 5.0)
    np.testing.assert_array_equal(matrix.sum(axis=0), 2.0)
    np.testing.assert_array_equal(area_matrix(160, 84).sum(axis=1), 40.0)


def test_a_list_of_seeds_is_one_seed_per_row() -> None:
    settings: dict[str, Any] = {"game": "space_invaders", "noise": True}
    listed, counted = make(num_envs=3, **settings), make(num_envs=3, **settings)
    np.testing.assert_array_equal(listed.reset(seed=[4, 5, 6])[0], counted.reset(seed=4)[0])
    for _ in range(3):
        idle = np.full(3, 6)
        np.testing.assert_array_equal(listed.step(idle)[0], counted.step(idle)[0])
    with pytest.raises(ValueError, match="expected one seed for each of the 3 rows, got 2"):
        listed.reset(seed=[4, 5])


@pytest.mark.parametrize(
    ("given", "name"), [("MsPacman", "ms_pacman"), ("Ms Pacman", "ms_pacman"), ("UpNDown", "up_n_down")]
)
def test_names(given: str, name: str) -> None:
    assert rom_name(given) == name


def test_bad_input_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"got 'space_invader'; did you mean space_invaders"):
        make(num_envs=1, game="space_invader")
    with pytest.raises(ValueError, match=r"idle_actions \(noise=True\) must be at least 1, got 0"):
        make(num_envs=1, game="pong", noise=True, idle_actions=0)
    with pytest.raises(ValueError, match="fit must be"):
        make(num_envs=1, game="pong", noise=True, fit="centre")
    for build in (make, partial(gymnasium.make, "lpm/Atari-v0")):
        with pytest.raises(ValueError, match="noise must be False or True, got 'none'"):
            build(game="pong", noise="none")
    for settings, message in (
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ({"max_episode_frames": 0}, "max_episode_frames must be at least 1, got 0"),
        ({"noop_max": -1}, "noop_max must be at least 0, got -1"),
        ({"size": 0}, "size must be from 1 to 160, the console's own width, got 0"),
        ({"size": 161}, "size must be from 1 to 160, the console's own width, got 161"),
    ):
        with pytest.raises(ValueError, match=message):
            make(game="pong", **{"num_envs": 1, **settings})
    env = make(num_envs=1, game="pong", autoreset_mode=AutoresetMode.DISABLED, max_episode_frames=4)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.array([0]))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected an action in MultiDiscrete"):
        env.step(np.array([99]))
    env.step(np.array([0]))
    with pytest.raises(ValueError, match=r"rows \[0\] have ended"):
        env.step(np.array([0]))
    monkeypatch.setattr("ale_py.roms.get_rom_path", lambda name: None)
    with pytest.raises(ValueError, match=r"ROM of 'pong' is missing.*--force-reinstall ale-py"):
        rom_path("pong")
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ImportError, match=re.escape(pip_install("atari"))):
        rom_name("pong")
