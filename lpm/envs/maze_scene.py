"""The maze laid out for the renderer: its surfaces, lit, with their mipmaps in one flat array, and walls as arrays.

Surfaces are drawn by arithmetic from fixed seeds: no image files. They have the mean colours of the Miniworld textures
that the paper's maze uses, and about the same grain, but none of their pixels. Only integer draws, sums and products
are used, so that every machine gets the same bytes.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpm.envs.maze_geometry import WALLS, Material

Image = NDArray[np.float64]


class Texture(NamedTuple):
    """A square, periodic RGB image and how many metres it spans. Row 0 is its top."""

    pixels: NDArray[np.uint8]
    metres: float


def _grain(rng: np.random.Generator, size: int, wide: int, tall: int) -> Image:
    """Periodic smooth noise of variance about 1/12 with features of `wide` x `tall` pixels."""
    noise = rng.random((size // tall, size // wide)) - 0.5
    for axis, factor in ((0, tall), (1, wide)):
        if factor > 1:
            steps = (np.arange(factor) + 0.5) / factor
            weight = np.tile(steps * steps * (3 - 2 * steps), noise.shape[axis])
            low = np.repeat(noise, factor, axis=axis)
            high = np.repeat(np.roll(noise, -1, axis=axis), factor, axis=axis)
            weight = weight[:, None] if axis == 0 else weight[None, :]
            noise = low + (high - low) * weight
    return noise


def _colour(shade: Image, mean: tuple[float, float, float], tint: tuple[float, float, float]) -> Image:
    centred = shade - shade.mean()
    coloured: Image = np.array(mean) + centred[..., None] * np.array(tint)
    return coloured


def _cardboard(rng: np.random.Generator, size: int) -> Image:
    phase = np.arange(size) % (size // 32)
    ribs = np.minimum(phase, size // 32 - phase) * (64.0 / size) - 0.5
    patches = np.where(_grain(rng, size, 64, 64) + 0.4 * _grain(rng, size, 16, 8) > 0.05, 1.0, 0.0)
    shade = 9 * ribs[None, :] + 10 * _grain(rng, size, 2, 2) + 9 * _grain(rng, size, 1, 1) + 7 * patches
    return _colour(shade, (186.6, 155.3, 107.0), (0.9, 1.0, 1.2))


def _asphalt(rng: np.random.Generator, size: int) -> Image:
    shade = 60 * _grain(rng, size, 1, 1) + 30 * _grain(rng, size, 2, 2) + 18 * _grain(rng, size, 8, 8)
    return _colour(shade + 10 * _grain(rng, size, 32, 32), (108.4, 109.6, 111.2), (1.0, 1.0, 1.0))


def _grass(rng: np.random.Generator, size: int) -> Image:
    blades = 70 * _grain(rng, size, 1, 1) + 50 * _grain(rng, size, 1, 4) + 45 * _grain(rng, size, 4, 2)
    shade = blades + 26 * _grain(rng, size, 16, 16) + 18 * _grain(rng, size, 64, 64)
    return _colour(shade, (96.2, 126.1, 46.2), (1.0, 1.2, 0.6))


def _concrete(rng: np.random.Generator, size: int) -> Image:
    shade = 9 * _grain(rng, size, 2, 1) + 13 * _grain(rng, size, 32, 2) + 13 * _grain(rng, size, 64, 8)
    return _colour(shade + 12 * _grain(rng, size, 64, 32), (152.8, 151.9, 147.9), (1.0, 1.0, 0.96))


def _stucco(rng: np.random.Generator, size: int) -> Image:
    height = 120 * _grain(rng, size, 4, 4) + 40 * _grain(rng, size, 2, 2)
    # Plaster lit from the upper left: brightness follows the slope.
    slope = np.roll(height, 1, axis=0) - height + np.roll(height, 1, axis=1) - height
    return _colour(slope + 5 * _grain(rng, size, 16, 16), (193.7, 193.7, 191.7), (1.0, 1.0, 1.0))


def _tiles(rng: np.random.Generator, size: int) -> Image:
    shade = 14 * _grain(rng, size, 2, 2) + 16 * _grain(rng, size, 16, 8) + 22 * _grain(rng, size, 64, 32)
    edge = np.arange(size) * 3 % size < 5
    joints = edge[:, None] | edge[None, :]
    return _colour(np.where(joints, -50.0, shade), (160.6, 160.6, 161.1), (1.0, 1.0, 1.0))


_RECIPES: Final[dict[Material, tuple[Callable[[np.random.Generator, int], Image], int, float]]] = {
    Material.CARDBOARD: (_cardboard, 256, 1.0),
    Material.ASPHALT: (_asphalt, 256, 1.0),
    Material.GRASS: (_grass, 512, 2.0),
    Material.CONCRETE: (_concrete, 256, 1.0),
    Material.STUCCO: (_stucco, 256, 1.0),
    Material.TILES: (_tiles, 512, 1.5),
}


def texture(material: Material) -> Texture:
    """The surface of one material.

    >>> texture(Material.GRASS).pixels.shape
    (512, 512, 3)
    """
    recipe, size, metres = _RECIPES[material]
    image = recipe(np.random.default_rng(int(material)), size)
    return Texture(np.clip(np.rint(image), 0, 255).astype(np.uint8), metres)


def mipmaps(image: NDArray[np.uint8], light: float) -> list[NDArray[np.uint8]]:
    """The image under a light, and its halvings down to one pixel, by averaging 2 x 2 pixels."""
    level = image.astype(np.float64) * light
    levels = [level]
    while level.shape[0] > 1:
        level = (level[0::2, 0::2] + level[1::2, 0::2] + level[0::2, 1::2] + level[1::2, 1::2]) / 4
        levels.append(level)
    return [np.clip(np.rint(level), 0, 255).astype(np.uint8) for level in levels]


# Miniworld's light: ambient 0.2 + 0.45, diffuse 0.7, and its position [0, 2.5, 0] + [1] is a NumPy sum, so that the
# light really is a direction, (1, 3.5, 1).
_AMBIENT, _DIFFUSE = 0.65, 0.7 / math.sqrt(1 + 3.5**2 + 1)


class Scene(NamedTuple):
    """What the kernels read: walls as arrays, and all lit textures with their mipmaps in one flat array."""

    along_z: NDArray[np.bool_]
    """Wall runs along z (at constant x) rather than along x."""
    place: NDArray[np.float64]
    """The constant coordinate of the wall."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    facing: NDArray[np.float64]
    """Sign of the normal along the constant axis: the side from which the wall is seen."""
    u_start: NDArray[np.float64]
    u_sign: NDArray[np.float64]
    texels: NDArray[np.uint64]
    """Red, green and blue in lanes of 16 bits, indexed by u then v.

    v grows upwards on walls and with z on floor and ceiling.
    """
    offset: NDArray[np.int64]
    """(surface, level): where a mipmap starts. The last two surfaces are floor and ceiling."""
    log_size: NDArray[np.int64]
    """log2 of the side of level 0."""
    per_metre: NDArray[np.float64]
    """Texels per metre of level 0."""


def _lit(nx: float, ny: float, nz: float) -> float:
    return min(1.0, _AMBIENT + _DIFFUSE * max(0.0, nx + 3.5 * ny + nz))


@cache
def build_scene() -> Scene:
    """Draw the textures, light them per wall and lay everything out for the kernels."""
    surfaces = [(w.material, _lit(w.nx, 0, w.nz)) for w in WALLS]
    surfaces += [(Material.STUCCO, _lit(0, 1, 0)), (Material.TILES, _lit(0, -1, 0))]
    images = {m: texture(m) for m in Material}
    placed: dict[tuple[Material, float], list[int]] = {}
    chunks: list[NDArray[np.uint64]] = []
    end = 0
    for key in dict.fromkeys(surfaces):
        material, light = key
        placed[key] = []
        for level in mipmaps(images[material].pixels, light):
            rgb = level.astype(np.uint64)
            packed = rgb[..., 0] | rgb[..., 1] << np.uint64(16) | rgb[..., 2] << np.uint64(32)
            # OpenGL's v = 0 is the bottom row of the image.
            chunks.append(np.ascontiguousarray(packed[::-1].T).ravel())
            placed[key].append(end)
            end += packed.size
    levels = max(len(starts) for starts in placed.values())
    offset = [placed[key] + placed[key][-1:] * (levels - len(placed[key])) for key in surfaces]
    sizes = np.array([images[m].pixels.shape[0] for m, _ in surfaces])
    along_z = np.array([w.x0 == w.x1 for w in WALLS])
    start = np.array([w.z0 if w.x0 == w.x1 else w.x0 for w in WALLS], dtype=np.float64)
    stop = np.array([w.z1 if w.x0 == w.x1 else w.x1 for w in WALLS], dtype=np.float64)
    sign = np.sign(stop - start)
    return Scene(
        along_z=along_z,
        place=np.array([w.x0 if w.x0 == w.x1 else w.z0 for w in WALLS], dtype=np.float64),
        low=np.minimum(start, stop),
        high=np.maximum(start, stop),
        facing=np.array([w.nx + w.nz for w in WALLS], dtype=np.float64),
        u_start=np.array([w.u0 for w in WALLS]) - sign * start,
        u_sign=sign,
        texels=np.concatenate(chunks),
        offset=np.array(offset, dtype=np.int64),
        log_size=np.log2(sizes).astype(np.int64),
        per_metre=np.array([n / images[m].metres for n, (m, _) in zip(sizes, surfaces, strict=True)]),
    )
