"""The three-room maze as numbers: rooms, walls, camera, step sizes and coverage cells. NumPy only.

Coordinates are Miniworld's: metres in the x-z plane, heading in radians, forward = (cos h, -sin h), so that a
heading of -90 degrees looks along +z. Each wall is seen from one side only (its inner side).

The two arms (x 0-4 and x 14-18, z 0-8) hang on a corridor (z 8-12). A sliver of 0.1 m between arms and corridor
carries the grass wall, x 4-14 at z = 8, that shows the noise in the `state` condition.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

WALL_HEIGHT: Final = 2.74
CAMERA_HEIGHT: Final = 1.5
FOV_Y: Final = math.radians(60.0)
RADIUS: Final = 0.4
FORWARD_STEP: Final = 0.4
TURN_STEP: Final = 5 * (math.pi / 180)
START: Final = (2.0, 1.0, -math.pi / 2)
CELL: Final = 0.25
GRID: Final = (72, 48)
"""Cells along x and z; a flat cell index is `ix * 48 + iz`."""


class Action(IntEnum):
    """The five actions, in the order of the release."""

    TURN_LEFT = 0
    TURN_RIGHT = 1
    FORWARD = 2
    BACK = 3
    IDLE = 4


class Material(IntEnum):
    """What a surface is made of, floors of stucco and ceilings of tiles; the number seeds its texture."""

    CARDBOARD = 0
    ASPHALT = 1
    GRASS = 2
    CONCRETE = 3
    STUCCO = 4
    TILES = 5


@dataclass(frozen=True)
class Room:
    """An axis-aligned rectangle of floor."""

    min_x: float
    max_x: float
    min_z: float
    max_z: float


ROOMS: Final = (
    Room(0.0, 4.0, 0.0, 8.0),
    Room(14.0, 18.0, 0.0, 8.0),
    Room(0.0, 18.0, 8.0, 8.1),
    Room(0.0, 18.0, 8.1, 12.0),
)
"""Start arm, far arm, the sliver with the noise wall, corridor."""


@dataclass(frozen=True)
class Wall:
    """A wall from (x0, z0) to (x1, z1); texture coordinate u runs from the first point to the second."""

    x0: float
    z0: float
    x1: float
    z1: float
    nx: float
    nz: float
    u0: float
    """Distance of the first point from the start of the room's side, so that patterns do not restart at openings."""
    material: Material


WALLS: Final = (
    Wall(4, 8, 4, 0, -1, 0, 0, Material.CARDBOARD),
    Wall(4, 0, 0, 0, 0, 1, 0, Material.CARDBOARD),
    Wall(0, 0, 0, 8, 1, 0, 0, Material.CARDBOARD),
    Wall(18, 8, 18, 0, -1, 0, 0, Material.ASPHALT),
    Wall(18, 0, 14, 0, 0, 1, 0, Material.ASPHALT),
    Wall(14, 0, 14, 8, 1, 0, 0, Material.ASPHALT),
    Wall(18, 8.1, 18, 8, -1, 0, 0, Material.GRASS),
    Wall(14, 8, 4, 8, 0, 1, 4, Material.GRASS),
    Wall(0, 8, 0, 8.1, 1, 0, 0, Material.GRASS),
    Wall(18, 12, 18, 8.1, -1, 0, 0, Material.CONCRETE),
    Wall(0, 8.1, 0, 12, 1, 0, 0, Material.CONCRETE),
    Wall(0, 12, 18, 12, 0, -1, 0, Material.CONCRETE),
)
NOISE_WALL: Final = 7
"""Index in `WALLS` of the wall between the arms."""
ARM_WALL: Final = 0
"""Index of a long wall of the arm in which episodes start: in view from the first step, and there to be passed."""


def wall_segments() -> NDArray[np.float64]:
    """The walls as (walls, 4): x0, z0, x1, z1, in the direction in which Miniworld stores them for collisions."""
    return np.array([(w.x1, w.z1, w.x0, w.z0) for w in WALLS], dtype=np.float64)


def cell_index(x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.int64]:
    """Flat index of the 0.25 m cell of each point, in the 72 x 48 grid."""
    ix = np.floor(x / CELL).astype(np.int64)
    iz = np.floor(z / CELL).astype(np.int64)
    return ix * GRID[1] + iz


def maze_cells() -> NDArray[np.bool_]:
    """The (72, 48) cells whose centre lies in a room: the 2,176 states of the paper."""
    x = (np.arange(GRID[0]) + 0.5) * CELL
    z = (np.arange(GRID[1]) + 0.5) * CELL
    inside = np.zeros(GRID, dtype=np.bool_)
    for room in ROOMS:
        in_x = (x > room.min_x) & (x < room.max_x)
        in_z = (z > room.min_z) & (z < room.max_z)
        inside |= in_x[:, None] & in_z[None, :]
    return inside


MAZE_CELLS: Final = int(maze_cells().sum())
"""2,176: the paper's count, which ignores the agent's size."""
REACHABLE_CELLS: Final = 1876
"""Cells that the centre of an agent of radius 0.4 m can be in."""
