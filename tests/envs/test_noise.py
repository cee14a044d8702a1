"""The noise wrappers: what is shown, what becomes of the true state, and all promises of an environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from env_contract import check_autoreset_modes, check_save_and_restore, check_seeding, check_spaces
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lpm.envs.mountain_car import MountainCar, MountainCarVector
from lpm.envs.noise import NoiseConfig, NoisyEnv, NoisyVectorEnv
from lpm.envs.noise_sources import Gaussian, ImageSource, Uniform, resize_matrix, tile_matrix
from lpm.envs.rng import RowRandom

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
ADDED = NoiseConfig(added_actions=1, low=-1.0, high=1.0)
FROZEN = replace(ADDED, frozen=True)


class Counter(gymnasium.Env[Any, Any]):
    """Counts its real steps and shows the count as a flat picture; action 1 counts down."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    observation_space = Box(0, 255, (12, 10, 3), np.uint8)
    action_space = Discrete(3)
    num_cells = 256
    count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 100
        return self._picture(), {"cell": self.count}

    def step(self, action: Any) -> Any:
        self.count += -1 if action == 1 else 1
        return self._picture(), 1.0, False, self.count > 130, {"cell": self.count}

    def _picture(self) -> Any:
        return np.full((12, 10, 3), self.count, dtype=np.uint8)


def image_source(shape: tuple[int, ...] = (12, 10, 3)) -> ImageSource:
    return ImageSource(IMAGES, shape)


def is_flat(picture: Any) -> bool:
    return bool((picture == picture.flat[0]).all())


@pytest.mark.parametrize("frozen", [False, True])
def test_added_actions_show_an_image(frozen: bool) -> None:
    env = NoisyEnv(Counter(), NoiseConfig(source="cifar10", added_actions=2, frozen=frozen), image_source())
    assert env.action_space == Discrete(5)
    start, info = env.reset(seed=0)
    assert is_flat(start)
    assert info == {"cell": 100, "noise": False}
    shown = []
    for action in (3, 4, 3, 4):
        obs, reward, _, _, info = env.step(action)
        assert info["noise"] is True
        assert reward == (0.0 if frozen else 1.0)
        assert any((obs == frame).all() for frame in image_source().frames(np.arange(7)))
        shown.append(obs)
    assert len({frame.tobytes() for frame in shown}) > 1
    obs, *_, info = env.step(0)
    assert info == {"cell": 101 if frozen else 105, "noise": False}
    assert obs.flat[0] == info["cell"]


def test_chosen_actions_and_noop() -> None:
    env = NoisyEnv(Counter(), NoiseConfig(source="uniform", actions=(2,), noop=1))
    assert env.action_space == Discrete(3)
    env.reset(seed=0)
    obs, *_, info = env.step(2)
    assert info == {"cell": 99, "noise": True}
    assert not is_flat(obs)


@pytest.mark.parametrize("frozen", [False, True])
def test_control_has_the_same_idle_actions_and_no_noise(frozen: bool) -> None:
    config = NoiseConfig(source="cifar10", added_actions=2, frozen=frozen)
    assert config.control() == replace(config, trigger="never")
    env = NoisyEnv(Counter(), config.control())
    env.reset(seed=0)
    obs, _, _, _, info = env.step(4)
    assert info == {"cell": 100 if frozen else 101, "noise": False}
    assert (obs == info["cell"]).all()


def test_state_tv_by_cell_region_and_condition() -> None:
    config = NoiseConfig(trigger="state", cells=(102,), region=((2, 6), (1, 9)))
    by_cell = NoisyEnv(Counter(), config)
    by_condition = NoisyEnv(
        Counter(), replace(config, cells=()), condition=lambda batch, info: batch[:, 0, 0, 0] == 102
    )
    for env in (by_cell, by_condition):
        env.reset(seed=0)
        for count in (101, 102, 103):
            obs, *_, info = env.step(0)
            assert info["noise"] is (count == 102)
            outside = obs.copy()
            outside[2:6, 1:9] = count
            assert (outside == count).all()
            assert is_flat(obs) is (count != 102)


def test_always_on_noise_is_added_to_every_observation() -> None:
    config = NoiseConfig(trigger="always", source="gaussian", std=0.1, blend="add")
    env, plain = NoisyEnv(MountainCar(), config), MountainCar()
    differences = []
    noisy, _ = env.reset(seed=3)
    true, _ = plain.reset(seed=3)
    for _ in range(300):
        differences.append(noisy - true)
        action = np.ones(1, dtype=np.float32)
        noisy, *_, info = env.step(action)
        true, *_ = plain.step(action)
        assert info["noise"] is True
    assert abs(np.mean(differences)) < 0.02
    assert abs(np.std(differences) - 0.1) < 0.01


def test_box_actions_get_an_added_dimension() -> None:
    env = SyncVectorEnv([lambda: NoisyEnv(MountainCar(), FROZEN)] * 4)
    native = MountainCarVector(4, noise=True)
    assert env.single_action_space == native.single_action_space
    assert env.single_observation_space == native.single_observation_space
    env.reset(seed=0)
    native.reset(seed=0)
    env.action_space.seed(1)
    for _ in range(60):
        actions = env.action_space.sample()
        ours, *_, info = env.step(actions)
        theirs, *_, native_info = native.step(actions)
        for key in ("cell", "noise"):
            np.testing.assert_array_equal(info[key], native_info[key])
        np.testing.assert_array_equal(ours[~info["noise"]], theirs[~info["noise"]])


def test_probability_is_the_share_of_responses() -> None:
    config = replace(ADDED, probability=0.25)
    env = NoisyVectorEnv(MountainCarVector(200), config)
    env.reset(seed=0)
    shown = [env.step(np.ones((200, 2), dtype=np.float32))[4]["noise"].mean() for _ in range(50)]
    assert abs(np.mean(shown) - 0.25) < 0.02


def test_wrappers_compose() -> None:
    config = NoiseConfig(trigger="always", source="uniform", low=-1.0, high=1.0)
    inner = NoisyEnv(MountainCar(), replace(config, region=((0, 1),)))
    outer = NoisyEnv(inner, replace(config, region=((1, 2),)))
    twice = NoisyEnv(NoisyEnv(MountainCar(), config), config)
    obs, info = outer.reset(seed=0)
    assert info["noise"] is True
    assert (obs != MountainCar().reset(seed=0)[0]).all()
    assert (twice.reset(seed=0)[0] != twice.env.reset(seed=0)[0]).all()


def test_batch_equals_singles() -> None:
    config = NoiseConfig(source="uniform", added_actions=1)
    batch = NoisyVectorEnv(SyncVectorEnv([Counter] * 3), config)
    singles = [NoisyEnv(Counter(), config) for _ in range(3)]
    obs, _ = batch.reset(seed=10)
    for i, env in enumerate(singles):
        np.testing.assert_array_equal(obs[i], env.reset(seed=10 + i)[0])
    for actions in np.random.default_rng(0).integers(0, 4, (25, 3)):
        obs, *_, info = batch.step(actions)
        for i, env in enumerate(singles):
            own, *_, own_info = env.step(actions[i])
            np.testing.assert_array_equal(obs[i], own)
            assert own_info["noise"] == info["noise"][i]


@pytest.mark.parametrize(
    "config",
    [
        ADDED,
        ADDED.control(),
        replace(ADDED, probability=0.5),
        replace(ADDED, trigger="state", cells=tuple(range(40, 50))),
        NoiseConfig(trigger="always", source="gaussian", std=0.1, blend="add", probability=0.7),
    ],
    ids=["added", "control", "sometimes", "state", "always"],
)
def test_contract(config: NoiseConfig) -> None:
    def make(num_envs: int, **kwargs: Any) -> NoisyVectorEnv:
        return NoisyVectorEnv(MountainCarVector(num_envs, max_episode_steps=11, **kwargs), config)

    check_seeding(make, 60)
    check_autoreset_modes(make, 60)
    check_save_and_restore(make, 25, 40)
    check_spaces(make, 100)


@pytest.mark.parametrize("config", [FROZEN, FROZEN.control(), NoiseConfig(trigger="always", low=-1, high=1)])
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
def test_single_environment_passes_the_checker(config: NoiseConfig) -> None:
    env = NoisyEnv(MountainCar(), config)
    check_env(env, skip_render_check=True)


def test_an_image_batch_is_copied_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(np.ndarray):  # type: ignore[type-arg]
        copies = 0

        def copy(self, order: Any = "C") -> Any:
            Watched.copies += self.shape == (3, 12, 10, 3)
            return np.asarray(self).copy(order)

    batch = NoisyVectorEnv(SyncVectorEnv([Counter] * 3), NoiseConfig(added_actions=1, source="cifar10"), image_source())
    original = batch.env.step
    monkeypatch.setattr(batch.env, "step", lambda actions: (original(actions)[0].view(Watched), *original(actions)[1:]))
    batch.reset(seed=0)
    batch.step(np.array([0, 0, 0]))
    assert Watched.copies == 0
    batch.step(np.array([3, 0, 3]))
    assert Watched.copies == 1


def test_config_is_printable_and_hashable() -> None:
    assert len({ADDED, replace(ADDED), ADDED.control()}) == 2
    assert "added_actions=1" in repr(ADDED)
    assert eval(repr(ADDED)) == ADDED
    region: Any = [[0, 3]]
    listed = NoiseConfig(trigger="state", actions=[1], cells=np.arange(2), region=region)  # type: ignore[arg-type]
    assert hash(listed) == hash(NoiseConfig(trigger="state", actions=(1,), cells=(0, 1), region=((0, 3),)))


class Sevens:
    """A source of somebody's own."""

    def draw(self, rng: RowRandom, rows: Any) -> Any:
        return np.full((len(rows), 4), 7.0, dtype=np.float32)


class BoundedSevens(Sevens):
    low, high = 0.0, 7.0


def test_the_source_given_takes_the_place_of_the_configs() -> None:
    """CartPole has velocities without bounds: the config's uniform noise could not be drawn, and need not."""
    env = NoisyEnv(gymnasium.make("CartPole-v1"), NoiseConfig(trigger="always"), source=Sevens())
    space: Any = env.observation_space
    assert np.isinf(space.low).all()
    assert (env.reset(seed=0)[0] == 7).all()
    bounded: Any = NoisyEnv(gymnasium.make("CartPole-v1"), NoiseConfig(trigger="always"), BoundedSevens())
    assert bounded.observation_space.high[0] == 7
    assert bounded.observation_space.low[2] == pytest.approx(-0.418, abs=1e-3)
    with pytest.raises(ValueError, match="finite bounds"):
        NoisyEnv(gymnasium.make("CartPole-v1"), NoiseConfig(trigger="always"))


@pytest.mark.parametrize(("high", "dtype"), [(1.0, np.float32), (9, np.uint8)])
def test_images_keep_to_the_bounds_of_the_observation(high: float, dtype: Any) -> None:
    env = Counter()
    env.observation_space = Box(0, high, (12, 10, 3), dtype)
    env._picture = lambda: np.zeros((12, 10, 3), dtype)  # type: ignore[method-assign]
    shown, _ = NoisyEnv(env, NoiseConfig(trigger="always"), source=image_source()).reset(seed=0)
    assert env.observation_space.contains(shown)
    assert 0.5 * high < shown.max() <= high


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"added_actions": 1, "probability": 1.5}, r"probability must lie in \[0, 1\], got 1.5"),
        ({"added_actions": 1, "probability": -0.1}, r"probability must lie in \[0, 1\], got -0.1"),
        ({"added_actions": 1, "probability": float("nan")}, r"probability must lie in \[0, 1\], got nan"),
        ({"added_actions": -1}, "added_actions must be at least 0"),
        ({}, "needs `actions` or `added_actions`, got "),
        ({"trigger": "sometimes"}, "trigger must be one of action, state, always, never, got 'sometimes'"),
        ({"trigger": "always", "source": "static"}, "source must be one of"),
        ({"trigger": "always", "source": "folder"}, "needs `folder`"),
        ({"trigger": "always", "source": "folder", "folder": "x", "fit": "tile"}, "for CIFAR-10, got .folder"),
        ({"trigger": "always", "source": "cifar10", "blend": "add"}, "is for uniform and Gaussian"),
        ({"trigger": "always", "std": -1.0}, "std must be at least 0"),
        ({"trigger": "always", "std": float("nan")}, "std must be at least 0 and finite, got nan"),
        ({"trigger": "always", "low": 3.0, "high": 1.0}, r"low must not lie above high, got \(3.0, 1.0\)"),
    ],
)
def test_bad_configs(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoiseConfig(**settings_)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (NoiseConfig(actions=(3,)), r"actions and noop must lie in Discrete\(3\), got \[3\]"),
        (NoiseConfig(trigger="always", region=((0, 13),)), "does not lie within observations of shape"),
        (NoiseConfig(trigger="state"), "needs `cells` in the config or a `condition`"),
        (NoiseConfig(trigger="always", low=300.0), "finite bounds low <= high"),
        (
            NoiseConfig(trigger="always", low=-1.0),
            r"uint8 observations must lie in \(0.0, 255.0\), got \(-1.0",
        ),
    ],
)
def test_configs_that_do_not_fit(config: NoiseConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoisyEnv(Counter(), config)


def test_wrong_use_says_what_helps() -> None:
    with pytest.raises(ValueError, match="expected single environments, each in NoisyEnv"):
        NoisyVectorEnv(SyncVectorEnv([Counter]), NoiseConfig(added_actions=1, frozen=True))
    with pytest.raises(ValueError, match="finite bounds"):
        NoisyEnv(gymnasium.make("CartPole-v1"), NoiseConfig(added_actions=1))
    with pytest.raises(ValueError, match="needs a Box observation space"):
        NoisyEnv(
            gymnasium.make("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"), NoiseConfig(added_actions=1)
        )
    env = NoisyEnv(Counter(), NoiseConfig(added_actions=1))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    with pytest.raises(ValueError, match=r"expected an action in Discrete\(4\)"):
        env.step(4)


def test_folder_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "more").mkdir()
    image.fromarray(np.full((20, 30, 3), (200, 10, 40), dtype=np.uint8)).save(tmp_path / "a.png")
    image.fromarray(np.full((8, 8), 77, dtype=np.uint8)).save(tmp_path / "more" / "b.png")
    (tmp_path / "notes.txt").write_text("not an image")
    env = NoisyEnv(Counter(), NoiseConfig(source="folder", added_actions=1, folder=str(tmp_path)))
    env.reset(seed=0)
    seen = {tuple(env.step(3)[0][5, 5].tolist()) for _ in range(30)}
    assert seen == {(200, 10, 40), (77, 77, 77)}
    with pytest.raises(ValueError, match="found none"):
        NoisyEnv(Counter(), NoiseConfig(source="folder", added_actions=1, folder=str(_empty(tmp_path))))
    with pytest.raises(ValueError, match="which is not a folder"):
        NoisyEnv(Counter(), NoiseConfig(source="folder", added_actions=1, folder=str(tmp_path / "none")))


def _empty(path: Path) -> Path:
    (path / "empty").mkdir()
    return path / "empty"


@pytest.mark.parametrize("shape", [(12, 10), (12, 10, 1), (12, 10, 3), (3, 12, 10), (4, 12, 10)])
def test_images_fill_every_layout(shape: tuple[int, ...]) -> None:
    frames = ImageSource(IMAGES, shape).frames(np.arange(3))
    assert frames.shape == (3, *shape)
    assert frames.dtype == np.uint8
    if shape == (4, 12, 10):
        assert (frames[:, :1] == frames).all()


def test_tiling_repeats_and_stretching_interpolates() -> None:
    tiled = ImageSource(IMAGES, (64, 80, 3), fit="tile").frames(np.array([2]))[0]
    np.testing.assert_array_equal(tiled[:32, :32], IMAGES[2])
    np.testing.assert_array_equal(tiled[32:, 64:], IMAGES[2][:, :16])
    same = ImageSource(IMAGES, (32, 32, 3)).frames(np.array([2]))[0]
    np.testing.assert_array_equal(same, IMAGES[2])
    image = pytest.importorskip("PIL.Image")
    ours = ImageSource(IMAGES, (84, 70, 3)).frames(np.array([1]))[0]
    theirs = np.asarray(image.fromarray(IMAGES[1]).resize((70, 84), image.Resampling.BILINEAR))
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


@given(st.integers(1, 50), st.integers(1, 50))
def test_resizing_and_tiling_keep_brightness(source: int, target: int) -> None:
    np.testing.assert_allclose(resize_matrix(source, target).sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(tile_matrix(source, target).sum(axis=1), 1.0)


@settings(max_examples=25, deadline=None)
@given(arrays(np.bool_, 6), st.integers(0, 2**40))
def test_rows_draw_independently(rows: Any, seed: int) -> None:
    full, part = RowRandom(6), RowRandom(6)
    for row in range(6):
        full.seed(row, seed + row)
        part.seed(row, seed + row)
    everything = full.uniform(np.arange(6), 5)
    np.testing.assert_array_equal(part.uniform(np.flatnonzero(rows), 5), everything[rows])
    np.testing.assert_array_equal(part.state[rows], full.state[rows])


def test_sources_have_the_right_distribution() -> None:
    rng, rows = RowRandom(50), np.arange(50)
    normal = Gaussian((100,), 2.0, 3.0).draw(rng, rows)
    assert abs(normal.mean() - 2.0) < 0.2
    assert abs(normal.std() - 3.0) < 0.15
    integers = Uniform((200,), np.int64, -1, 3).draw(rng, rows)
    np.testing.assert_allclose(np.bincount(integers.ravel() + 1) / integers.size, 0.2, atol=0.02)
    pixels = Uniform((100,), np.uint8, 0, 255).draw(rng, rows)
    np.testing.assert_allclose(np.bincount(pixels.ravel() // 32, minlength=8) / pixels.size, 0.125, atol=0.03)
