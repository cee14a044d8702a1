"""What a noisy TV shows: uniform or Gaussian numbers, CIFAR-10 images, or the images in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lpm.envs.rng import RowRandom

Array = NDArray[Any]
Images = NDArray[np.uint8]
GRAY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")


class Source(Protocol):
    """Fresh noise for some rows of a batch."""

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        """An array of shape (rows, *shape) in the dtype of the observation, drawn from each row's own stream."""
        ...


class Uniform:
    """Independent uniform numbers; for integers both bounds are included."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> None:
        self.shape, self.dtype, self.low, self.high = shape, np.dtype(dtype), low, high
        self.count = int(np.prod(shape))

    def draw(self, rng: RowRandom, rows: NDArray[np.int64]) -> Array:
        """Independent numbers for each row."""
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
        """Independent numbers for each row."""
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
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8 or len(images) == 0:
            raise ValueError(
                f"expected images as uint8 of shape (n, height, width, 3), got {images.dtype} of shape {images.shape}"
            )
        if fit not in ("stretch", "tile"):
            raise ValueError(f'fit must be "stretch" or "tile", got {fit!r}')
        self.name = name
        self.images = images
        self.shape = shape
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
        """One random image for each row."""
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
    matrix = np.zeros((target, source), dtype=np.float32)
    matrix[np.arange(target), np.arange(target) % source] = 1.0
    return matrix


def cifar10_images() -> tuple[Images, str]:
    """The CIFAR-10 training images (or what stands in for them) and where they come from."""
    from lpm.data import cifar10

    image_set = cifar10("train")
    return image_set.images, str(image_set.source)


def folder_images(folder: str, size: tuple[int, int]) -> Images:
    """Every image below a folder, as RGB of one (height, width), in the order of their paths."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('reading a folder of images needs Pillow: pip install "lpm-exploration[data]"') from error
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"expected a folder of images, got {folder!r}, which is not a folder")
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not paths:
        raise ValueError(f"expected images ({', '.join(_SUFFIXES)}) in {folder!r}, found none")
    height, width = size
    frames = []
    for path in paths:
        with Image.open(path) as image:
            frames.append(np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)))
    return np.stack(frames)
