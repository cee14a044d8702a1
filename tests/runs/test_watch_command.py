from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run_cases import config_of, silent

from lpm.commands.watch import laid_out, run
from lpm.runs import train


@pytest.mark.parametrize("env", ["car", "maze"])
def test_a_gif_and_a_heat_map(env: str, tmp_path: Path) -> None:
    config = config_of("a2c", "none", env, cycles=2)
    train(config, tmp_path, say=silent)
    assert run([str(tmp_path), "--steps", "6", "--every", "2"]) == 0
    with Image.open(tmp_path / "rollout.gif") as gif:
        assert gif.n_frames >= 2
    with Image.open(tmp_path / "coverage.png") as picture:
        colours = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
    assert len(colours) > 20


def test_greedy_rollouts_repeat_and_random_runs_act_randomly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(config_of("ppo", "none", cycles=1, policy="uniform"), tmp_path, say=silent)
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


def test_layout_of_cells() -> None:
    maze = laid_out("lpm/NMaze-v0", np.arange(3456))
    assert maze.shape == (48, 72)
    assert np.isnan(maze).any()
    car = laid_out("lpm/MountainCar-v0", np.arange(100))
    assert (car[-1, 0], car[-1, 1], car[0, 0]) == (0, 10, 9)  # position to the right, velocity upwards
    assert laid_out("CartPole-v1", np.arange(35)).shape == (5, 7)
