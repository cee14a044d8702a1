"""Atari games with a noisy TV (the paper's Atari experiments), many emulators at once.

The paper's preprocessing: 4 repeated frames with the last two pooled, 84x84 gray, 4 stacked, up to 30 no-ops at the
start, no sticky actions, no reward clipping, no pressing of fire, no end at a lost life. Two idle actions are added
in both variants: each is a no-op. With `noise=True` an idle action also replaces the frame by a random CIFAR-10
image, while the game goes on; the stack carries the image for 4 steps.

Frames equal those of ale-py's own vector environment, up to one gray level in a few pixels. That one shows neither the
console's memory, which tells where Montezuma is in the pyramid, nor a way to save it, and is no faster.
"""

import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.noise_sources import Images, ImageSource, images_or_cifar10
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, State, expect
from lpm.utils.suggest import suggest
from lpm.utils.versions import pip_install

SIZE, STACK, SKIP = 84, 4, 4
_SCREEN = (210, 160)
MONTEZUMA = "montezuma_revenge"
ROOMS = 24
NUM_CELLS = ROOMS * 256 * 256
_RAM_ROOM, _RAM_X, _RAM_Y = 3, 42, 43


def import_ale() -> Any:
    """The ale_py package, or an error that says how to get it."""
    try:
        import ale_py
    except ImportError as error:
        raise ImportError(f"Atari games need ale-py: {pip_install('atari')}") from error
    return ale_py


def rom_name(game: str) -> str:
    """The ALE's name of a game: "MsPacman", "Ms Pacman" and "ms_pacman" are one."""
    import_ale()
    from ale_py import roms

    known = roms.get_all_rom_ids()
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", game.strip().replace("'s", "").replace("-", " "))
    name = re.sub(r"[\s_]+", "_", name).lower()
    by_letters = {rom.replace("_", ""): rom for rom in known}
    found = by_letters.get(name.replace("_", ""))
    if found is None:
        raise ValueError(f"expected one of the {len(known)} games of the ALE, got {game!r}{suggest(name, known)}")
    return str(found)


def rom_path(game: str) -> Path:
    """Where the ROM of a game lies."""
    from ale_py import roms

    path = roms.get_rom_path(rom_name(game))
    if path is None or not Path(path).is_file():
        raise ValueError(
            f"the ROM of {game!r} is missing from the installed ale-py, whose wheels carry it: "
            "pip install --force-reinstall ale-py"
        )
    return Path(path)


def cell_of(x: int, y: int, room: int) -> int:
    """The coverage cell of a place in Montezuma's pyramid."""
    return (room * 256 + y) * 256 + x


def rooms_of(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rooms in which coverage cells lie."""
    return cells // (256 * 256)


def area_matrix(source: int, target: int) -> NDArray[np.float32]:
    """The matrix that shrinks an axis by adding up the area of each target pixel (OpenCV's INTER_AREA).

    Areas are whole numbers here, so that products with pixels are exact in whatever order they are added up.
    """
    edges, pixels = np.arange(target + 1) * source, np.arange(source) * target
    overlap = np.minimum(edges[1:, None], pixels + target) - np.maximum(edges[:-1, None], pixels)
    matrix: NDArray[np.float32] = (np.clip(overlap, 0, None) // math.gcd(source, target)).astype(np.float32)
    return matrix


def noise_screen(images: Images | None, fit: str, size: int = SIZE) -> ImageSource:
    """CIFAR-10 (or the given images) as gray frames, laid on the console's 210x160 screen first if tiled."""
    chosen, name = images_or_cifar10(images)
    return ImageSource(chosen, (size, size), fit, tiled_size=_SCREEN, name=name)


class AtariVector(BatchedEnv):
    """A batch of emulators stepped by a few threads; `gymnasium.make_vec("lpm/Atari-v0", game=...)` gives this.

    `info["cell"]` is where Montezuma is (see `cell_of`), and -1 in other games.
    """

    _saved = ("stacks", "cells", "lives", "held", "noise")
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 15}  # type: ignore[misc]

    def __init__(
        self,
        num_envs: int = 1,
        game: str = "space_invaders",
        noise: bool = False,
        idle_actions: int = 2,
        max_episode_frames: int | None = None,
        noop_max: int = 30,
        fit: Literal["tile", "stretch"] = "tile",
        images: Images | None = None,
        num_threads: int = 0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        size: int = SIZE,
        repeat_action_probability: float = 0.0,
    ) -> None:
        """`max_episode_frames`: 18,000 for Montezuma's Revenge as in the release, else the ALE's 108,000.

        `num_threads`: 0 for one a core. `repeat_action_probability`: that a frame repeats the last frame's action.
        """
        expect(noise in (False, True), "noise must be False or True", noise)
        expect(num_envs >= 1, "num_envs must be at least 1", num_envs)
        expect(1 <= size <= min(_SCREEN), f"size must be from 1 to {min(_SCREEN)}, the console's own width", size)
        idle = f"idle_actions (noise={noise}) must be at least {1 if noise else 0}"
        expect(idle_actions >= noise, idle, idle_actions)
        frames = max_episode_frames
        expect(frames is None or frames >= 1, "max_episode_frames must be at least 1", frames)
        expect(noop_max >= 0, "noop_max must be at least 0", noop_max)
        self._ale = import_ale()
        self._ale.ALEInterface.setLoggerMode(self._ale.LoggerMode.Error)
        self.game, path = rom_name(game), rom_path(game)
        montezuma = self.game == MONTEZUMA
        limit = max_episode_frames or (18_000 if montezuma else 108_000)
        self._emulators = [self._start(path, limit) for _ in range(num_envs)]
        self._game_actions = [int(action.value) for action in self._emulators[0].getMinimalActionSet()]
        actions = Discrete(len(self._game_actions) + idle_actions)
        super().__init__(num_envs, Box(0, 255, (STACK, size, size), np.uint8), actions, autoreset_mode, render_mode)
        self._source = noise_screen(images, fit, size) if noise else None
        self.images_source = "none" if self._source is None else self._source.name
        self.num_cells = NUM_CELLS if montezuma else 0
        self._noop_max, self._sticky = noop_max, repeat_action_probability
        self._down, self._across = area_matrix(_SCREEN[0], size), area_matrix(_SCREEN[1], size).T.copy()
        self._area = np.float32(self._down[0].sum() * self._across[:, 0].sum())
        self._stacks = np.zeros((num_envs, STACK, size, size), dtype=np.uint8)
        self._cells = np.full(num_envs, -1)
        self._lives = np.zeros(num_envs, dtype=np.int64)
        self._held = np.zeros(num_envs, dtype=np.int64)  # the action of the last frame
        self._noise = np.zeros(num_envs, dtype=np.bool_)
        threads = min(num_threads or os.cpu_count() or 1, num_envs)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def _start(self, path: Path, limit: int) -> Any:
        emulator = self._ale.ALEInterface()
        emulator.setInt("random_seed", 0)
        emulator.setFloat("repeat_action_probability", 0.0)  # drawn here, from the row's own generator
        emulator.setInt("max_num_frames_per_episode", limit)
        emulator.loadROM(path)
        return emulator

    def _reset_rows(self, rows: Mask) -> None:
        self._noise[rows], self._held[rows] = False, 0
        for row in np.flatnonzero(rows).tolist():
            emulator = self._emulators[row]
            emulator.reset_game()
            noops = int(self.rngs[row].integers(0, self._noop_max + 1)) if self._noop_max else 0
            for _ in range(noops):
                emulator.act(0)
                if emulator.game_over():
                    emulator.reset_game()
            self._stacks[row] = 0
            self._stacks[row, -1] = self._shrink(emulator.getScreenGrayscale())
            self._read_memory(row)

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        rows = np.arange(self.num_envs) if active is None else np.flatnonzero(active)
        reward = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        stacks = self._stacks
        idle = actions >= len(self._game_actions)

        def advance(row: int) -> None:
            reward[row], frame = self._repeat(row, 0 if idle[row] else self._game_actions[actions[row]])
            stacks[row, :-1] = stacks[row, 1:]
            stacks[row, -1] = self._shrink(frame)
            terminated[row] = self._emulators[row].game_over(with_truncation=False)
            truncated[row] = self._emulators[row].game_truncated()
            self._read_memory(row)

        if self._pool is None:
            for row in rows.tolist():
                advance(row)
        else:
            list(self._pool.map(advance, rows.tolist()))  # the ALE runs without Python's lock
        self._noise[rows] = idle[rows] if self._source is not None else False
        noisy = rows[self._noise[rows]]
        if self._source is not None and len(noisy):
            stacks[noisy, -1] = self._source.draw(self.noise_rng, noisy)
        return reward, terminated, truncated, bool((terminated | truncated).any())

    def _repeat(self, row: int, action: int) -> tuple[float, NDArray[np.uint8]]:
        """Hold an action for 4 frames; the reward, and the brighter pixels of the last two frames."""
        emulator, reward = self._emulators[row], 0.0
        screens = np.zeros((2, *_SCREEN), dtype=np.uint8)
        for frame in range(SKIP):
            if not self._sticky or self.rngs[row].random() >= self._sticky:
                self._held[row] = action
            reward += emulator.act(int(self._held[row]))
            if frame >= SKIP - 2 or emulator.game_over():
                emulator.getScreenGrayscale(screens[frame % 2])
            if emulator.game_over():
                break
        return reward, np.maximum(screens[0], screens[1])

    def _shrink(self, screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
        areas: NDArray[np.float32] = self._down @ screen.astype(np.float32) @ self._across
        shrunk: NDArray[np.uint8] = np.rint(areas / self._area).astype(np.uint8)
        return shrunk

    def _read_memory(self, row: int) -> None:
        emulator = self._emulators[row]
        self._lives[row] = emulator.lives()
        if self.num_cells:
            room, x, y = emulator.getRAM()[[_RAM_ROOM, _RAM_X, _RAM_Y]].tolist()
            self._cells[row] = cell_of(x, y, min(room, ROOMS - 1))

    def _views(self, rows: Array | slice) -> Array:
        return self._stacks[rows]

    def _info(self) -> dict[str, Array]:
        info = {"cell": self._cells.copy(), "noise": self._noise.copy(), "lives": self._lives.copy()}
        return {**info, "room": rooms_of(self._cells)} if self.num_cells else info

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        return {"held": (0, 17), "cells": (-1, NUM_CELLS - 1)}

    def get_state(self) -> State:
        """Everything the future depends on, the emulators' own serialised states included."""
        saved = [emulator.cloneState(include_rng=True).serialize() for emulator in self._emulators]
        sizes = np.array([len(data) for data in saved])
        emulators = np.zeros((self.num_envs, sizes.max()), dtype=np.uint8)
        for row, data in enumerate(saved):
            emulators[row, : len(data)] = np.frombuffer(data, dtype=np.uint8)
        return {**super().get_state(), "emulators": emulators, "emulator_sizes": sizes}

    def set_state(self, state: State) -> None:
        rest = dict(state)
        if "emulators" not in rest or "emulator_sizes" not in rest:
            raise ValueError(f"expected a state with emulators and emulator_sizes, got {sorted(rest)}")
        emulators, sizes = np.asarray(rest.pop("emulators")), np.asarray(rest.pop("emulator_sizes"))
        super().set_state(rest)
        for emulator, row, size in zip(self._emulators, emulators, sizes, strict=True):
            emulator.restoreState(self._ale.ALEState(row[:size].astype(np.uint8).tobytes()))

    def _render_row(self, row: int) -> Array:
        return np.repeat(self._stacks[row, -1][..., None], 3, axis=-1)

    def close_extras(self, **kwargs: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class Atari(SingleEnv):
    """One game; `gymnasium.make("lpm/Atari-v0", game=...)` gives this. The options are those of `AtariVector`."""

    vector = AtariVector
