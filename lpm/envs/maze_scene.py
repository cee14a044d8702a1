"""The maze laid out for the renderer: walls as arrays, lit textures and their mipmaps in one flat array."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpm.envs.maze_geometry import WALLS, Material
from lpm.envs.maze_textures import mipmaps, texture

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
