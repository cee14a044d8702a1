from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from run_cases import config_of, silent

from lpm.commands.watch import laid_out, run
from lpm.runs import train


@pytest.mark.parametrize("env", ["car", "maze"])
def test_a_gif_and_a_heat_map(env: str, tmp_path: Path) -> None:
    config = config_of("a2c", "none", env, cycles=2)
    train(config, tmp_path, log=silent)
    assert run([str(tmp_path), "--steps", "6", "--every", "2"]) == 0
    with Image.open(tmp_path / "rollout.gif") as gif:
        assert gif.n_frames >= 2
    with Image.open(tmp_path / "coverage.png") as picture:
        colours = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
    assert len(colours) > 20


def test_greedy_rollouts_repeat_and_random_runs_act_randomly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(config_of("ppo", "none", cycles=1, policy="uniform"), tmp_path, log=silent)
    for out in ("a", "b"):
        run([str(tmp_path), "--steps", "5", "--out", str(tmp_path / out)])
    assert (tmp_path / "a/rollout.gif").read_bytes() == (tmp_path / "b/rollout.gif").read_bytes()
    assert "cells visited" in capsys.readouterr().out


def test_a_folder_without_a_run_or_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no run"):
        run([str(tmp_path)])
    (tmp_path / "config.toml").write_text(config_of().to_toml())
    with pytest.raises(ValueError, match="no checkpoint yet"):
        run([str(tmp_path)])
    with pytest.raises(ValueError, match="--steps: expected a number above 0"):
        run([str(tmp_path), "--steps", "0"])


def layout(env_id: str, cells: int, **settings: Any) -> Any:
    return laid_out(replace(config_of(bonus="none"), env_id=env_id, env=settings), np.arange(cells))


@pytest.mark.parametrize("env_id", ["lpm/NMaze-v0", "lpm/NoisyMaze-v0"])
def test_the_maze_lies_as_from_above(env_id: str) -> None:
    maze = layout(env_id, 3456)
    assert maze.shape == (48, 72)
    assert np.isnan(maze).any()


def test_layout_of_cells() -> None:
    car = layout("lpm/MountainCar-v0", 100)
    assert (car[-1, 0], car[-1, 1], car[0, 0]) == (0, 10, 9)  # position to the right, velocity upwards
    assert layout("lpm/LavaCrossing-v0", 49)[1, 0] == 7


@pytest.mark.parametrize("settings", [{}, {"num_rooms": 2, "room_size": 3, "layout": 5, "noise": "action"}])
def test_rooms_lie_where_the_agent_walks(settings: dict[str, Any]) -> None:
    env: Any = gym.make("lpm/Rooms-v0", **settings).unwrapped
    visits = np.zeros(env.num_cells, dtype=np.int64)
    env.reset(seed=0)
    for action in (1, 1, 3):  # down, down, right: from (1, 1) to y = 3, x = 2
        *_, info = env.step(action)
    visits[info["cell"]] = 9
    config = replace(config_of(bonus="none"), env_id="lpm/Rooms-v0", env=settings)
    picture: Any = laid_out(config, visits)
    np.testing.assert_array_equal(np.isnan(picture), ~env.batch.free)
    assert np.argwhere(picture == 9).tolist() == [[3, 2]]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "lpm/Atari-v0"])
def test_cells_of_no_known_layout_are_not_drawn(env_id: str) -> None:
    assert layout(env_id, 35) is None


def test_no_map_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    train(config_of("a2c", "none", cycles=1), tmp_path, log=silent)
    monkeypatch.setattr("lpm.commands.watch.LAYOUTS", {})
    assert run([str(tmp_path), "--steps", "2"]) == 0
    assert "of 100 cells visited, no map" in capsys.readouterr().out
    assert not (tmp_path / "coverage.png").exists()


class _Dots(gym.Env[Any, Any]):
    """Two dots to walk on, without `render_mode`."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,), np.float32), gym.spaces.Discrete(2)
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(1, action, np.float32), 0.0, False, False, {}


class _Dark(_Dots):
    """One whose drawing fails, as that of MuJoCo does without a display."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        raise RuntimeError("an OpenGL platform library has not been loaded into this process")


@pytest.mark.parametrize(("env", "words"), [(_Dots, "takes no render_mode.*render()"), (_Dark, "MUJOCO_GL=egl")])
def test_an_environment_that_cannot_be_drawn_is_named_with_what_to_do(
    env: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    gym.register("Undrawn-v0", env, max_episode_steps=5)
    try:
        train(replace(config_of("a2c", "none", cycles=1), env_id="Undrawn-v0", env={}), tmp_path, log=silent)
        with pytest.raises(ValueError, match=f"Undrawn-v0 .*{words}"):
            run([str(tmp_path), "--steps", "2"])
    finally:
        del gym.registry["Undrawn-v0"]
    assert not (tmp_path / "rollout.gif").exists()


def test_a_film_of_a_minigrid_run_is_small(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    config = replace(config_of("a2c", "none", cycles=1), env_id="MiniGrid-MultiRoom-N6-v0", env={})
    train(config, tmp_path, log=silent)
    assert run([str(tmp_path), "--steps", "40"]) == 0
    assert (tmp_path / "rollout.gif").stat().st_size < 3e6 * 40 / 500
