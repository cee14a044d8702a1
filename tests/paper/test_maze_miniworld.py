"""Ours against Farama's Miniworld; skipped where it is not installed."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("numba")
if importlib.util.find_spec("miniworld") is None:  # importing it here would open a window before ours is set up
    pytest.skip("Miniworld is not installed", allow_module_level=True)

from lpm.envs.maze import NMazeVector
from lpm.envs.maze_geometry import wall_segments
from lpm_paper.maze_miniworld import MiniworldMaze

POLICY = (0.15, 0.15, 0.5, 0.1, 0.1)


@pytest.fixture(scope="module")
def theirs():
    return MiniworldMaze(3, width=80, height=60, sticky=0.25)


def test_same_walls(theirs):
    walls = theirs.world.wall_segs[:, :, [0, 2]].reshape(-1, 4)
    assert sorted(walls.tolist()) == sorted(wall_segments().tolist())


def test_same_poses_and_like_frames(theirs):
    ours = NMazeVector(3, width=80, height=60, sticky=0.25)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(400):
        actions = rng.choice(5, size=3, p=POLICY)
        frames, _, _, _, info = ours.step(actions)
        their_frames, _, _, _, their_info = theirs.step(actions)
        np.testing.assert_array_equal(info["pose"], their_info["pose"])
        np.testing.assert_array_equal(info["cell"], their_info["cell"])
        differences.append(np.abs(frames.astype(int) - their_frames).mean())
    assert np.mean(differences) < 6
    assert np.max(differences) < 20
