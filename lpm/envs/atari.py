"""Atari games with a noisy TV (the paper's Atari experiments), on ale-py's native vector environment.

The paper's preprocessing: 4 repeated frames with the last two pooled, 84x84 gray, 4 stacked, up to 30 no-ops at the
start, no sticky actions, no reward clipping, no pressing of fire, no end at a lost life. Two idle actions are added
in both variants: each is a no-op. With `noise=True` an idle action also replaces the frame by a random CIFAR-10
image, while the game goes on; the stack carries the image for 4 steps.

ale-py's vector environment shows neither the console's memory nor a way to save it, so two backends exist:
`backend="native"` is the fast one; `backend="ram"` drives the emulators from here, reports coverage from memory and
saves and restores exactly. Single environments and Montezuma's Revenge use "ram".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lpm.envs.atari_ram import (
    MONTEZUMA,
    SIZE,
    STACK,
    AtariRamVector,
    check_settings,
    default_max_frames,
    import_ale,
    rom_name,
    rom_path,
)
from lpm.envs.noise_sources import Images, ImageSource, cifar10_images
from lpm.envs.rng import RowRandom
from lpm.envs.vector import Array, Mask, Rewards, SingleEnv, State, checked_mask, invalid_action, row_seeds

Backend = Literal["auto", "native", "ram"]


class NoiseFrames:
    """The images in the frame stacks of a batch: painted once when drawn, carried along until they leave."""

    def __init__(self, num_envs: int, source: ImageSource, size: int = SIZE) -> None:
        self.source = source
        self.rng = RowRandom(num_envs)
        self._ring = np.zeros((num_envs, STACK, size, size), dtype=np.uint8)
        self._on = np.zeros((num_envs, STACK), dtype=np.bool_)
        self._newest = 0

    def advance(self, idle: Mask, restarted: Mask) -> None:
        """One step: stacks shift, idle rows get a new image, restarted rows lose theirs."""
        self._newest = (self._newest + 1) % STACK
        self._on[restarted] = False
        self._on[:, self._newest] = idle
        rows = np.flatnonzero(idle)
        if len(rows):
            self._ring[rows, self._newest] = self.source.draw(self.rng, rows)

    def clear(self, rows: Mask) -> None:
        """Rows that begin an episode show no image."""
        self._on[rows] = False

    def paint(self, stacks: Array, rows: Mask | None = None) -> None:
        """Put the images into the stacks of a batch, in place."""
        order = (self._newest + 1 + np.arange(STACK)) % STACK
        on = self._on[:, order]
        where, slots = np.nonzero(on if rows is None else on & rows[:, None])
        stacks[where, slots] = self._ring[where, order[slots]]


class AtariNativeVector(VectorEnv[Array, Array, Array]):
    """ale-py's vector environment with idle actions and, if asked for, noise; `info["cell"]` is always -1."""

    num_cells = 0

    def __init__(
        self,
        num_envs: int,
        game: str,
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
        ale = import_ale()
        rom_path(game)
        check_settings(noise, num_envs, idle_actions, max_episode_frames, noop_max, size)
        source = noise_screen(images, fit, size) if noise else None
        ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)
        self.game = rom_name(game)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": 15,
            "autoreset_mode": self.autoreset_mode,
        }
        self.render_mode = render_mode
        self.num_envs = num_envs
        # ale-py has no DISABLED: rows that ended are never stepped again before a reset, so NEXT_STEP serves.
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        native_mode = AutoresetMode.NEXT_STEP if disabled else self.autoreset_mode
        self._env = ale.AtariVectorEnv(
            self.game,
            num_envs,
            num_threads=num_threads,
            max_num_frames_per_episode=max_episode_frames or default_max_frames(self.game),
            repeat_action_probability=repeat_action_probability,
            autoreset_mode=native_mode,
            img_height=size,
            img_width=size,
            noop_max=noop_max,
            reward_clipping=False,
            use_fire_reset=False,
            episodic_life=False,
        )
        self._game_actions = int(self._env.single_action_space.n)
        self.single_observation_space = Box(0, 255, (STACK, size, size), np.uint8)
        self.single_action_space = Discrete(self._game_actions + idle_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.images_source = "none" if source is None else source.name
        self._frames = None if source is None else NoiseFrames(num_envs, source, size)
        self._pending = np.zeros(num_envs, dtype=np.bool_)
        self._last: Array | None = None

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Begin new episodes in all rows, or only in those of `options={"reset_mask": mask}`."""
        rows = np.ones(self.num_envs, dtype=np.bool_)
        if options is not None and "reset_mask" in options:
            rows = checked_mask(options["reset_mask"], self.num_envs)
        if seed is None and self._last is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0]) // 2
        seeds = row_seeds(seed, self.num_envs)
        wrong = [own for own in seeds if own is not None and not 0 <= own < 2**31]
        if wrong:
            raise ValueError(f"ale-py's vector environment takes seeds in [0, 2**31), got {wrong[0]}")
        native = np.array([-1 if own is None else own for own in seeds])  # -1: none
        observation, info = self._env.reset(seed=native[rows], options=options)
        self._pending[rows] = False
        if self._frames is not None:
            for row in np.flatnonzero(rows & (native >= 0)).tolist():
                self._frames.rng.seed(row, int(native[row]))
            self._frames.clear(rows)
            self._frames.paint(observation)
        self._last = observation
        return observation, self._info(info, np.zeros(self.num_envs, dtype=np.bool_))

    def step(self, actions: Array) -> tuple[Array, Rewards, Mask, Mask, dict[str, Any]]:
        """Advance every row by one agent step (4 frames)."""
        actions = np.asarray(actions)
        if not self.action_space.contains(actions):
            raise invalid_action(actions, self.action_space)
        if self._last is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._pending.any():
            raise ValueError(
                f"rows {np.flatnonzero(self._pending).tolist()} have ended: with autoreset disabled call "
                "reset(options={'reset_mask': mask}) before the next step"
            )
        idle = actions >= self._game_actions
        observation, reward, terminated, truncated, raw = self._env.step(np.where(idle, 0, actions))
        done = terminated | truncated
        restarted = self._pending
        noise = idle & ~restarted if self._frames is not None else np.zeros_like(idle)
        if self._frames is not None:
            self._frames.advance(noise, restarted)
        finals = raw.pop("final_obs", None)
        info = self._info(raw, noise)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            if done.any():
                info = self._move_finals(info, finals, done, noise)
        else:
            self._pending = done
        if self._frames is not None:
            self._frames.paint(observation)
        self._last = observation
        return observation, reward.astype(np.float64), terminated, truncated, info

    def _move_finals(self, info: dict[str, Any], finals: Array, done: Mask, noise: Mask) -> dict[str, Any]:
        """The last observations of restarted rows in Gymnasium's form (ale-py gives one array for all rows)."""
        if self._frames is not None:
            self._frames.paint(finals, done)
            self._frames.clear(done)
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(done):
            final_obs[row] = finals[row]
        final_info = {"cell": info["cell"], "_cell": done, "noise": noise, "_noise": done}
        return {
            **info,
            "noise": noise & ~done,
            "final_obs": final_obs,
            "_final_obs": done,
            "final_info": final_info,
            "_final_info": done,
        }

    def _info(self, raw: dict[str, Any], noise: Mask) -> dict[str, Any]:
        return {"lives": raw["lives"], "cell": np.full(self.num_envs, -1), "noise": noise}

    def get_state(self) -> State:
        """Not possible: ale-py's vector environment gives no access to the emulators."""
        raise NotImplementedError('ale-py\'s vector environment cannot be saved: use backend="ram"')

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """The newest frame of each row."""
        if self._last is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        return tuple(np.repeat(stack[-1][..., None], 3, axis=-1) for stack in self._last)

    def close_extras(self, **kwargs: Any) -> None:
        self._env.close()


def make_atari_vector(
    num_envs: int = 1,
    game: str = "space_invaders",
    noise: bool = False,
    backend: Backend = "auto",
    **settings: Any,
) -> VectorEnv[Array, Array, Array]:
    """What `gymnasium.make_vec("lpm/Atari-v0", game=...)` gives: `backend="auto"` is "ram" for Montezuma only."""
    if backend not in ("auto", "native", "ram"):
        raise ValueError(f'backend must be "auto", "native" or "ram", got {backend!r}')
    _check_noise(noise)
    if backend == "ram" or (backend == "auto" and rom_name(game) == MONTEZUMA):
        return make_ram_vector(num_envs, game, noise, **settings)
    return AtariNativeVector(num_envs, game, noise, **settings)


def make_ram_vector(
    num_envs: int = 1,
    game: str = "space_invaders",
    noise: bool = False,
    images: Images | None = None,
    fit: Literal["tile", "stretch"] = "tile",
    size: int = SIZE,
    **settings: Any,
) -> AtariRamVector:
    """`backend="ram"`; the other settings are those of `AtariRamVector`."""
    _check_noise(noise)
    return AtariRamVector(num_envs, game, noise_screen(images, fit, size) if noise else None, size=size, **settings)


class Atari(SingleEnv):
    """One game; `gymnasium.make("lpm/Atari-v0", game=...)` gives this. The options are those of `make_ram_vector`."""

    vector = staticmethod(make_ram_vector)


def _check_noise(noise: Any) -> None:
    if noise not in (False, True):
        raise ValueError(f"noise must be False or True, got {noise!r}")


def noise_screen(images: Images | None, fit: str, size: int = SIZE) -> ImageSource:
    """CIFAR-10 (or the given images) as gray frames, laid on the console's 210x160 screen first if tiled."""
    chosen, name = cifar10_images() if images is None else (images, "images given")
    return ImageSource(chosen, (size, size), fit, tiled_size=(210, 160), name=name)
