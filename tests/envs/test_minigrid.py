"""MiniGrid as one batch: minigrid's own episodes and views, one-hot with the direction, noise only where it belongs."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.vector import AutoresetMode

import lpm.envs
from lpm.cli import main
from lpm.envs.minigrid import MiniGridObservation, MiniGridVector
from lpm.envs.third_party import make_readable, reading_note

pytest.importorskip("minigrid")
TASKS = [
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-MultiRoom-N6-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-ObstructedMaze-2Dlh-v0",
    "MiniGrid-Dynamic-Obstacles-6x6-v0",
    "MiniGrid-LavaGapS5-v0",
    "BabyAI-GoToLocal-v0",
    "lpm/MultiRoomNoisyTV-N7-S4-v0",
]
DOORKEY = TASKS[0]
TV = 7  # the action behind minigrid's seven
PICKUP, DROP, TOGGLE = 3, 4, 5


def theirs(env_id: str, **settings: Any) -> gymnasium.Env[Any, Any]:
    make_readable(env_id, 1).close()  # registers it
    return gymnasium.make(env_id, disable_env_checker=True, **settings)


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        *((task, {}) for task in TASKS),
        (DOORKEY, {"agent_view_size": 3}),
        (DOORKEY, {"agent_view_size": 11}),
        (DOORKEY, {"see_through_walls": True}),
    ],
)
def test_views_rewards_and_ends_are_minigrids(env_id: str, settings: dict[str, Any]) -> None:
    ours = make_readable(env_id, 3, "image", autoreset_mode=AutoresetMode.DISABLED, **settings)
    env = theirs(env_id, **settings)
    seen, _ = ours.reset(seed=7)
    expected, _ = env.reset(seed=8)
    for choice in np.random.default_rng(0).choice([0, 1, 2, 2, 2, PICKUP, DROP, TOGGLE, TOGGLE, 6], 300).tolist():
        np.testing.assert_array_equal(seen[1], expected["image"])
        action = choice % int(env.action_space.n)  # type: ignore[attr-defined]
        seen, reward, terminated, truncated, _ = ours.step(np.full(3, action))
        expected, *outcome, _ = env.step(action)
        assert [reward[1], terminated[1], truncated[1]] == outcome
        done = terminated | truncated
        if done.any():
            np.testing.assert_array_equal(seen[1], expected["image"])
            seen, _ = ours.reset(options={"reset_mask": done})
        if done[1]:
            expected, _ = env.reset()


@pytest.mark.parametrize("env_id", TASKS[:4])
def test_one_hot_is_minigrids_with_the_direction_behind_it(env_id: str) -> None:
    wrappers = pytest.importorskip("minigrid.wrappers")
    ours = make_readable(env_id, 1)
    env = wrappers.OneHotPartialObsWrapper(theirs(env_id))
    single = MiniGridObservation(theirs(env_id))
    assert ours.single_observation_space == single.observation_space
    assert ours.single_observation_space.shape == (7 * 7 * 20 + 4,)
    seen, _ = ours.reset(seed=1)
    expected, _ = env.reset(seed=1)
    alone, _ = single.reset(seed=1)
    for action in np.random.default_rng(1).choice([0, 1, 2, 2, 2, PICKUP, TOGGLE], 80):
        np.testing.assert_array_equal(seen[0, :-4], expected["image"].ravel())
        np.testing.assert_array_equal(seen[0, -4:], np.eye(4)[expected["direction"]])
        np.testing.assert_array_equal(seen[0], alone)
        assert single.observation_space.contains(alone)
        seen, _, terminated, truncated, _ = ours.step(np.array([action]))
        if terminated[0] or truncated[0]:
            return
        expected, alone = env.step(int(action))[0], single.step(int(action))[0]


def test_flatten_image_and_none() -> None:
    flat, image = make_readable(DOORKEY, 2, "flatten"), make_readable(DOORKEY, 2, "image")
    vectors, pictures = flat.reset(seed=0)[0], image.reset(seed=0)[0]
    assert flat.observation_space.contains(vectors)
    assert vectors.shape == (2, 151)
    np.testing.assert_array_equal(vectors[:, :147], pictures.reshape(2, -1))
    assert vectors[:, 147:].sum(1).tolist() == [1, 1]
    assert isinstance(make_readable(DOORKEY, 2, "none").single_observation_space, gymnasium.spaces.Dict)
    assert "mission is left out" in reading_note(DOORKEY, "auto")
    assert reading_note(DOORKEY, "none") == reading_note("CartPole-v1", "auto") == ""


@pytest.mark.parametrize("noise", ["none", "action", "gaussian"])
def test_contract(noise: Any) -> None:
    make = partial(MiniGridVector, DOORKEY, noise=noise, max_steps=25)
    check_seeding(make, 60)
    check_autoreset_modes(make, 80)
    check_save_and_restore(make, 40, 40)
    check_spaces(make, 40)


def test_keys_hidden_in_boxes_are_restored() -> None:
    check_save_and_restore(partial(MiniGridVector, TASKS[3]), 200, 200)
    check_save_and_restore(partial(MiniGridVector, TASKS[6]), 30, 60)


def test_states_of_longer_episodes_and_of_others() -> None:
    envs = [MiniGridVector(DOORKEY, 1, max_steps=5000) for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    for _ in range(1100):
        seen = envs[0].step(np.array([0]))[0]
    envs[1].set_state(envs[0].get_state())
    np.testing.assert_array_equal(envs[1]._observe(), seen)
    state = envs[0].get_state()
    with pytest.raises(ValueError, match="lead elsewhere"):
        envs[1].set_state({**state, "start": state["start"] + np.array([0, 1, 0, 0, 0, 0], dtype=np.uint64)})
    with pytest.raises(ValueError, match="numbers from 0 to 6"):
        envs[1].set_state({**state, "actions": np.full_like(state["actions"], 9)})


def test_the_tv_shows_random_codes_and_lets_time_pass() -> None:
    env = MiniGridVector(DOORKEY, 2, noise="action", max_steps=6)
    plain = MiniGridVector(DOORKEY, 2, max_steps=6)
    assert env.single_action_space.n == plain.single_action_space.n + 1
    first, _ = env.reset(seed=0)
    plain.reset(seed=0)
    shown = [env.step(np.array([TV, 0]))]
    other = plain.step(np.array([6, 0]))[0]
    shown.append(env.step(np.array([TV, TV])))
    assert shown[0][4]["noise"].tolist() == [True, False]
    assert shown[1][4]["noise"].tolist() == [True, True]
    codes = shown[0][0][0]
    assert codes[:-4].reshape(49, 20)[:, :11].sum(1).tolist() == [1] * 49
    assert (codes[:-4] != shown[1][0][0][:-4]).any()
    np.testing.assert_array_equal(codes[-4:], first[0, -4:])  # the direction is the true one
    np.testing.assert_array_equal(shown[0][0][1], other[1])
    back, _, _, _, info = env.step(np.array([6, 6]))
    np.testing.assert_array_equal(back, np.stack([first[0], other[1]]))
    assert not info["noise"].any()
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(np.array([TV, TV]))
    assert truncated.all()
    assert not terminated.any()


def test_gaussian_noise_is_added_to_every_number() -> None:
    noisy = MiniGridVector(DOORKEY, 4, noise="gaussian", noise_std=0.1)
    plain = MiniGridVector(DOORKEY, 4)
    differences = [noisy.reset(seed=0)[0] - plain.reset(seed=0)[0]]
    for _ in range(20):
        actions = np.array([0, 1, 2, 0])
        seen, *_, info = noisy.step(actions)
        differences.append(seen - plain.step(actions)[0])
        assert info["noise"].all()
    stacked = np.stack(differences)
    assert abs(stacked.std() - 0.1) < 0.002
    assert abs(stacked.mean()) < 0.002
    assert np.unique(stacked[:, 0, :8].round(6)).size == 21 * 8  # never twice the same
    assert noisy.single_observation_space.is_bounded()


def test_noise_is_added_to_codes_as_numbers() -> None:
    noisy = make_readable(DOORKEY, 2, noise="gaussian", noise_std=0.1)
    plain = make_readable(DOORKEY, 2, wrap="flatten")
    assert np.array_equal(noisy.reset(seed=0)[0].round().astype(np.uint8), plain.reset(seed=0)[0])
    assert "codes as numbers" in reading_note(DOORKEY, "auto", {"noise": "gaussian"})
    assert make_readable(DOORKEY, 2, noise="gaussian", observation="onehot").observation_space.shape == (2, 984)


def test_rides_ball_changes_colour_on_drop_alone() -> None:
    env = theirs(TASKS[-1]).unwrapped
    env.reset(seed=3)
    assert len(env.rooms) == 7
    room, colours = env.rooms[0], []
    x, y = env._ball.cur_pos
    assert room.top[0] < x < room.top[0] + room.size[0] - 1
    assert room.top[1] < y < room.top[1] + room.size[1] - 1
    for action in (DROP, 0) * 20:
        before = env._ball.color
        info = env.step(action)[4]
        assert info["noise"] == (action == DROP)
        colours.append(env._ball.color)
        assert action == DROP or env._ball.color == before
    assert len(set(colours)) > 3


def test_wrong_settings_are_said() -> None:
    with pytest.raises(ValueError, match="noise: expected one of none, action, gaussian, got 'tv'"):
        MiniGridVector(DOORKEY, 1, noise="tv")  # type: ignore[arg-type]
    for wrong in (-1, float("nan"), float("inf"), 3e38, "nan", None, [1, 2]):  # a word of the command line is text
        with pytest.raises(ValueError, match="noise_std: expected a finite number"):
            MiniGridVector(DOORKEY, 1, noise="gaussian", noise_std=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no_such"):
        MiniGridVector(DOORKEY, 1, no_such=1)
    env = MiniGridVector(DOORKEY, 2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected an action"):
        env.step(np.array([0, TV]))
    with pytest.raises(ValueError, match="expected a MiniGrid environment"):
        MiniGridVector("CartPole-v1", 1)
    with pytest.raises(ValueError, match="expected a Dict with image and direction"):
        MiniGridObservation(gymnasium.make("CartPole-v1"))


def test_a_grid_with_a_view_of_its_own_is_read_as_a_picture() -> None:
    from minigrid.envs import EmptyEnv

    class Turned(EmptyEnv):  # type: ignore[misc]
        def gen_obs(self) -> Any:
            return {**super().gen_obs(), "direction": 0}

    gymnasium.register("lpm-test/Turned-v0", entry_point=Turned)
    try:
        assert make_readable("lpm-test/Turned-v0", 1).single_observation_space.shape == (7, 7, 3)
        assert make_readable("lpm-test/Turned-v0", 1, "flatten").single_observation_space.shape == (151,)
    finally:
        del gymnasium.registry["lpm-test/Turned-v0"]


@pytest.mark.parametrize(
    "words",
    [
        ["--env.noise", "action", "--bonus", "lgn"],
        ["--env.noise", "gaussian", "--bonus", "none"],
        ["--wrap", "flatten", "--bonus", "none"],
        ["--wrap", "image", "--bonus", "none"],
        ["--bonus", "rnd", "--ppo.network.normalise", "none"],
    ],
)
def test_training(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--steps", "128", "--ppo.num-envs", "2", "--ppo.rollout-steps", "32", "--out", str(tmp_path / "run")]
    assert main(["train", DOORKEY, *small, *words]) == 0
    assert "the mission is left out" in " ".join(capsys.readouterr().out.split())


def test_an_interrupted_run_goes_on_exactly() -> None:
    from lpm.runs.build import build
    from lpm.runs.config import RunConfig

    config = RunConfig(DOORKEY, bonus="none", steps=4096, env={"noise": "action"})
    first, second = build(config), build(config)
    first.cycle()
    second.load_state_dict(deepcopy(first.state_dict()))
    assert second.collector.exact
    first.cycle()
    second.cycle()
    for name, value in first.policy.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), second.policy.state_dict()[name].numpy())


def test_importing_the_environments_imports_neither_minigrid_nor_torch() -> None:
    import subprocess
    import sys

    code = "import sys, lpm.envs; sys.exit('minigrid' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert {"MiniGridObservation", "MiniGridVector"} <= set(lpm.envs.__all__)
