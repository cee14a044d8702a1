"""A software renderer for the maze: textured walls, floor and ceiling, batched, compiled, no OpenGL.

The camera is level and all walls are vertical, so each image column meets one wall at one depth and each row of
floor or ceiling lies at one depth. Textures are filtered as OpenGL does it, with one mipmap level per column or row
and bilinear interpolation, and the edges of a wall against floor and ceiling are smoothed.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from lpm.envs.maze_geometry import CAMERA_HEIGHT, FOV_Y, NOISE_WALL, WALL_HEIGHT, WALLS
from lpm.envs.maze_scene import Scene, build_scene
from lpm.envs.numba_helpers import compiled, numba_threads
from lpm.envs.rng import GOLDEN, mix64
from lpm.envs.vector import Mask

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DEFAULT_THREADS = numba_threads("the maze")
_SLOPE = math.tan(FOV_Y / 2)
_CEILING = WALL_HEIGHT - CAMERA_HEIGHT
_FLOOR, _ROOF = len(WALLS), len(WALLS) + 1
_1, _2, _3, _8, _16, _32, _255 = (np.uint64(n) for n in (1, 2, 3, 8, 16, 32, 255))
_LANES, _ROUND = np.uint64(0x00FF_00FF_00FF), np.uint64(0x0080_0080_0080)
_mix64 = compiled(mix64)


@compiled
def _cast(x: float, z: float, dx: float, dz: float, s: Scene) -> tuple[int, float]:
    """The wall that a ray meets first, and the length of the ray there in units of its direction."""
    wall, nearest = 0, 1e9
    for i in range(s.place.shape[0]):
        if s.along_z[i]:
            towards, gap, base, slide = dx, s.place[i] - x, z, dz
        else:
            towards, gap, base, slide = dz, s.place[i] - z, x, dx
        if towards * s.facing[i] < 0.0:
            t = gap / towards
            if 0.0 < t < nearest:
                hit = base + t * slide
                # Neighbouring walls share end points: the slack keeps a ray from slipping through a corner.
                if s.low[i] - 1e-9 <= hit <= s.high[i] + 1e-9:
                    wall, nearest = i, t
    return wall, nearest


@compiled
def _level(texels_per_pixel: float, log_size: int) -> int:
    """The mipmap level whose texels are about as large as a pixel."""
    level = 0
    limit = 1.4142135623730951
    while texels_per_pixel > limit and level < log_size:
        level += 1
        limit *= 2.0
    return level


@compiled
def _mix(a: np.uint64, b: np.uint64, weight: np.uint64) -> np.uint64:
    """Blend two packed colours, `weight` of 256 parts of the second, all channels in one multiplication."""
    # Every lane ends between 0 and 65535, so what the lanes borrow from each other on the way cancels out.
    return (((a << _8) + (b - a) * weight + _ROUND) >> _8) & _LANES


@compiled
def _sample(texels: Words, start: np.uint64, bits: np.uint64, u: int, v: int) -> np.uint64:
    """Bilinear sample at texel coordinates (u, v), in 1/65536 of a texel, of a periodic square of side 2**bits."""
    # Unsigned throughout: numba then leaves out its handling of negative indices.
    iu, iv = np.uint64(u), np.uint64(v)
    mask = (_1 << bits) - _1
    column0 = start + (((iu >> _16) & mask) << bits)
    column1 = start + ((((iu >> _16) + _1) & mask) << bits)
    row0 = (iv >> _16) & mask
    row1 = ((iv >> _16) + _1) & mask
    weight = (iu >> _8) & _255
    lower = _mix(texels[column0 + row0], texels[column1 + row0], weight)
    upper = _mix(texels[column0 + row1], texels[column1 + row1], weight)
    return _mix(lower, upper, (iv >> _8) & _255)


@compiled
def _put(out: Bytes, at: np.uint64, colour: np.uint64) -> None:
    out[at] = colour & _255
    out[at + _1] = (colour >> _16) & _255
    out[at + _2] = (colour >> _32) & _255


@compiled
def _spans(pose: Floats, height: int, width: int, s: Scene) -> tuple[Ints, Floats]:
    """Per image column: the wall it shows, and that wall's depth, top row, bottom row (fractional) and u in metres.

    The last value is how many metres of wall one pixel spans sideways.
    """
    focal = 0.5 * height / _SLOPE
    forward_x, forward_z = math.cos(pose[2]), -math.sin(pose[2])
    right_x, right_z = -forward_z, forward_x
    walls = np.empty(width, dtype=np.int64)
    spans = np.empty((5, width))
    for i in range(width):
        side = (i + 0.5 - 0.5 * width) / focal
        dx, dz = forward_x + side * right_x, forward_z + side * right_z
        wall, depth = _cast(pose[0], pose[1], dx, dz, s)
        walls[i] = wall
        if s.along_z[wall]:
            hit, stretch = pose[1] + depth * dz, right_z - right_x * dz / dx
        else:
            hit, stretch = pose[0] + depth * dx, right_x - right_z * dx / dz
        spans[0, i] = depth
        spans[1, i] = 0.5 * height - focal * _CEILING / depth
        spans[2, i] = 0.5 * height + focal * CAMERA_HEIGHT / depth
        spans[3, i] = max(s.u_start[wall] + s.u_sign[wall] * hit, 0.0)
        spans[4, i] = abs(stretch) * depth / focal
    return walls, spans


@compiled
def _draw_planes(out: Bytes, height: int, width: int, pose: Floats, spans: Floats, s: Scene) -> None:
    """Draw floor and ceiling where no wall covers a pixel completely."""
    focal = 0.5 * height / _SLOPE
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    lowest_top, highest_bottom = spans[1].max(), spans[2].min()
    for y in range(height):
        below = 2 * y >= height
        if (below and y + 1 <= highest_bottom) or (not below and y >= lowest_top):
            continue
        surface = _FLOOR if below else _ROOF
        drop = CAMERA_HEIGHT if below else _CEILING
        edge = spans[2] if below else spans[1]
        depth = drop * focal / abs(y + 0.5 - 0.5 * height)
        pixel = depth / focal
        level = _level(s.per_metre[surface] * pixel * max(1.0, depth / drop), s.log_size[surface])
        bits = np.uint64(s.log_size[surface] - level)
        start = np.uint64(s.offset[surface, level])
        scale = s.per_metre[surface] / (1 << level) * 65536.0
        left = pixel * (0.5 - 0.5 * width)
        # Texel centres lie at one half, hence the shift by half a texel.
        u = int((pose[0] + depth * cos + left * sin) * scale) - 32768
        v = int((pose[1] - depth * sin + left * cos) * scale) - 32768
        du, dv = int(pixel * sin * scale), int(pixel * cos * scale)
        at = np.uint64(y * width) * _3
        for x in range(width):
            if y + 1 > edge[x] if below else y < edge[x]:
                _put(out, at, _sample(s.texels, start, bits, u, v))
            at += _3
            u += du
            v += dv


@compiled
def _draw_walls(out: Bytes, height: int, width: int, walls: Ints, spans: Floats, s: Scene) -> None:
    """Draw the wall of each column over the planes, blending its first and last pixel with what they cover."""
    focal = 0.5 * height / _SLOPE
    stride = np.uint64(width) * _3
    for x in range(width):
        wall = walls[x]
        top, bottom = spans[1, x], spans[2, x]
        pixel = spans[0, x] / focal
        level = _level(s.per_metre[wall] * max(pixel, spans[4, x]), s.log_size[wall])
        bits = np.uint64(s.log_size[wall] - level)
        start = np.uint64(s.offset[wall, level])
        scale = s.per_metre[wall] / (1 << level) * 65536.0
        first, last = max(math.floor(top), 0), min(math.ceil(bottom), height)
        u = int(spans[3, x] * scale) - 32768
        v = int((bottom - first - 0.5) * pixel * scale) - 32768
        dv = int(pixel * scale)
        at = np.uint64(first * width + x) * _3
        for y in range(first, last):
            colour = _sample(s.texels, start, bits, u, v)
            if y < top or y + 1 > bottom:
                covered = min(bottom, y + 1.0) - max(top, float(y))
                under = np.uint64(out[at]) | np.uint64(out[at + _1]) << _16 | np.uint64(out[at + _2]) << _32
                colour = _mix(under, colour, np.uint64(covered * 256.0))
            _put(out, at, colour)
            at += stride
            v -= dv


@compiled
def _render_rows(out: Bytes, pose: Floats, rows: Ints, s: Scene) -> None:
    height, width = out.shape[1], out.shape[2]
    for row in rows:
        walls, spans = _spans(pose[row], height, width, s)
        frame = out[row].reshape(-1)
        _draw_planes(frame, height, width, pose[row], spans, s)
        _draw_walls(frame, height, width, walls, spans, s)


@compiled
def _noise_rows(out: Bytes, pose: Floats, keys: Words, shown: Mask, rows: Ints, noise_wall: int, s: Scene) -> None:
    height, width = out.shape[1], out.shape[2]
    for row in rows:
        walls, spans = _spans(pose[row], height, width, s)
        frame = out[row].reshape(-1)
        shown[row] = False
        for x in range(width):
            if walls[x] != noise_wall:
                continue
            first = max(math.ceil(spans[1, x] - 0.5), 0)
            last = min(math.ceil(spans[2, x] - 0.5), height)
            shown[row] = shown[row] or last > first
            for y in range(first, last):
                pixel = np.uint64(y * width + x)
                _put(frame, pixel * _3, _mix64(keys[row] + (pixel + _1) * GOLDEN))


@compiled
def _image_rows(out: Bytes, images: Bytes, index: Ints, rows: Ints) -> None:
    height, width = out.shape[1], out.shape[2]
    tall, wide = images.shape[1], images.shape[2]
    left = np.empty(width, dtype=np.uint64)
    share = np.empty(width, dtype=np.int64)
    for x in range(width):
        u = min(max((x + 0.5) * wide / width - 0.5, 0.0), wide - 1.0)
        left[x] = np.uint64(u)
        share[x] = int((u - math.floor(u)) * 256.0)
    # One row of the image, blended from two, with its last pixel doubled so that x + 1 always exists.
    line = np.empty((wide + 1, 3), dtype=np.int64)
    for row in rows:
        picture = images[index[row]]
        for y in range(height):
            v = min(max((y + 0.5) * tall / height - 0.5, 0.0), tall - 1.0)
            y0 = int(v)
            y1 = min(y0 + 1, tall - 1)
            b = int((v - y0) * 256.0)
            for x in range(wide):
                for c in range(3):
                    line[x, c] = picture[y0, x, c] * (256 - b) + picture[y1, x, c] * b
            line[wide] = line[wide - 1]
            for x in range(width):
                x0, a = left[x], share[x]
                for c in range(3):
                    blend = line[x0, c] * (256 - a) + line[x0 + _1, c] * a
                    out[row, y, x, c] = (blend + 32768) >> 16


class MazeRenderer:
    """Draws frames of the maze for a batch of poses (rows, 3: x, z, heading), over a few threads."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = DEFAULT_THREADS if threads is None else threads
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        self._scene = build_scene()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def render(self, out: Bytes, pose: Floats, rows: Ints) -> None:
        """Draw the view from `pose` into `out` (rows, height, width, 3) for the given rows."""
        self._split(rows, lambda part: _render_rows(out, pose, part, self._scene))

    def paint_noise(self, out: Bytes, pose: Floats, keys: Words, rows: Ints, wall: int = NOISE_WALL) -> Mask:
        """Fill a wall with random pixels, a function of the row's key; tell in which rows it is in view."""
        shown = np.zeros(len(pose), dtype=np.bool_)
        self._split(rows, lambda part: _noise_rows(out, pose, keys, shown, part, wall, self._scene))
        return shown

    def paint_images(self, out: Bytes, images: Bytes, index: Ints, rows: Ints) -> None:
        """Replace the given rows by `images[index[row]]`, stretched bilinearly to the frame."""
        self._split(rows, lambda part: _image_rows(out, images, index, part))

    def _split(self, rows: Ints, work: Callable[[Ints], None]) -> None:
        if self.threads == 1 or len(rows) < 2:
            work(rows)
            return
        # Threads do not survive a fork: a child process needs a pool of its own.
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = (os.getpid(), ThreadPoolExecutor(self.threads - 1, thread_name_prefix="maze"))
        own, *others = np.array_split(rows, min(self.threads, len(rows)))
        running = self._pool[1].map(work, others)
        work(own)
        list(running)

    def close(self) -> None:
        if self._pool is not None and self._pool[0] == os.getpid():
            self._pool[1].shutdown()
        self._pool = None
