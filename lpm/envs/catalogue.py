"""All environments and conditions of the project: what `lpm envs` lists and draws."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import lpm.envs  # noqa: F401  (registers the ids)
from lpm.envs.rooms import FAMILIES, WATCH
from lpm.storage.files import replacing
from lpm.utils.versions import pip_install

_WIDEST, _GAP, _BORDER = 1600, 4, 3
_NOISE_BORDER, _PLAIN_BORDER = (210, 40, 40), (200, 200, 200)


@dataclass(frozen=True)
class EnvEntry:
    """One environment in one condition."""

    name: str
    """A short name, also that of its files."""
    id: str
    """Gymnasium's id."""
    settings: dict[str, Any]
    """Keyword arguments for `gymnasium.make` and `gymnasium.make_vec`."""
    what: str
    """One line for people."""
    demo: tuple[tuple[Any, ...], ...]
    """The actions behind its strip of pictures: a picture is taken after each group of them."""
    module: str = ""
    """What it needs beyond the core packages."""
    extra: str = ""
    """The extra of the distribution that brings it."""

    @property
    def missing(self) -> str:
        """What to install before it can run; empty if nothing."""
        return pip_install(self.extra) if self.module and find_spec(self.module) is None else ""

    def make(self, **more: Any) -> gym.Env[Any, Any]:
        return gym.make(self.id, disable_env_checker=True, **self.settings, **more)


def list_envs() -> tuple[EnvEntry, ...]:
    """Every environment in every condition."""
    return (*_mountain_cars(), *_mazes(), *_games(), *_grids(), *_rooms())


def find_env(name: str) -> EnvEntry:
    """The entry of this name."""
    entries = {entry.name: entry for entry in list_envs()}
    if name not in entries:
        raise ValueError(f"expected one of {', '.join(entries)}; got {name!r}")
    return entries[name]


def render_strips(folder: str | Path, names: Iterable[str]) -> list[Path]:
    """Write a PNG strip of each environment that can run here; a red border marks steps that show noise."""
    from PIL import Image

    paths = []
    for entry in map(find_env, names):
        if not entry.missing:
            paths.append(Path(folder) / f"env_{entry.name}.png")
            with replacing(paths[-1]) as stream:
                Image.fromarray(render_strip(entry)).save(stream, "PNG")
    return paths


def render_strip(entry: EnvEntry, seed: int = 0) -> NDArray[np.uint8]:
    """Pictures of the demo's steps, row by row where they are too wide for a page."""
    env = entry.make(render_mode="rgb_array")
    _, info = env.reset(seed=seed)
    pictures = [_bordered(env.render(), bool(info["noise"]))]
    for group in entry.demo:
        for action in group:
            *_, info = env.step(np.asarray(action, dtype=env.action_space.dtype)[()])
        pictures.append(_bordered(env.render(), bool(info["noise"])))
    env.close()
    rows = -(-len(pictures) * pictures[0].shape[1] // _WIDEST)
    columns = -(-len(pictures) // rows)
    pictures += [np.full_like(pictures[0], 255)] * (rows * columns - len(pictures))
    lines = [np.concatenate(pictures[i : i + columns], axis=1) for i in range(0, len(pictures), columns)]
    return np.concatenate(lines)[:, :-_GAP]


def _bordered(picture: Any, noise: bool) -> NDArray[np.uint8]:
    """Enlarged if it is small, in a frame, with white to the right of it."""
    small = np.asarray(picture, dtype=np.uint8)
    factor = max(1, round(160 / small.shape[0]))
    height, width = (factor * size + 2 * _BORDER for size in small.shape[:2])
    framed = np.full((height, width + _GAP, 3), 255, dtype=np.uint8)
    framed[:, :width] = _NOISE_BORDER if noise else _PLAIN_BORDER
    framed[_BORDER:-_BORDER, _BORDER : width - _BORDER] = small.repeat(factor, axis=0).repeat(factor, axis=1)
    return framed


def _mountain_cars() -> list[EnvEntry]:
    entries = []
    for name, noise, what in (
        ("mountain_car", False, "Continuous MountainCar, three sparse reward points, no noise"),
        ("mountain_car_idle", "idle", "the same with a second action that freezes the car (the fair control)"),
        ("mountain_car_noise", True, "the same with a second action that freezes the car and shows noise"),
    ):
        right, left, watch = ((1.0,), (-1.0,), (1.0,)) if noise is False else ((1.0, -1.0), (-1.0, -1.0), (0.0, 1.0))
        demo = ((right,) * 20, (left,) * 25, (watch,), (watch,), (right,) * 25)
        entries.append(EnvEntry(name, "lpm/MountainCar-v0", {"noise": noise}, what, demo))
    return entries


def _mazes() -> list[EnvEntry]:
    left, ahead, idle = (0,), (2,), (4,)
    walk, watch = (ahead * 22, left * 18, ahead * 6, left * 8, idle), (ahead, idle, idle, ahead)
    release = {"noise": "none", "sticky": 0.25, "width": 80, "height": 60}
    conditions: dict[str, tuple[str, dict[str, Any], str]] = {
        "maze": ("NMaze", {"noise": "none"}, "Three-room maze, 160x120 RGB, no noise"),
        "maze_state_noise": ("NMaze", {"noise": "state"}, "the same with a wall that shows random pixels"),
        "maze_action_noise": ("NMaze", {"noise": "action"}, "the same with an idle action that shows CIFAR-10"),
        "maze_sticky": ("NMaze", release, "the maze as the release runs it: 80x60, sticky actions 0.25, no noise"),
        "maze_part_noise": ("NoisyMaze", {"noise": "part"}, "the maze with a third of the picture random pixels"),
        "maze_small_noise": ("NoisyMaze", {"noise": "small"}, "the maze with a little noise on every pixel"),
    }
    demos = {name: watch if "action" in name else walk for name in conditions}
    return [EnvEntry(name, f"lpm/{env}-v0", settings, what, demos[name], "numba", "maze")
            for name, (env, settings, what) in conditions.items()]  # fmt: skip


def _games() -> list[EnvEntry]:
    games = {"space_invaders": ("Space Invaders", 6), "ms_pacman": ("Ms Pacman", 9), "up_n_down": ("UpNDown", 6),
             "montezuma_revenge": ("Montezuma's Revenge", 18)}  # fmt: skip
    entries = []
    for game, (title, num_actions) in games.items():
        for noise in (False, True):
            what = "idle actions show CIFAR-10" if noise else "two idle actions, no noise"
            right, idle = (3,), (num_actions,)
            demo = (right * 12, right * 12, idle, idle, right, right * 12)
            name, settings = f"{game}_noise" if noise else game, {"game": game, "noise": noise}
            entries.append(EnvEntry(name, "lpm/Atari-v0", settings, f"{title}, {what}", demo, "ale_py", "atari"))
    return entries


def _grids() -> list[EnvEntry]:
    lava = "MiniGrid LavaCrossing S9N1, 7x7 view, no noise"
    sea = "bsuite's DeepSea, 10x10: one of 2^10 sequences of actions is rewarded, no noise"
    tv = "MiniGrid MultiRoom N7-S4 with a ball whose colour `drop` draws anew (RIDE's noisy TV)"
    walk, drop, fall = ((2,), (2,), (1,), (2,)), ((1,), (4,), (4,), (2,)), ((0,), (0,), (0, 1), (0, 1))
    return [
        EnvEntry("lava_crossing", "lpm/LavaCrossing-v0", {}, lava, walk),
        EnvEntry("multiroom_tv", "lpm/MultiRoomNoisyTV-N7-S4-v0", {}, tv, drop, "minigrid", "minigrid"),
        EnvEntry("deep_sea", "lpm/DeepSea-v0", {}, sea, fall),
    ]


def _rooms() -> list[EnvEntry]:
    down, right = (1,), (3,)
    entries = []
    for noise, what in FAMILIES.items():
        watch = {"action": (WATCH,), "photographs": (WATCH,), "sequence": (WATCH,), "wall": right * 5}.get(noise, right)
        name = "rooms" if noise == "none" else f"rooms_{noise}"
        demo = (down * 3, right * 3, watch, watch, down)
        entries.append(EnvEntry(name, "lpm/Rooms-v0", {"noise": noise}, f"4x4 rooms of 7x7 cells, {what}", demo))
    return entries
