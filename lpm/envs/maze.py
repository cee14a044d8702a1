"""The paper's three-room maze with a noisy TV, seen through a camera, stepped and drawn as one batch.

Two arms hang on a corridor (`maze_geometry`); there is no goal and the reward is always 0: what counts is how many
0.25 m cells the agent has visited. The release differs from the paper in places; the paper is the default here and
the release is an option: 160 x 120 pixels (release: `width=80, height=60`), no sticky actions (release:
`sticky=0.25`), and one kind of noise at a time (in the release, the action condition shows both).
"""

import math
from typing import Any, ClassVar, Final, Literal

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import ArrayLike, NDArray

from lpm.envs import maze_geometry
from lpm.envs.drawing import blank, disc, line, rectangle
from lpm.envs.maze_geometry import FORWARD_STEP, RADIUS, START, TURN_STEP, WALLS, Action, cell_index, wall_segments
from lpm.envs.maze_render import MazeRenderer
from lpm.envs.noise import NoiseConfig, NoisyEnv, NoisyVectorEnv
from lpm.envs.noise_sources import images_or_cifar10
from lpm.envs.numba_helpers import compiled
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, expect

Noise = Literal["none", "state", "action"]

_NEVER: Final = -1
_SEGMENTS: Final = wall_segments()
_TURN_LEFT, _TURN_RIGHT = int(Action.TURN_LEFT), int(Action.TURN_RIGHT)
_FORWARD, _BACK = int(Action.FORWARD), int(Action.BACK)


@compiled
def blocked(x: float, z: float, segments: NDArray[np.float64]) -> bool:
    """Whether a circle of the agent's radius at (x, z) touches a wall."""
    for i in range(segments.shape[0]):
        ax, az = segments[i, 0], segments[i, 1]
        abx, abz = segments[i, 2] - ax, segments[i, 3] - az
        along = ((x - ax) * abx + (z - az) * abz) / (abx * abx + abz * abz)
        along = min(max(along, 0.0), 1.0)
        dx, dz = (ax + along * abx) - x, (az + along * abz) - z
        if math.sqrt(dx * dx + dz * dz) < RADIUS:
            return True
    return False


@compiled
def advance(pose: NDArray[np.float64], action: NDArray[np.int64], segments: NDArray[np.float64]) -> None:
    """Apply one action per row to `pose` (rows, 3: x, z, heading), in place; the arithmetic is Miniworld's.

    A blocked move changes nothing.
    """
    for i in range(pose.shape[0]):
        if action[i] == _TURN_LEFT:
            pose[i, 2] += TURN_STEP
        elif action[i] == _TURN_RIGHT:
            pose[i, 2] -= TURN_STEP
        elif action[i] in (_FORWARD, _BACK):
            step = FORWARD_STEP if action[i] == _FORWARD else -FORWARD_STEP
            x = pose[i, 0] + math.cos(pose[i, 2]) * step
            z = pose[i, 1] - math.sin(pose[i, 2]) * step
            if not blocked(x, z, segments):
                pose[i, 0] = x
                pose[i, 1] = z


class NMazeVector(BatchedEnv):
    """A batch of mazes; `gymnasium.make_vec("lpm/NMaze-v0", ...)` gives this.

    `info` holds "cell" (index in the 72 x 48 grid), "noise" (does the frame show noise?), "pose" (x, z, heading) and
    "executed" (the action that took effect; -1 after a reset).

    >>> envs = NMazeVector(num_envs=2, width=80, height=60)
    >>> frames, info = envs.reset(seed=0)
    >>> frames.shape, info["cell"].tolist(), info["pose"][0, :2].tolist()
    ((2, 60, 80, 3), [388, 388], [2.0, 1.0])
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}  # type: ignore[misc]
    _saved = ("pose", "executed", "steps", "key", "image")
    num_cells = maze_geometry.GRID[0] * maze_geometry.GRID[1]
    maze_cells: ClassVar[int] = maze_geometry.MAZE_CELLS
    """Cells of the whole maze, the paper's denominator."""
    reachable_cells: ClassVar[int] = maze_geometry.REACHABLE_CELLS
    """Cells that the centre of the agent can be in."""

    def __init__(
        self,
        num_envs: int = 1,
        noise: Noise = "none",
        width: int = 160,
        height: int = 120,
        sticky: float = 0.0,
        max_steps: int | None = None,
        images: ArrayLike | None = None,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        noise_wall: int = maze_geometry.NOISE_WALL,
    ) -> None:
        """Set up the maze.

        `noise`: "state" fills the wall `noise_wall` (an index of `WALLS`; default: the long one between the arms) with
        new random pixels at every step; "action" answers an idle action with a random image from `images`,
        (n, h, w, 3) uint8 (default: CIFAR-10), stretched to the frame, while the pose stays. `sticky`: probability that
        the last executed action is executed again instead of the chosen one. `max_steps`: truncate an episode after so
        many steps (default: never, as in the paper). `threads`: for drawing (default: numba's number).
        """
        expect(noise in ("none", "state", "action"), 'noise must be "none", "state" or "action"', noise)
        expect(0.0 <= sticky <= 1.0, "sticky must be a probability in [0, 1]", sticky)
        expect(max_steps is None or max_steps >= 1, "max_steps must be at least 1 or None", max_steps)
        expect(0 <= noise_wall < len(WALLS), f"noise_wall must be the index of one of {len(WALLS)} walls", noise_wall)
        expect(min(width, height) >= 8, "width and height must be at least 8 pixels", (width, height))
        expect(images is None or noise == "action", 'images are shown only with noise="action"', noise)
        space = Box(0, 255, (height, width, 3), np.uint8)
        super().__init__(num_envs, space, Discrete(len(Action)), autoreset_mode, render_mode)
        self.images_source = "none"
        self._images = np.zeros((0, 1, 1, 3), dtype=np.uint8)
        if noise == "action":
            chosen, self.images_source = images_or_cifar10(images)
            self._images = np.ascontiguousarray(chosen)
        self._noise, self._sticky, self._max_steps = noise, sticky, max_steps
        self._noise_wall = noise_wall
        self._renderer = MazeRenderer(threads)
        self._all = np.arange(num_envs)
        self._pose = np.tile(np.array(START), (num_envs, 1))
        self._executed = np.full(num_envs, _NEVER, dtype=np.int64)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._key = np.zeros(num_envs, dtype=np.uint64)
        self._image = np.full(num_envs, _NEVER, dtype=np.int64)
        self._shows_noise = np.zeros(num_envs, dtype=np.bool_)

    @property
    def threads(self) -> int:
        return self._renderer.threads

    def _reset_rows(self, rows: Mask) -> None:
        self._pose[rows] = START
        self._executed[rows] = _NEVER
        self._steps[rows] = 0
        self._image[rows] = _NEVER
        if self._noise == "state":
            self._key[rows] = self.noise_rng.bits(rows, 1)[:, 0]

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        rows = self._all if active is None else np.flatnonzero(active)
        executed, last = np.asarray(actions, dtype=np.int64)[rows], self._executed[rows]
        if self._sticky > 0.0:
            repeat = (self.noise_rng.uniform(rows, 1)[:, 0] < self._sticky) & (last != _NEVER)
            executed = np.where(repeat, last, executed)
        self._executed[rows] = executed
        pose = self._pose[rows]
        advance(pose, executed, _SEGMENTS)
        self._pose[rows] = pose
        self._steps[rows] += 1
        if self._noise == "state":
            self._key[rows] = self.noise_rng.bits(rows, 1)[:, 0]
        elif self._noise == "action":
            idle = rows[executed == Action.IDLE]
            self._image[rows] = _NEVER
            self._image[idle] = self.noise_rng.integers(idle, len(self._images))
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        if self._max_steps is not None:
            truncated[rows] = self._steps[rows] >= self._max_steps
        reward, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.bool_)
        return reward, terminated, truncated, bool(truncated.any())

    def _observe(self, rows: Mask | None = None, out: Array | None = None) -> Array:
        frames = np.empty(self.observation_space.shape or (), dtype=np.uint8) if out is None else out
        chosen = self._all if rows is None else np.flatnonzero(rows)
        shows_image = self._image[chosen] != _NEVER
        self._renderer.render(frames, self._pose, chosen[~shows_image])
        self._renderer.paint_images(frames, self._images, self._image, chosen[shows_image])
        self._shows_noise[chosen] = shows_image
        if self._noise == "state":
            shown = self._renderer.paint_noise(frames, self._pose, self._key, chosen, self._noise_wall)
            self._shows_noise[chosen] = shown[chosen]
        return frames

    def _info(self) -> dict[str, Array]:
        cell = cell_index(self._pose[:, 0], self._pose[:, 1])
        live = {"noise": self._shows_noise, "pose": self._pose, "executed": self._executed}
        return {"cell": cell, **{name: array.copy() for name, array in live.items()}}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        far_x, far_z = (cells * maze_geometry.CELL for cells in maze_geometry.GRID)
        pose = (0.0, 0.0, -1e9), (far_x, far_z, 1e9)
        image = _NEVER, len(self._images) - 1
        return {"pose": pose, "executed": (_NEVER, len(Action) - 1), "steps": (0, 2**62), "image": image}

    def _render_row(self, row: int) -> Array:
        only = self._all == row
        frame = self._observe(only)[row]
        return np.concatenate([frame, draw_map(self._pose[row], len(frame), self._noise_wall)], axis=1)

    def close_extras(self, **kwargs: Any) -> None:
        self._renderer.close()


class NMaze(SingleEnv):
    """One maze; `gymnasium.make("lpm/NMaze-v0", ...)` gives this. The options are those of `NMazeVector`."""

    vector = NMazeVector


def draw_map(pose: NDArray[np.float64], height: int, noise_wall: int = maze_geometry.NOISE_WALL) -> NDArray[np.uint8]:
    """The maze from above, the agent in it and, in green, the noise wall; x to the right, z downwards."""
    scale = height / 12
    picture = blank(height, round(18 * scale), (40, 40, 40))
    for room in maze_geometry.ROOMS:
        left, top, right, bottom = scale * np.array([room.min_x, room.min_z, room.max_x, room.max_z])
        rectangle(picture, left, top, right, bottom, (230, 230, 230))
    wall = WALLS[noise_wall]
    (low_x, high_x), (low_z, high_z) = sorted((wall.x0, wall.x1)), sorted((wall.z0, wall.z1))
    thick_x, thick_z = (0.2, 0.0) if low_x == high_x else (0.0, 0.2)
    left, top = (low_x - thick_x) * scale, (low_z - thick_z) * scale
    rectangle(picture, left, top, high_x * scale + 1, high_z * scale + 1, (60, 160, 40))
    x, z, heading = pose
    disc(picture, x * scale, z * scale, max(0.4 * scale, 1.5), (210, 40, 40))
    tip_x, tip_z = x + 1.2 * np.cos(heading), z - 1.2 * np.sin(heading)
    line(picture, x * scale, z * scale, tip_x * scale, tip_z * scale, (210, 40, 40))
    return picture


# ---- the maze with noise that it does not carry itself, put around it by the wrappers of `noise` --------------
Family = Literal["none", "photographs", "wall", "part", "small", "sticky"]
_OWN: dict[Family, dict[str, Any]] = {
    "none": {},
    "photographs": {"noise": "action"},
    "wall": {"noise": "state", "noise_wall": maze_geometry.ARM_WALL},
    "sticky": {"sticky": 0.25},
}
FAMILIES: dict[Family, str] = {
    "none": "no noise",
    "photographs": "the idle action shows a photograph",
    "wall": "a wall of the first arm shows random pixels",
    "part": "a third of the picture is random pixels",
    "small": "a little noise on every pixel",
    "sticky": "a quarter of the actions repeat the last",
}
SMALL = 16.0  # standard deviation of the small noise, in levels of 256


def NoisyMazeVector(
    num_envs: int = 1,
    noise: Family = "none",
    width: int = 160,
    height: int = 120,
    max_steps: int | None = None,
    threads: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    render_mode: str | None = None,
) -> VectorEnv[Any, Any, Any]:
    """A batch of mazes under one family of noise; `gymnasium.make_vec("lpm/NoisyMaze-v0", ...)` gives this."""
    around = _around(noise, height)
    own = {"width": width, "height": height, "max_steps": max_steps, "threads": threads, **_OWN.get(noise, {})}
    envs = NMazeVector(num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode, **own)
    return envs if around is None else NoisyVectorEnv(envs, around)


def NoisyMaze(noise: Family = "none", height: int = 120, **settings: Any) -> Env[Any, Any]:
    """One maze under one family of noise; `gymnasium.make("lpm/NoisyMaze-v0", ...)` gives this."""
    around = _around(noise, height)
    env = NMaze(height=height, **settings, **_OWN.get(noise, {}))
    return env if around is None else NoisyEnv(env, around)


def _around(noise: Family, height: int) -> NoiseConfig | None:
    """The noise that a wrapper adds; None if the maze has it itself."""
    if noise not in FAMILIES:
        raise ValueError(f"noise must be one of {', '.join(FAMILIES)}, got {noise!r}")
    if noise == "part":  # the lower third: floor, which tells the place least
        return NoiseConfig(trigger="always", source="uniform", region=((height - height // 3, height),))
    if noise == "small":
        return NoiseConfig(trigger="always", source="gaussian", blend="add", std=SMALL)
    return None
