"""Writes the pictures of docs/maze.md: python benchmarks/maze_pictures.py docs/images."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lpm.envs.maze import NMazeVector, draw_map

Picture = NDArray[np.uint8]
VIEWS = ((2, 1, -90), (4, 10.5, 15), (9, 11.2, 75), (13, 9.5, 10), (16, 10.8, 90), (16, 2, -105))
"""Places (x, z, degrees) on a walk from the start arm through the corridor into the far arm."""


def look(envs: NMazeVector, places: tuple[tuple[float, float, float], ...]) -> Picture:
    """The frames from given places: one row per place, one idle step."""
    envs.reset(seed=0)
    state = envs.get_state()
    state["pose"][:] = [(x, z, math.radians(angle)) for x, z, angle in places]
    envs.set_state(state)
    return np.asarray(envs.step(np.full(len(places), 4))[0])


def grid(rows: list[list[Picture]], gap: int = 4, scale: int = 2) -> Picture:
    """Pictures of one height per row, on white, enlarged without smoothing."""
    width = max(sum(p.shape[1] + gap for p in row) for row in rows) - gap
    lines = []
    for row in rows:
        line = np.full((row[0].shape[0], width, 3), 255, dtype=np.uint8)
        x = 0
        for picture in row:
            line[:, x : x + picture.shape[1]] = picture
            x += picture.shape[1] + gap
        lines += [line, np.full((gap, width, 3), 255, dtype=np.uint8)]
    return np.concatenate(lines[:-1]).repeat(scale, axis=0).repeat(scale, axis=1)


def maps(places: tuple[tuple[float, float, float], ...]) -> list[Picture]:
    return [draw_map(np.array([x, z, math.radians(angle)]), 107)[:, :160] for x, z, angle in places]


def write(folder: Path, name: str, picture: Picture) -> None:
    target = folder / name
    partial = target.with_suffix(".partial.png")
    Image.fromarray(picture).save(partial, optimize=True)
    partial.replace(target)
    print(f"{target}: {picture.shape[1]} x {picture.shape[0]}")


def noise_images() -> Picture:
    from lpm.data import cifar10

    return np.asarray(cifar10("test").images[:64])


def noise_rows() -> list[list[Picture]]:
    """Two steps at one place per condition: what a step changes is the noise."""
    place = ((8.0, 11.0, 65.0),)
    rows = []
    conditions: tuple[dict[str, Any], ...] = (
        {"noise": "none"},
        {"noise": "state"},
        {"noise": "action", "images": noise_images()},
    )
    for settings in conditions:
        envs = NMazeVector(1, **settings)
        frames = [look(envs, place)[0]]
        frames += [envs.step(np.array([4]))[0][0] for _ in range(2)]
        rows.append(frames)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "maze_views.png", grid([list(look(NMazeVector(len(VIEWS)), VIEWS)), maps(VIEWS)]))
    write(folder, "maze_noise.png", grid(noise_rows()))


if __name__ == "__main__":
    main()
