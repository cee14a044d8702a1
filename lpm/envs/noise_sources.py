"""What a noisy TV shows and where: the settings, the sources of noise, and the screen they are painted on.

A new source is a class with `draw`, a name in `NoiseConfig.source` and a case in `Screen._source`.
"""

from dataclasses import dataclass, replace
from math import inf
from operator import index
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_args, get_type_hints

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray

from lpm.envs.rng import RowRandom
from lpm.envs.vector import expect
from lpm.storage.files import open_regular
from lpm.utils.versions import pip_install

Array = NDArray[Any]
Images = NDArray[np.uint8]
GRAY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")
"""Of what is read, whatever a file is called: Pillow hands others, such as EPS, to programs."""
_MAX_PIXELS = 50_000_000
"""Of an image: one of more is taken for a decompression bomb."""


@dataclass(frozen=True)
class NoiseConfig:
    """One noise setting: when the TV is on, what it shows and where, and what becomes of the true state."""

    trigger: Literal["action", "state", "always", "never"] = "action"
    """"action": idle actions switch it on; "state": a condition does; "always"; "never": the fair control."""
    source: Literal["uniform", "gaussian", "cifar10", "folder"] = "uniform"
    """What it shows."""
    actions: tuple[int, ...] = ()
    """Existing discrete actions that are idle."""
    added_actions: int = 0
    """Idle actions added behind the existing ones; for a Box, added dimensions that are idle above 0."""
    noop: int = 0
    """The discrete action the environment receives on an idle step (a Box receives zeros)."""
    frozen: bool = False
    """An idle step leaves the environment untouched, its step counter included; otherwise it advances by noop."""
    probability: float = 1.0
    """Chance that a TV that is on shows noise; when it does not, the step is an ordinary one."""
    cells: tuple[int, ...] = ()
    """For "state": the coverage cells (`info["cell"]`) in which the TV is on."""
    region: tuple[tuple[int, int], ...] = ()
    """The part of the observation that is the screen: (start, stop) for each leading axis; empty: all of it."""
    blend: Literal["replace", "add"] = "replace"
    """Replace the observation or add to it."""
    low: float | None = None
    """Lower bound of uniform noise; default: the lowest value of the observation space."""
    high: float | None = None
    """Upper bound of uniform noise; default: the highest value of the observation space."""
    std: float = 1.0
    """Standard deviation of Gaussian noise; its mean is 0 when added, else the middle of the bounds if finite."""
    fit: Literal["stretch", "tile"] = "stretch"
    """How an image fills the screen."""
    folder: str = ""
    """For "folder": where the images are."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be meant; sequences become tuples, so that every config can be hashed."""
        for name in ("actions", "cells"):
            object.__setattr__(self, name, tuple(index(value) for value in getattr(self, name)))
        region = tuple((index(start), index(stop)) for start, stop in self.region)
        object.__setattr__(self, "region", region)
        for name, hint in get_type_hints(NoiseConfig).items():
            if name in ("trigger", "source", "blend", "fit"):
                value, allowed = getattr(self, name), get_args(hint)
                expect(value in allowed, f"{name} must be one of {', '.join(allowed)}", value)
        expect(0.0 <= self.probability <= 1.0, "probability must lie in [0, 1]", self.probability)
        expect(index(self.added_actions) >= 0, "added_actions must be at least 0", self.added_actions)
        expect(0.0 <= self.std < inf, "std must be at least 0 and finite", self.std)
        ends = self.low, self.high
        expect(None in ends or self.low <= self.high, "low must not lie above high", ends)  # type: ignore[operator]
        idle = self.trigger != "action" or self.has_idle_actions
        expect(idle, 'trigger="action" needs `actions` or `added_actions`', (self.actions, self.added_actions))
        pictures = self.source in ("cifar10", "folder")
        expect(self.source != "folder" or self.folder != "", 'source="folder" needs `folder`', self.folder)
        expect(self.source != "folder" or self.fit != "tile", 'fit="tile" is for CIFAR-10', self.source)
        expect(not pictures or self.blend != "add", 'blend="add" is for uniform and Gaussian noise', self.source)

    @property
    def has_idle_actions(self) -> bool:
        return bool(self.actions) or self.added_actions > 0

    def control(self) -> Self:
        """The fair control: the same idle actions with the same effect on the state, and no noise."""
        return replace(self, trigger="never")


class Source(Protocol):
    """Fresh noise for some rows of a batch; with numbers `low` and `high`, it says that it never leaves them."""

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        """An array of shape (rows, *shape) in the dtype of the observation, drawn from each row's own stream."""
        ...


class Uniform:
    """Independent uniform numbers; for integers both bounds are included."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> None:
        self.shape, self.dtype, self.low, self.high = shape, np.dtype(dtype), low, high
        self.count = int(np.prod(shape))

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        if self.dtype == np.uint8 and (self.low, self.high) == (0, 255):
            return rng.bytes(rows, self.count).reshape(len(rows), *self.shape)
        unit = rng.uniform(rows, self.count).reshape(len(rows), *self.shape)
        if self.dtype.kind in "iu":
            return (self.low + np.floor(unit * (self.high - self.low + 1))).astype(self.dtype)
        return (self.low + unit * (self.high - self.low)).astype(self.dtype)


class Gaussian:
    """Independent normal numbers, by the Box-Muller transform of each row's uniform stream."""

    def __init__(self, shape: tuple[int, ...], mean: float, std: float) -> None:
        self.shape, self.mean, self.std = shape, mean, std
        self.count = int(np.prod(shape))

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        unit = rng.uniform(rows, 2 * self.count)
        radius = np.sqrt(-2.0 * np.log1p(-unit[:, : self.count]))
        normal = radius * np.cos(2.0 * np.pi * unit[:, self.count :])
        return (self.mean + self.std * normal).reshape(len(rows), *self.shape)


class ImageSource:
    """A random image of a set for each row, stretched or tiled to the size of the screen.

    Stretching, and tiling followed by a bilinear resize, are linear along each axis, so an image becomes a frame by
    one small matrix product per axis; nothing but the chosen images is ever resized.
    """

    def __init__(
        self,
        images: Images,
        shape: tuple[int, ...],
        fit: str = "stretch",
        tiled_size: tuple[int, int] | None = None,
        name: str = "images given",
    ) -> None:
        """`tiled_size`: (height, width) of the screen that is tiled before it is resized; default: the shape's."""
        expect(fit in ("stretch", "tile"), 'fit must be "stretch" or "tile"', fit)
        self.name, self.shape = name, shape
        self.images, _ = images_or_cifar10(images)
        self.layout, height, width = screen_layout(shape)
        self.coloured = self.layout == "first" or (self.layout == "last" and shape[-1] == 3)
        tile_height, tile_width = tiled_size or (height, width)
        if fit == "tile":
            self.down = resize_matrix(tile_height, height) @ tile_matrix(images.shape[1], tile_height)
            self.across = resize_matrix(tile_width, width) @ tile_matrix(images.shape[2], tile_width)
        else:
            self.down = resize_matrix(images.shape[1], height)
            self.across = resize_matrix(images.shape[2], width)

    def frames(self, indices: NDArray[np.int64]) -> Images:
        """The images of these indices as they appear on the screen."""
        chosen = self.images[indices].astype(np.float32)
        planes = chosen.transpose(0, 3, 1, 2) if self.coloured else (chosen @ GRAY)[:, None]
        frames: Images = np.rint(self.down @ planes @ self.across.T).astype(np.uint8)
        if self.layout == "last":
            return frames.transpose(0, 2, 3, 1)
        if self.layout == "gray":
            return frames[:, 0]
        return np.broadcast_to(frames, (len(indices), *self.shape))

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        return self.frames(rng.integers(rows, len(self.images)))


def screen_layout(shape: tuple[int, ...]) -> tuple[str, int, int]:
    """How a picture lies in an array: "gray" (h, w), "last" (h, w, 1 or 3), "first" (3, h, w), "stack" (k, h, w)."""
    if len(shape) == 2:
        return "gray", shape[0], shape[1]
    if len(shape) == 3 and shape[2] in (1, 3):
        return "last", shape[0], shape[1]
    if len(shape) == 3:
        return ("first" if shape[0] == 3 else "stack"), shape[1], shape[2]
    raise ValueError(f"an image TV needs a screen of shape (h, w), (h, w, c) or (c, h, w), got {shape}")


def resize_matrix(source: int, target: int) -> NDArray[np.float32]:
    """The matrix of a bilinear resize along one axis (pixel centres aligned, edges repeated)."""
    centre = (np.arange(target) + 0.5) * source / target - 0.5
    left = np.clip(np.floor(centre).astype(np.int64), 0, source - 1)
    right = np.minimum(left + 1, source - 1)
    weight = np.clip(centre - left, 0.0, 1.0)
    matrix = np.zeros((target, source), dtype=np.float32)
    np.add.at(matrix, (np.arange(target), left), 1.0 - weight)
    np.add.at(matrix, (np.arange(target), right), weight)
    return matrix


def tile_matrix(source: int, target: int) -> NDArray[np.float32]:
    """The matrix that repeats an axis until it is `target` long."""
    return np.eye(source, dtype=np.float32)[np.arange(target) % source]


def images_or_cifar10(images: ArrayLike | None = None) -> tuple[Images, str]:
    """The images given, or else CIFAR-10's training images (or what stands in for them); and where they come from."""
    if images is None:
        from lpm.data import cifar10

        image_set = cifar10("train")
        return image_set.images, image_set.source
    given = np.asarray(images)
    if given.dtype != np.uint8 or given.ndim != 4 or given.shape[-1] != 3 or 0 in given.shape:
        wanted = "a non-empty uint8 array of shape (n, height, width, 3)"
        raise ValueError(f"images: expected {wanted}, got {given.dtype} of shape {given.shape}")
    return given, "images given"


def folder_images(folder: str, size: tuple[int, int]) -> Images:
    """Every image below a folder, as RGB of one (height, width), in the order of their paths."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"reading a folder of images needs Pillow: {pip_install('data')}") from error
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"expected a folder of images, got {folder!r}, which is not a folder")
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not paths:
        raise ValueError(f"expected images ({', '.join(_SUFFIXES)}) in {folder!r}, found none")
    height, width = size
    frames = []
    for path in paths:
        with open_regular(path) as stream, Image.open(stream, formats=_FORMATS) as image:
            pixels = image.width * image.height
            expect(pixels <= _MAX_PIXELS, f"{path}: expected at most {_MAX_PIXELS:,} pixels", pixels)
            frames.append(np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)))
    return np.stack(frames)


class Screen:
    """Paints noise into the screen's part of chosen rows of a batch of observations."""

    def __init__(self, config: NoiseConfig, space: gym.Space[Any], source: Source | None = None) -> None:
        if not isinstance(space, Box):
            raise ValueError(f"a noisy TV needs a Box observation space, got {space}")
        parts = zip(config.region, space.shape, strict=False)
        inside = all(0 <= start < stop <= size for (start, stop), size in parts)
        if len(config.region) > len(space.shape) or not inside:
            raise ValueError(f"region {config.region} does not lie within observations of shape {space.shape}")
        self.config = config
        self.slices = tuple(slice(start, stop) for start, stop in config.region)
        low, high = space.low[self.slices], space.high[self.slices]
        self.shape = low.shape
        self.bounds = float(low.min()), float(high.max())
        self.dtype = np.dtype(space.dtype)
        self.source = source or self._source()
        self.observation_space = self._noisy_space(space)

    @property
    def images_source(self) -> str:
        """Where the images come from; "none" if the TV shows numbers."""
        return self.source.name if isinstance(self.source, ImageSource) else "none"

    def _source(self) -> Source:
        """What the config names, for this screen."""
        config, shape, added = self.config, self.shape, self.config.blend == "add"
        if config.trigger == "never":
            return Uniform(shape, self.dtype, 0, 0)
        if config.source == "uniform":
            return Uniform(shape, np.float64 if added else self.dtype, *self.uniform_bounds())
        if config.source == "gaussian":
            centred = added or not np.isfinite(self.bounds).all()
            return Gaussian(shape, 0.0 if centred else sum(self.bounds) / 2, config.std)
        if config.source == "cifar10":
            images, name = images_or_cifar10()
            return ImageSource(images, shape, config.fit, name=name)
        _, height, width = screen_layout(shape)
        return ImageSource(folder_images(config.folder, (height, width)), shape, name=config.folder)

    def uniform_bounds(self) -> tuple[float, float]:
        """Lowest and highest value of uniform noise: those of the config, else of the screen."""
        low = self.bounds[0] if self.config.low is None else self.config.low
        high = self.bounds[1] if self.config.high is None else self.config.high
        ordered = bool(np.isfinite(low) and np.isfinite(high) and low <= high)
        expect(ordered, "uniform noise needs finite bounds low <= high", (low, high))
        within = self.bounds[0] <= low and high <= self.bounds[1]
        fits = within or self.dtype.kind not in "iu" or self.config.blend == "add"
        expect(fits, f"noise in {self.dtype} observations must lie in {self.bounds}", (low, high))
        return low, high

    def _noisy_space(self, space: Box) -> Box:
        """The observation space, widened where noise can leave it."""
        config = self.config
        if config.trigger == "never" or self.dtype.kind in "iu" or isinstance(self.source, ImageSource):
            return space
        low, high = space.low.copy(), space.high.copy()
        least, most = getattr(self.source, "low", -inf), getattr(self.source, "high", inf)
        if config.blend == "add":
            low[self.slices] = low[self.slices] + least
            high[self.slices] = high[self.slices] + most
        else:
            low[self.slices] = np.minimum(low[self.slices], least)
            high[self.slices] = np.maximum(high[self.slices], most)
        return Box(low, high, dtype=space.dtype.type)

    def paint(self, batch: Array, where: NDArray[np.int64], rng: RowRandom, ids: NDArray[np.int64]) -> None:
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
