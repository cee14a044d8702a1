"""The parts of a noisy TV: when noise appears, where it is painted, and which actions are idle."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from lpm.envs.noise_config import NoiseConfig
from lpm.envs.noise_sources import (
    Array,
    Gaussian,
    ImageSource,
    Source,
    Uniform,
    cifar10_images,
    folder_images,
    screen_layout,
)
from lpm.envs.rng import RowRandom
from lpm.envs.vector import Mask

Rows = NDArray[np.int64]
Condition = Callable[[Array, dict[str, Any]], Mask]
"""Given true observations and their info, one entry each, which of them have the TV on."""


class Screen:
    """Paints noise into the screen's part of chosen rows of a batch of observations."""

    def __init__(self, config: NoiseConfig, space: gym.Space[Any], source: Source | None = None) -> None:
        if not isinstance(space, Box):
            raise ValueError(f"a noisy TV needs a Box observation space, got {space}")
        if len(config.region) > len(space.shape) or any(
            not 0 <= start < stop <= size for (start, stop), size in zip(config.region, space.shape, strict=False)
        ):
            raise ValueError(f"region {config.region} does not lie within observations of shape {space.shape}")
        self.config = config
        self.slices = tuple(slice(start, stop) for start, stop in config.region)
        low, high = space.low[self.slices], space.high[self.slices]
        self.shape = low.shape
        self.bounds = float(low.min()), float(high.max())
        self.dtype = np.dtype(space.dtype)
        self.source = source or self._make_source()
        self.observation_space = self._noisy_space(space)

    @property
    def images_source(self) -> str:
        """Where the images come from; "none" if the TV shows numbers."""
        return self.source.name if isinstance(self.source, ImageSource) else "none"

    def _make_source(self) -> Source:
        config = self.config
        if config.trigger == "never":
            return Uniform(self.shape, self.dtype, 0, 0)
        if config.source == "cifar10":
            images, name = cifar10_images()
            return ImageSource(images, self.shape, config.fit, name=name)
        if config.source == "folder":
            _, height, width = screen_layout(self.shape)
            images = folder_images(config.folder, (height, width))
            return ImageSource(images, self.shape, name=config.folder)
        if config.source == "gaussian":
            middle = sum(self.bounds) / 2 if np.isfinite(self.bounds).all() else 0.0
            return Gaussian(self.shape, 0.0 if config.blend == "add" else middle, config.std)
        low, high = self._uniform_bounds()
        return Uniform(self.shape, self.dtype if config.blend == "replace" else np.float64, low, high)

    def _uniform_bounds(self) -> tuple[float, float]:
        low = self.bounds[0] if self.config.low is None else self.config.low
        high = self.bounds[1] if self.config.high is None else self.config.high
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise ValueError(f"uniform noise needs finite bounds low <= high, got low={low}, high={high}")
        within = self.bounds[0] <= low and high <= self.bounds[1]
        if self.dtype.kind in "iu" and self.config.blend == "replace" and not within:
            raise ValueError(
                f"noise in {self.dtype} observations must lie in {self.bounds}, got low={low}, high={high}"
            )
        return low, high

    def _noisy_space(self, space: Box) -> Box:
        """The observation space, widened where noise can leave it."""
        config = self.config
        if config.trigger == "never" or self.dtype.kind in "iu":
            return space
        low, high = space.low.copy(), space.high.copy()
        if config.source == "gaussian":
            low[self.slices], high[self.slices] = -np.inf, np.inf
        elif config.source == "uniform":
            least, most = self._uniform_bounds()
            if config.blend == "add":
                low[self.slices] = low[self.slices] + least
                high[self.slices] = high[self.slices] + most
            else:
                low[self.slices] = np.minimum(low[self.slices], least)
                high[self.slices] = np.maximum(high[self.slices], most)
        return Box(low, high, dtype=space.dtype.type)

    def paint(self, batch: Array, where: Rows, rng: RowRandom, ids: Rows) -> None:
        """Show fresh noise at these places of the batch, in place, from the streams of the rows `ids`."""
        noise = self.source.draw(rng, ids)
        if isinstance(self.source, ImageSource) and self.bounds != (0.0, 255.0) and np.isfinite(self.bounds).all():
            noise = self.bounds[0] + noise * ((self.bounds[1] - self.bounds[0]) / 255.0)
        screen: Any = (where, *self.slices)
        if self.config.blend == "add":
            noise = batch[screen] + noise
        if self.dtype.kind in "iu" and noise.dtype != self.dtype:
            noise = np.clip(np.rint(noise), *self.bounds)
        batch[screen] = noise


class IdleActions:
    """Which actions are idle, and what the environment receives instead of them."""

    def __init__(self, config: NoiseConfig, space: gym.Space[Any]) -> None:
        self.added = config.added_actions
        self.noop = config.noop
        if isinstance(space, Discrete) and space.start == 0:
            wrong = [action for action in (*config.actions, config.noop) if not space.contains(np.int64(action))]
            if wrong:
                raise ValueError(f"actions and noop must lie in {space}, got {wrong}")
            self.size = int(space.n)
            self.idle = np.zeros(self.size + self.added, dtype=np.bool_)
            self.idle[[*config.actions, *range(self.size, self.size + self.added)]] = True
            self.space: gym.Space[Any] = Discrete(self.size + self.added)
        elif isinstance(space, Box) and len(space.shape) == 1 and not config.actions:
            self.size = space.shape[0]
            ones = np.ones(self.added, dtype=space.dtype)
            self.space = Box(np.append(space.low, -ones), np.append(space.high, ones), dtype=space.dtype.type)
        else:
            raise ValueError(
                "idle actions need a Discrete action space from 0, or (added ones only) a one-dimensional Box, "
                f"got {space}"
            )
        self.discrete = isinstance(space, Discrete)

    def split(self, actions: Array) -> tuple[Array, Mask]:
        """What the environment receives, and the idle rows."""
        if self.discrete:
            idle: Mask = self.idle[actions]
            return np.where(idle, self.noop, actions), idle
        inner, extra = actions[:, : self.size], actions[:, self.size :]
        idle = np.asarray((extra > 0).any(axis=1))
        return np.where(idle[:, None], 0, inner).astype(actions.dtype), idle


class Television:
    """Decides, row by row, whether noise is shown, and shows it: what both wrappers share.

    Each row draws from a stream of its own, seeded apart from that of other wrappers around the same environment.
    """

    def __init__(
        self, config: NoiseConfig, screen: Screen, condition: Condition | None, num_rows: int, depth: int
    ) -> None:
        """`depth`: how many noisy wrappers lie beneath, so that equal ones draw different noise."""
        if config.trigger == "state" and condition is None and not config.cells:
            raise ValueError('trigger="state" needs `cells` in the config or a `condition`, got neither')
        self.config = config
        self.screen = screen
        self.rng = RowRandom(num_rows)
        self._salt = zlib.crc32(f"{config!r} {depth}".encode()) << 32
        self._condition = condition
        self._cells = np.array(config.cells, dtype=np.int64)

    def seed(self, row: int, seed: int) -> None:
        """Start a row's noise again."""
        self.rng.seed(row, seed ^ self._salt)

    def responding(self, on: Mask, ids: Rows) -> Mask:
        """Those of the TVs that are on that show noise this time."""
        if self.config.probability == 1.0 or not on.any():
            return on
        responding = on.copy()
        responding[on] = self.rng.uniform(ids[on], 1)[:, 0] < self.config.probability
        return responding

    def noisy(self, batch: Array, info: dict[str, Any], idle: Mask, ids: Rows) -> Mask:
        """Which observations of a batch show noise; `ids` are the rows they belong to, `idle` have responded."""
        if self.config.trigger == "action":
            return idle
        if self.config.trigger == "never":
            return np.zeros_like(idle)
        if self.config.trigger == "always":
            return self.responding(np.ones_like(idle), ids)
        if self._condition is not None:
            return self.responding(self._condition(batch, info), ids)
        if "cell" not in info:
            raise ValueError('cells in a noise config need an environment that gives info["cell"], got none')
        return self.responding(np.isin(info["cell"], self._cells), ids)

    def show(self, batch: Array, noisy: Mask, ids: Rows) -> None:
        """Paint fresh noise into the noisy observations of a batch, in place."""
        where = np.flatnonzero(noisy)
        if len(where):
            self.screen.paint(batch, where, self.rng, ids[where])
