import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from lpm.envs.maze_dynamics import advance, blocked, random_walk_coverage
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
    reachable_cells,
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
    assert not (reachable_cells() & ~maze_cells()).any()


def test_reachable_cells_agree_with_a_fine_sampling():
    offsets = (np.arange(10) + 0.5) / 10 * CELL
    x = np.add.outer(np.arange(GRID[0]) * CELL, offsets)[:, None, :, None]
    z = np.add.outer(np.arange(GRID[1]) * CELL, offsets)[None, :, None, :]
    x, z = np.broadcast_arrays(x, z)
    free = inside(x, z) & (distance_to_walls(x, z) >= RADIUS)
    np.testing.assert_array_equal(free.any(axis=(2, 3)), reachable_cells())


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


def test_random_policy_reference():
    sticky = [random_walk_coverage(50_000, seed, sticky=0.25) for seed in range(10)]
    plain = [random_walk_coverage(50_000, seed) for seed in range(10)]
    visited = np.array([curve[-1] for curve, _ in sticky])
    assert 1350 < visited.mean() < 1750
    assert np.mean([curve[-1] for curve, _ in plain]) < visited.mean()
    assert np.mean([idle for _, idle in plain]) == pytest.approx(0.2, abs=0.01)
    assert all((np.diff(curve) >= 0).all() and curve[-1] <= REACHABLE_CELLS for curve, _ in sticky)


def test_random_walk_refuses_nonsense():
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        random_walk_coverage(0, 0)
    with pytest.raises(ValueError, match=r"probability in \[0, 1\], got 1.5"):
        random_walk_coverage(10, 0, sticky=1.5)
