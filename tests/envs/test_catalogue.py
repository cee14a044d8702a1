"""The list of environments, their strips of pictures, and the random-policy reference."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import lpm.envs
from lpm.envs import drawing
from lpm.envs.catalogue import find_env, list_envs, render_strip, render_strips
from lpm.utils.versions import pip_install

_SPEC = importlib.util.spec_from_file_location(
    "random_policy", Path(__file__).parents[2] / "benchmarks" / "random_policy.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)

LIGHT = ["mountain_car", "mountain_car_idle", "mountain_car_noise", "lava_crossing"]


def test_every_registered_environment_is_listed_once() -> None:
    names = [entry.name for entry in list_envs()]
    assert len(set(names)) == len(names)
    registered = {id_ for id_ in gymnasium.registry if id_.startswith("lpm/")}
    assert {entry.id for entry in list_envs()} == registered
    with pytest.raises(ValueError, match=r"expected one of mountain_car, .*; got 'moon_car'"):
        find_env("moon_car")


def test_missing_packages_are_named() -> None:
    entry = replace(find_env("maze"), module="surely_not_installed")
    assert entry.missing == pip_install("maze")
    assert find_env("mountain_car").missing == ""


def test_strips_show_the_noise(tmp_path: Path) -> None:
    paths = render_strips(tmp_path, LIGHT)
    assert [path.name for path in paths] == [f"env_{name}.png" for name in LIGHT]
    image = pytest.importorskip("PIL.Image")
    for path, name in zip(paths, LIGHT, strict=True):
        picture = np.asarray(image.open(path))
        np.testing.assert_array_equal(picture, render_strip(find_env(name)))
        red = (picture == (210, 40, 40)).all(axis=-1)
        assert (red.sum(axis=1).max() > 300) == (name == "mountain_car_noise")  # an edge of the border
    assert not list(tmp_path.glob(".*"))


def test_reference_counts_real_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference.rows_and_steps(find_env("lava_crossing")) == (16, 50_000)
    lava = reference.run_reference(find_env("lava_crossing"), seed=0, steps=2_000)
    assert 0 <= lava["success_rate"] < 0.1
    assert lava["episodes"] > 10
    monkeypatch.setattr(reference, "rows_and_steps", lambda entry: (2, 3_000))
    entry = find_env("mountain_car_noise")
    result = reference.run_reference(entry, seed=1)
    assert result == reference.run_reference(entry, seed=1)
    assert 3_000 <= result["steps"] < 3_002
    assert result["episodes"] == 2
    assert 0.45 < result["noise_share"] < 0.55
    assert result["curve"] == sorted(result["curve"])
    assert result["curve"][-1] == result["cells"] <= result["num_cells"] == 100


def test_reference_writes_files_once_and_makes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "rows_and_steps", lambda entry: (1, 300))
    reference.run_all(tmp_path, ["mountain_car"], seeds=2)
    paths = sorted(tmp_path.iterdir())
    assert [path.name for path in paths] == ["mountain_car_seed0.json", "mountain_car_seed1.json"]
    times = [path.stat().st_mtime_ns for path in paths]
    reference.run_all(tmp_path, ["mountain_car"], seeds=2)
    assert times == [path.stat().st_mtime_ns for path in paths]
    cells = [json.loads(path.read_text())["cells"] for path in paths]
    assert f"| `mountain_car` | 300 × 2 | {np.mean(cells):.1f} ±" in reference.table(tmp_path)


def test_drawing_stays_inside_the_picture() -> None:
    picture = drawing.blank(10, 12, (0, 0, 0))
    drawing.line(picture, -5, -5, 30, 30, (1, 1, 1))
    drawing.disc(picture, 11, 9, 3, (2, 2, 2))
    drawing.rectangle(picture, -3, 4, 2, 40, (3, 3, 3))
    drawing.triangle(picture, np.array([(4.0, 4.0), (8.0, 4.0), (4.0, 8.0)]), (4, 4, 4))
    assert picture[0, 0, 0] == 1
    assert picture[9, 11, 0] == 2
    assert picture[9, 0, 0] == 3
    assert picture[5, 5, 0] == 4
    assert picture[8, 8, 0] != 4


def test_the_package_registers_lazily() -> None:
    assert isinstance(gymnasium.registry["lpm/NMaze-v0"].entry_point, str)
    assert lpm.envs.__doc__ is not None


@pytest.mark.parametrize("name", ["MountainCar", "NMaze", "LavaCrossing", "Rooms", "Atari"])
def test_options_of_one_environment_are_those_of_a_batch(name: str) -> None:
    """They are passed on: one that does not exist is named, and so is one that is not for choosing."""
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nosie'.*lpm/"):
        gymnasium.make(f"lpm/{name}-v0", nosie=True)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'num_envs'"):
        gymnasium.make(f"lpm/{name}-v0", num_envs=2)
    env: Any = gymnasium.make(f"lpm/{name}-v0", render_mode="rgb_array")
    assert env.unwrapped.render_mode == "rgb_array"
    env.close()
    assert env.unwrapped.batch.closed
