"""The three-room maze as numbers: rooms, walls, camera, step sizes and coverage cells. NumPy only.

Coordinates are Miniworld's: metres in the x-z plane, heading in radians, forward = (cos h, -sin h), so that a
heading of -90 degrees looks along +z. Each wall is seen from one side only (its inner side).

The two arms (x 0-4 and x 14-18, z 0-8) hang on a corridor (z 8-12). A sliver of 0.1 m between arms and corridor
carries the grass wall, x 4-14 at z = 8, that shows the noise in the `state` condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

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
    """What a surface is made of; the number seeds its texture."""

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
    material: Material
    """Material of its walls; floors are stucco and ceilings concrete tiles everywhere."""


ROOMS: Final = (
    Room(0.0, 4.0, 0.0, 8.0, Material.CARDBOARD),
    Room(14.0, 18.0, 0.0, 8.0, Material.ASPHALT),
    Room(0.0, 18.0, 8.0, 8.1, Material.GRASS),
    Room(0.0, 18.0, 8.1, 12.0, Material.CONCRETE),
)
"""Start arm, far arm, the sliver with the noise wall, corridor."""

OPENINGS: Final = ((0, 2, 0.0, 4.0), (1, 2, 14.0, 18.0), (2, 3, 0.0, 18.0))
"""(room, room, min x, max x) of the openings, all along x."""


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


def reachable_cells() -> NDArray[np.bool_]:
    """The (72, 48) cells whose interior holds a place for the centre of an agent of radius 0.4 m.

    The free places are the maze shrunk by the radius: a box in each arm, a box in the corridor, the box that
    joins them, and around the two corners (4, 8) and (14, 8) what lies outside a circle of the radius.
    """
    x0, z0 = (np.arange(n, dtype=np.float64) * CELL for n in GRID)
    x1, z1 = x0 + CELL, z0 + CELL
    reachable = np.zeros(GRID, dtype=np.bool_)

    def overlap(lo: float, hi: float, start: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
        return np.asarray((start + CELL > lo) & (start < hi))

    depth = ROOMS[3].max_z - RADIUS
    for arm in ROOMS[:2]:
        across = overlap(arm.min_x + RADIUS, arm.max_x - RADIUS, x0)
        reachable |= across[:, None] & overlap(arm.min_z + RADIUS, depth, z0)[None, :]
    corridor = overlap(ROOMS[3].min_x + RADIUS, ROOMS[3].max_x - RADIUS, x0)
    reachable |= corridor[:, None] & overlap(ROOMS[2].min_z + RADIUS, depth, z0)[None, :]

    corner_z = ROOMS[2].min_z
    for corner_x, side in ((ROOMS[0].max_x, -1.0), (ROOMS[1].min_x, 1.0)):
        # Within the square beside the corner the farthest point of a cell from the corner decides.
        near = overlap(min(corner_x, corner_x + side * RADIUS), max(corner_x, corner_x + side * RADIUS), x0)
        below = overlap(corner_z, corner_z + RADIUS, z0)
        far_x = np.minimum(np.maximum(side * (x0 - corner_x), side * (x1 - corner_x)), RADIUS)
        far_z = np.minimum(z1 - corner_z, RADIUS)
        reachable |= near[:, None] & below[None, :] & (np.hypot(far_x[:, None], far_z[None, :]) > RADIUS)
    return reachable


MAZE_CELLS: Final = int(maze_cells().sum())
"""2,176: the paper's count, which ignores the agent's size."""
REACHABLE_CELLS: Final = int(reachable_cells().sum())
"""Cells the centre of the agent can be in."""
