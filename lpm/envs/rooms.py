"""Rooms joined by doors, with one family of noise at a time: what a bonus must stand that noise cannot fool.

The agent walks from a corner through 4 x 4 rooms of 7 x 7 cells; nothing pays and nothing ends an episode but time,
unless the room in the opposite corner is made the `goal`.
What it sees is its place, as two numbers or one-hot. `noise` names what is wrong with the world (`FAMILIES`): noise it
can choose to watch, noise that is always on, in some numbers or in all, everywhere or in some places, and two worlds
that only look noisy, where moves differ from room to room or doors are a matter of luck. `info["noise"]` says that this
step showed noise; in the family "place", whose noise grows with the column, that it had at least half of its full size.
"""

from typing import Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from lpm.envs.drawing import blank, disc, rectangle
from lpm.envs.noise_sources import GRAY, images_or_cifar10
from lpm.envs.rng import GOLDEN, TO_UNIT, mix64
from lpm.envs.vector import Array, BatchedEnv, Mask, Outcome, SingleEnv, expect

Family = Literal["none", "action", "photographs", "sequence", "wall", "video", "half", "small", "place", "room",
                 "sticky", "dynamics", "doors", "stays"]  # fmt: skip
View = Literal["xy", "onehot"]
FAMILIES: dict[Family, str] = {
    "none": "no noise",
    "action": "a fifth action shows white noise",
    "photographs": "a fifth action shows photographs",
    "sequence": "a fifth action shows a pseudo-random sequence",
    "wall": "walking against a wall shows white noise",
    "video": "a video beside the place, restarting at random",
    "half": "half of the numbers are white noise",
    "small": "a little noise on every number",
    "place": "noise that grows with the place",
    "room": "every other room is noisy",
    "sticky": "a quarter of the actions repeat the last",
    "dynamics": "every other room mirrors the moves",
    "doors": "doors let through three times in ten",
    "stays": "a fifth action draws numbers beside the place, which stay",
}
WATCH = 4  # the fifth action
SMALL = 0.05  # standard deviation of the small noise, as a share of the range
STICKY, OPEN, RESTART = 0.25, 0.3, 0.03  # chances: an action repeats, a door lets through, a video jumps
FRAMES = 256  # of the video, which is a loop
SEQUENCE = 1 << 16  # length of the pseudo-random sequence
_MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)])  # up, down, left, right, watching; (x, y)
_WATCHED, _ALWAYS = ("action", "photographs", "sequence"), ("video", "half", "small")
_BESIDE = {"half": 1, "place": 1, "room": 1, "wall": 1, "stays": 1, "video": 2}  # numbers for each of the place


def generate_layout(num_rooms: int, room_size: int, layout: int) -> NDArray[np.bool_]:
    """Where one can walk, indexed [y, x]: rooms, and a door of one cell at random in each wall between two of them.

    Doors stand in the walls, whose coordinates are multiples of `room_size + 1`.
    """
    rng = np.random.default_rng([layout, 0x6C706D])
    pitch = room_size + 1
    lines = np.arange(num_rooms * pitch + 1) % pitch != 0
    free = np.outer(lines, lines)
    for wall in range(pitch, num_rooms * pitch, pitch):
        for corner in range(1, num_rooms * pitch, pitch):
            across, down = corner + rng.integers(room_size, size=2)
            free[wall, across] = free[down, wall] = True
    return free


class RoomsVector(BatchedEnv):
    """A batch of worlds of rooms; `gymnasium.make_vec("lpm/Rooms-v0", ...)` gives this."""

    _saved: ClassVar[tuple[str, ...]] = ("place", "steps", "last", "clock", "shown", "seen")

    def __init__(
        self,
        num_envs: int = 1,
        noise: Family = "none",
        observation: View = "xy",
        num_rooms: int = 4,
        room_size: int = 7,
        layout: int = 0,
        max_episode_steps: int = 300,
        goal: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """`num_rooms` along each side; `layout` draws the doors, the same in every episode and for every seed.

        `goal`: entering the room opposite to the start gives 1 and ends the episode.
        """
        expect(noise in FAMILIES, f"noise must be one of {', '.join(FAMILIES)}", noise)
        expect(observation in get_args(View), 'observation must be "xy" or "onehot"', observation)
        expect(num_rooms >= 1, "num_rooms must be at least 1", num_rooms)
        expect(room_size >= 2, "room_size must be at least 2", room_size)
        expect(layout >= 0, "layout must be at least 0", layout)
        expect(max_episode_steps >= 1, "max_episode_steps must be at least 1", max_episode_steps)
        self.free = generate_layout(num_rooms, room_size, layout)
        side = len(self.free)
        ys, xs = np.indices(self.free.shape)
        corners = 2 * (np.stack([xs.ravel(), ys.ravel()], 1) - 1) / (side - 3) - 1
        onehot = np.concatenate([np.eye(side)[xs.ravel()], np.eye(side)[ys.ravel()]], 1)
        self._signal = (corners if observation == "xy" else onehot).astype(np.float32)
        self._width = self._signal.shape[1]
        self._low = -1.0 if observation == "xy" else 0.0  # of the signal and of noise; both reach up to 1
        self._beside = _BESIDE.get(noise, 0) * self._width
        margin = np.sqrt(3) * SMALL * (1 - self._low) if noise == "small" else 0.0
        low, high = np.float32(self._low - margin), np.float32(1 + margin)
        space = Box(low, high, (self._width + self._beside,), np.float32)
        actions = Discrete(5 if noise in (*_WATCHED, "stays") else 4)
        super().__init__(num_envs, space, actions, autoreset_mode, render_mode)
        self.noise, self._side, self._limit, self._margin = noise, side, max_episode_steps, margin
        self._cells = np.cumsum(self.free.ravel()) - 1
        self.num_cells = int(self.free.sum())
        pitch = room_size + 1
        far = (xs > (num_rooms - 1) * pitch) & (ys > (num_rooms - 1) * pitch) & self.free
        self._goal = far.ravel() & goal
        self._other_room = ((xs // pitch + ys // pitch) % 2 == 1).ravel()
        self._door = (self.free & ((xs % pitch == 0) | (ys % pitch == 0))).ravel()
        self._size = ((xs - 1) / (side - 3)).ravel().clip(0, 1) if noise == "place" else 1.0 * self._other_room
        film = np.random.default_rng([layout, 0x66696C6D])
        waves, start = film.integers(1, 9, self._beside), film.random(self._beside)
        waving = np.sin(2 * np.pi * (np.arange(FRAMES)[:, None] / FRAMES * waves + start))
        self._film = self._ranged((waving + 1) / 2)
        self.images_source = "none"
        self._photographs = np.zeros((0, self._width))
        if noise == "photographs":
            self._photographs, self.images_source = photographs(self._width)
        self._place = np.zeros(num_envs, dtype=np.int64)  # y * side + x
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._last = np.full(num_envs, -1, dtype=np.int64)
        self._clock = np.zeros(num_envs, dtype=np.int64)  # of the video or the sequence
        self._shown = np.zeros(num_envs, dtype=np.bool_)
        self._seen = np.zeros((num_envs, self._width + self._beside), dtype=np.float32)

    def _ranged(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers in [0, 1) on the range of the signal."""
        return self._low + (1 - self._low) * unit

    def _white(self, rows: NDArray[np.int64], count: int) -> NDArray[np.float64]:
        """Uniform on the range of the signal: over all rooms, the place has about the same variance."""
        return self._ranged(self.noise_rng.uniform(rows, count))

    def _reset_rows(self, rows: Mask) -> None:
        chosen = np.flatnonzero(rows)
        self._place[chosen] = self._side + 1
        self._steps[chosen], self._last[chosen] = 0, -1
        if self.noise in ("video", "sequence"):
            self._clock[chosen] = self.noise_rng.integers(chosen, FRAMES if self.noise == "video" else SEQUENCE)
        self._look(chosen, np.zeros(len(chosen), dtype=np.bool_))

    def _step_rows(self, actions: Array, active: Mask | None) -> Outcome:
        rows = np.arange(self.num_envs) if active is None else np.flatnonzero(active)
        chosen, place = np.asarray(actions, dtype=np.int64)[rows], self._place[rows]
        if self.noise == "sticky":
            again = (self.noise_rng.uniform(rows, 1)[:, 0] < STICKY) & (self._last[rows] >= 0)
            chosen = np.where(again, self._last[rows], chosen)
            self._last[rows] = chosen
        if self.noise == "dynamics":  # up and down change places, and left and right
            chosen = np.where(self._other_room[place], chosen ^ 1, chosen)
        ahead = place + _MOVES[chosen] @ (1, self._side)
        passing = self.free.ravel()[ahead]
        if self.noise == "doors":
            passing &= ~self._door[ahead] | (self.noise_rng.uniform(rows, 1)[:, 0] < OPEN)
        self._place[rows] = np.where(passing, ahead, place)
        self._steps[rows] += 1
        if self.noise == "video":
            jump, frame = self.noise_rng.uniform(rows, 2).T
            elsewhere, following = (frame * FRAMES).astype(np.int64), (self._clock[rows] + 1) % FRAMES
            self._clock[rows] = np.where(jump < RESTART, elsewhere, following)
        self._look(rows, ~passing if self.noise == "wall" else chosen == WATCH)
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        truncated[rows] = self._steps[rows] >= self._limit
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        terminated[rows] = self._goal[self._place[rows]]
        return terminated.astype(np.float64), terminated, truncated, bool((terminated | truncated).any())

    def _look(self, rows: NDArray[np.int64], watching: Mask) -> None:
        """Draw what the rows see now."""
        place = self._place[rows]
        seen = self._signal[place]
        shown = np.full(len(rows), self.noise in _ALWAYS)
        if self.noise in _WATCHED:
            shown = watching
            viewers = rows[watching]
            if self.noise == "sequence":
                self._clock[viewers] = (self._clock[viewers] + 1) % SEQUENCE
                seen[watching] = self._ranged(sequence(self._clock[viewers], self._width))
            elif self.noise == "photographs":
                chosen = self.noise_rng.integers(viewers, len(self._photographs))
                seen[watching] = self._ranged(self._photographs[chosen])
            else:
                seen[watching] = self._white(viewers, self._width)
        elif self.noise == "small":
            seen += self._margin * (2 * self.noise_rng.uniform(rows, self._width) - 1)
        self._seen[rows, : self._width] = seen
        if self.noise == "video":
            self._seen[rows, self._width :] = self._film[self._clock[rows]]
        elif self.noise == "stays":
            self._seen[rows[watching], self._width :] = self._white(rows[watching], self._beside)
            shown = watching
        elif self._beside:
            size = {"half": np.ones(len(rows)), "wall": watching}.get(self.noise, self._size[place])
            self._seen[rows, self._width :] = self._white(rows, self._beside) * size[:, None]
            shown = size >= 0.5
        self._shown[rows] = shown

    def _views(self, rows: Array | slice) -> Array:
        return self._seen[rows]

    def _info(self) -> dict[str, Array]:
        return {"cell": self._cells[self._place], "noise": self._shown.copy()}

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        space: Any = self.single_observation_space
        inside = self._side + 1, self._side**2 - self._side - 2
        clock = 0, (SEQUENCE if self.noise == "sequence" else FRAMES) - 1
        seen = space.low, space.high
        return {"place": inside, "steps": (0, 2**62), "last": (-1, 4), "clock": clock, "seen": seen}

    def _render_row(self, row: int) -> Array:
        """The rooms from above; beside them what the agent sees, one grey bar a number."""
        tile = 5
        picture = blank(self._side * tile, self._side * tile + 45, (255, 255, 255))
        floor = np.full((self._side**2, 3), 235, dtype=np.uint8)
        floor[self._other_room & (self.noise in ("room", "dynamics"))] = 250, 215, 205
        floor[~self.free.ravel()] = 60
        tiles = floor.reshape(self._side, self._side, 3).repeat(tile, axis=0).repeat(tile, axis=1)
        picture[:, : self._side * tile] = tiles
        y, x = divmod(int(self._place[row]), self._side)
        disc(picture, x * tile + 2, y * tile + 2, 4, (210, 40, 40) if self._shown[row] else (40, 90, 200))
        edges = np.linspace(0, picture.shape[0], self._seen.shape[1] + 1)
        grey = np.clip((self._seen[row] - self._low) / (1 - self._low) * 255, 0, 255).astype(int)
        for top, bottom, level in zip(edges[:-1], edges[1:], grey.tolist(), strict=True):
            rectangle(picture, self._side * tile + 5, top, picture.shape[1], bottom, (level, level, level))
        return picture


def photographs(width: int) -> tuple[NDArray[np.float64], str]:
    """CIFAR-10's training images as grey levels in [0, 1], `width` pixels of each, and where they come from."""
    images, source = images_or_cifar10()
    pixels = images.reshape(len(images), -1, 3)
    apart = ((np.arange(width) + 0.5) * pixels.shape[1] / width).astype(np.int64)
    return (pixels[:, apart] @ (GRAY / 255)).clip(0, 1).astype(np.float64), source


def sequence(frame: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """Frames of the pseudo-random sequence, `width` numbers in [0, 1) each: a function of their number alone."""
    first = frame.astype(np.uint64)[:, None] * np.uint64(width)
    counters = np.asarray(first + np.arange(1, width + 1, dtype=np.uint64), dtype=np.uint64)
    return (mix64(counters * GOLDEN) >> np.uint64(11)).astype(np.float64) * TO_UNIT


class Rooms(SingleEnv):
    """One world of rooms; `gymnasium.make("lpm/Rooms-v0", ...)` gives this. The options are those of `RoomsVector`."""

    vector = RoomsVector
