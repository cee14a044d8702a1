import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from lpm.envs.maze import advance, blocked
from lpm.envs.maze_geometry import (
    CELL,
    GRID,
    MAZE_CELLS,
    RADIUS,
    REACHABLE_CELLS,
    ROOMS,
    START,
    WALLS,
    cell_index,
    maze_cells,
    wall_segments,
)

SEGMENTS = wall_segments()


def distance_to_walls(x, z):
    """Distance of points to the nearest wall, by clamping to each axis-aligned wall: another formula than ours."""
    x, z = np.asarray(x)[..., None], np.asarray(z)[..., None]
    x0, z0, x1, z1 = SEGMENTS.T
    dx = np.maximum(np.maximum(np.minimum(x0, x1) - x, x - np.maximum(x0, x1)), 0)
    dz = np.maximum(np.maximum(np.minimum(z0, z1) - z, z - np.maximum(z0, z1)), 0)
    return np.hypot(dx, dz).min(axis=-1)


def inside(x, z):
    return np.any([(x > r.min_x) & (x < r.max_x) & (z > r.min_z) & (z < r.max_z) for r in ROOMS], axis=0)


def test_counts_of_the_paper_and_of_what_the_agent_can_reach():
    assert (MAZE_CELLS, REACHABLE_CELLS) == (2176, 1876)
    assert sum((r.max_x - r.min_x) * (r.max_z - r.min_z) for r in ROOMS) == pytest.approx(136.0)
    assert maze_cells().sum() == MAZE_CELLS


def test_reachable_cells_agree_with_a_fine_sampling():
    offsets = (np.arange(10) + 0.5) / 10 * CELL
    x = np.add.outer(np.arange(GRID[0]) * CELL, offsets)[:, None, :, None]
    z = np.add.outer(np.arange(GRID[1]) * CELL, offsets)[None, :, None, :]
    x, z = np.broadcast_arrays(x, z)
    free = inside(x, z) & (distance_to_walls(x, z) >= RADIUS)
    assert free.any(axis=(2, 3)).sum() == REACHABLE_CELLS


def test_walls_close_the_rooms_and_face_inwards():
    for wall in WALLS:
        middle_x, middle_z = (wall.x0 + wall.x1) / 2, (wall.z0 + wall.z1) / 2
        assert inside(middle_x + 0.01 * wall.nx, middle_z + 0.01 * wall.nz)
        assert not inside(middle_x - 0.01 * wall.nx, middle_z - 0.01 * wall.nz)
    # Perimeter of a U: outline of the bounding box plus twice the depth of the notch.
    assert np.hypot(SEGMENTS[:, 2] - SEGMENTS[:, 0], SEGMENTS[:, 3] - SEGMENTS[:, 1]).sum() == pytest.approx(76.0)


@settings(deadline=None)  # the first call compiles
@given(st.floats(0, 18), st.floats(0, 12))
def test_blocked_is_the_distance_to_the_walls(x, z):
    distance = float(distance_to_walls(x, z))
    if abs(distance - RADIUS) > 1e-9:
        assert blocked(x, z, SEGMENTS) == (distance < RADIUS)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=300))
def test_the_agent_never_enters_a_wall_and_a_blocked_move_changes_nothing(actions):
    pose = np.array([START])
    for action in actions:
        before = pose.copy()
        advance(pose, np.array([action]), SEGMENTS)
        assert distance_to_walls(pose[0, 0], pose[0, 1]) >= RADIUS - 1e-12
        moved = np.hypot(*(pose - before)[0, :2])
        turned = pose[0, 2] - before[0, 2]
        if action in (0, 1):
            assert moved == 0
            assert turned == pytest.approx(math.radians(5 if action == 0 else -5))
        elif action == 4:
            assert (pose == before).all()
        else:
            assert turned == 0
            assert moved == 0 or moved == pytest.approx(0.4)


def test_forward_from_the_start_leads_to_the_corridor_and_stops_at_its_wall():
    pose = np.array([START])
    for _ in range(40):
        advance(pose, np.array([2]), SEGMENTS)
    assert pose[0, 0] == pytest.approx(2.0)
    assert pose[0, 1] == pytest.approx(1.0 + 26 * 0.4)  # the 27th step would come closer than 0.4 m to z = 12
    advance(pose, np.array([3]), SEGMENTS)
    assert pose[0, 1] == pytest.approx(11.0)


def test_cell_index_counts_quarters_of_a_metre():
    assert cell_index(np.array([2.0, 17.99]), np.array([1.0, 11.99])).tolist() == [8 * 48 + 4, 72 * 48 - 1]


def random_walks(sticky):
    """Cells visited and idle steps of a uniform random policy, 10 seeds of 50,000 steps, without drawing."""
    rngs = [np.random.default_rng(seed) for seed in range(10)]
    chosen = np.stack([rng.integers(5, size=50_000) for rng in rngs])
    repeat = np.stack([rng.random(50_000) < sticky for rng in rngs])
    pose = np.tile(START, (10, 1))
    executed, cells = chosen[:, 0], np.empty_like(chosen)
    for t in range(50_000):
        executed = np.where(repeat[:, t], executed, chosen[:, t])
        advance(pose, executed, SEGMENTS)
        cells[:, t] = cell_index(pose[:, 0], pose[:, 1])
    return np.array([len(np.unique(row)) for row in cells]), chosen


def test_random_policy_reference():
    sticky, _ = random_walks(0.25)
    plain, chosen = random_walks(0.0)
    assert 1350 < sticky.mean() < 1750
    assert plain.mean() < sticky.mean()
    assert (chosen == 4).mean() == pytest.approx(0.2, abs=0.01)
    assert (sticky <= REACHABLE_CELLS).all()
