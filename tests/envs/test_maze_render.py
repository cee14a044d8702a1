import math
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

from lpm.envs.maze_geometry import NOISE_WALL, WALLS, Material
from lpm.envs.maze_render import MazeRenderer
from lpm.envs.maze_scene import mipmaps, texture

HEIGHT, WIDTH = 60, 80
POSES = np.array(
    [
        (2, 1, -90), (2, 6, -60), (2, 10, -45), (3, 10, 5), (9, 11, 90),
        (9, 9.5, 60), (16, 2, 95), (16, 7, 170), (16.5, 11, 150),
    ],
    dtype=np.float64,
) * [1, 1, math.pi / 180]  # fmt: skip
MEAN = {m: texture(m).pixels.mean(axis=(0, 1)) for m in Material}


def trace(pose, height=HEIGHT, width=WIDTH):
    """Flat-coloured frame and wall per pixel (-1: floor or ceiling), from one 3-D ray per pixel."""
    x, z, heading = pose
    half = math.tan(math.radians(30))
    up = (1 - 2 * (np.arange(height) + 0.5) / height)[:, None] * half
    right = ((2 * (np.arange(width) + 0.5) / width - 1) * half * width / height)[None, :]
    dx = math.cos(heading) + right * math.sin(heading) + 0 * up
    dz = -math.sin(heading) + right * math.cos(heading) + 0 * up
    dy = up + 0 * right
    nearest = np.where(dy > 0, (2.74 - 1.5) / dy, -1.5 / dy)
    floor, ceiling = MEAN[Material.STUCCO], MEAN[Material.TILES] * 0.65
    colour = np.where((dy > 0)[..., None], ceiling, floor)
    index = np.full((height, width), -1)
    for i, wall in enumerate(WALLS):
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (wall.x0 - x) / dx if wall.x0 == wall.x1 else (wall.z0 - z) / dz
        hit_x, hit_z, hit_y = x + t * dx, z + t * dz, 1.5 + t * dy
        on = hit_z if wall.x0 == wall.x1 else hit_x
        ends = sorted((wall.z0, wall.z1) if wall.x0 == wall.x1 else (wall.x0, wall.x1))
        met = (t > 0) & (t < nearest) & (on >= ends[0]) & (on <= ends[1]) & (hit_y >= 0) & (hit_y <= 2.74)
        met &= dx * wall.nx + dz * wall.nz < 0
        nearest = np.where(met, t, nearest)
        light = 0.65 + 0.7 * max(0, wall.nx + wall.nz) / math.sqrt(14.25)
        colour = np.where(met[..., None], MEAN[wall.material] * light, colour)
        index = np.where(met, i, index)
    return colour, index


@pytest.fixture(scope="module")
def frames():
    out = np.zeros((len(POSES), HEIGHT, WIDTH, 3), dtype=np.uint8)
    MazeRenderer(1).render(out, POSES, np.arange(len(POSES)))
    return out


@pytest.mark.parametrize("i", range(len(POSES)))
def test_frames_agree_with_a_ray_tracer(frames, i):
    expected, _ = trace(POSES[i])
    difference = np.abs(frames[i] - expected).mean(axis=-1)
    # Texture grain and the smoothed edges are all that differ.
    assert difference.mean() < 7
    assert np.median(difference) < 6
    np.testing.assert_allclose(frames[i].mean(axis=(0, 1)), expected.mean(axis=(0, 1)), atol=3)


def test_every_surface_is_textured(frames):
    floor, ceiling, grass = frames[0, -3:, 30:50], frames[0, :3, 30:50], frames[4, 20:40]
    for part, least in ((floor, 0.4), (ceiling, 1.0), (grass, 2.0)):
        assert part.reshape(-1, 3).std(axis=0).min() > least


@pytest.mark.parametrize("size", [(60, 80), (31, 45), (9, 8)])
def test_every_pixel_is_drawn(size):
    """Frames are drawn into unset memory, so none of it may shine through: not at corners, not at any angle."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0.4, 17.6, 3000), rng.uniform(0.4, 11.6, 3000)
    inside = (z > 8.4) | (x < 3.6) | (x > 14.4)
    heading = np.where(rng.random(3000) < 0.3, rng.integers(-36, 36, 3000) * math.radians(5), rng.uniform(-4, 4, 3000))
    poses = np.stack([x, z, heading], axis=1)[inside]
    blank = np.zeros((len(poses), *size, 3), dtype=np.uint8)
    filled = np.full_like(blank, 255)
    renderer = MazeRenderer(1)
    for out in (blank, filled):
        renderer.render(out, poses, np.arange(len(poses)))
    np.testing.assert_array_equal(blank, filled)


def test_noise_fills_exactly_the_wall_between_the_arms(frames):
    renderer = MazeRenderer(2)
    noisy = frames.copy()
    keys = np.arange(1, len(POSES) + 1, dtype=np.uint64)
    shown = renderer.paint_noise(noisy, POSES, keys, np.arange(len(POSES)))
    for i, pose in enumerate(POSES):
        _, index = trace(pose)
        wall = index == NOISE_WALL
        changed = (noisy[i] != frames[i]).any(axis=-1)
        assert not (changed & ~wall).any()
        assert shown[i] == wall.any()
        if wall.any():
            assert changed[wall].mean() > 0.99
            assert noisy[i][wall].mean() == pytest.approx(127.5, abs=8)
    assert shown.any()
    assert not shown.all()
    renderer.close()


def test_noise_is_a_function_of_the_key_and_uniform():
    pose = np.array([[9.0, 8.5, math.pi / 2]])
    out = np.zeros((1, 120, 160, 3), dtype=np.uint8)
    renderer = MazeRenderer(1)
    pictures = []
    for key in (5, 6, 5):
        renderer.paint_noise(out, pose, np.array([key], dtype=np.uint64), np.array([0]))
        pictures.append(out.copy())
    np.testing.assert_array_equal(pictures[0], pictures[2])
    assert (pictures[0] != pictures[1]).mean() > 0.99
    counts = np.bincount(pictures[0].ravel(), minlength=256)
    expected = pictures[0].size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 340  # chi-square, 255 degrees of freedom, p < 0.001
    flat = pictures[0].reshape(-1, 3).astype(float)
    assert np.abs(np.corrcoef(flat.T) - np.eye(3)).max() < 0.05


def test_images_are_stretched_bilinearly():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    out = np.zeros((2, HEIGHT, WIDTH, 3), dtype=np.uint8)
    MazeRenderer(1).paint_images(out, images, np.array([0, 2]), np.array([1]))
    v = np.clip((np.arange(HEIGHT) + 0.5) * 5 / HEIGHT - 0.5, 0, 4)
    u = np.clip((np.arange(WIDTH) + 0.5) * 7 / WIDTH - 0.5, 0, 6)
    rows = np.stack([np.interp(v, np.arange(5), images[2, :, x, c]) for x in range(7) for c in range(3)], -1)
    rows = rows.reshape(HEIGHT, 7, 3)
    expected = np.stack([[np.interp(u, np.arange(7), rows[y, :, c]) for c in range(3)] for y in range(HEIGHT)])
    assert np.abs(out[1] - expected.transpose(0, 2, 1)).max() <= 2
    assert not out[0].any()


def test_threads_do_not_change_the_frames(frames):
    for threads in (2, 3, 64):
        out = np.zeros_like(frames)
        renderer = MazeRenderer(threads)
        renderer.render(out, POSES, np.arange(len(POSES)))
        renderer.render(out, POSES, np.arange(0))
        renderer.close()
        np.testing.assert_array_equal(out, frames)


def test_number_of_threads_follows_numba():
    code = "from lpm.envs.maze_render import MazeRenderer; print(MazeRenderer().threads)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"NUMBA_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "1"
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        MazeRenderer(0)


def test_textures_repeat_without_a_seam_and_keep_their_mean():
    for material in Material:
        pixels = texture(material).pixels.astype(float)
        seam = np.abs(pixels[:, 0] - pixels[:, -1]).mean()
        inner = np.abs(pixels[:, 1:] - pixels[:, :-1]).mean()
        # The joint of the tiles lies at the border, so its step is allowed.
        assert seam < 2 * inner + (60 if material is Material.TILES else 2)
        levels = mipmaps(texture(material).pixels, 0.65)
        assert levels[-1].shape == (1, 1, 3)
        np.testing.assert_allclose(levels[-1][0, 0], 0.65 * pixels.mean(axis=(0, 1)), atol=1)
    assert MEAN[Material.GRASS] == pytest.approx([96.2, 126.1, 46.2], abs=1)
