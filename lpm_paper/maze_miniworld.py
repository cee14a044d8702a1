"""The same maze simulated and drawn by Farama's Miniworld, to check ours against. Headless, slow, one process.

>>> envs = MiniworldMaze(num_envs=2, width=80, height=60)  # doctest: +SKIP

Miniworld is no longer maintained; it needs pyglet 1.5 and the EGL libraries of Mesa. One scene serves all rows: the
agent is put at each row's pose in turn, because two Miniworld scenes in one process overwrite each other.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.envs.maze import NMazeVector
from lpm.envs.maze_geometry import FORWARD_STEP, OPENINGS, ROOMS, START, Action
from lpm.utils.versions import pip_install

try:
    import pyglet

    pyglet.options["headless"] = True  # before miniworld opens a window
    from miniworld.miniworld import MiniWorldEnv
    from miniworld.params import DEFAULT_PARAMS
except ImportError as error:
    raise ImportError(
        f"the check against Miniworld needs it: {pip_install('miniworld')} "
        "(and, on Debian, libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri libglu1-mesa)"
    ) from error


def _build(world: Any) -> None:
    rooms = []
    for room in ROOMS:
        textures = {"wall_tex": room.material.name.lower(), "floor_tex": "stucco"}
        rooms.append(world.add_rect_room(room.min_x, room.max_x, room.min_z, room.max_z, **textures))
    for a, b, min_x, max_x in OPENINGS:
        world.connect_rooms(rooms[a], rooms[b], min_x=min_x, max_x=max_x)
    x, z, heading = START
    world.place_entity(world.agent, pos=np.array([x, 0.0, z]), dir=heading)


class MiniworldMaze(NMazeVector):
    """`NMazeVector` with moves and views by Miniworld; options and noise are the same."""

    def __init__(self, num_envs: int = 1, *, width: int = 160, height: int = 120, **settings: Any) -> None:
        super().__init__(num_envs, width=width, height=height, **settings)
        params = DEFAULT_PARAMS.no_random()
        params.set("forward_step", FORWARD_STEP)
        params.set("turn_step", 5)
        # Miniworld's pattern is to subclass; a class built here keeps an untyped package out of the type checks.
        scene: Any = type("NMazeScene", (MiniWorldEnv,), {"_gen_world": _build})
        self.world = scene(params=params, obs_width=width, obs_height=height, max_episode_steps=math.inf)

    def _place(self, pose: NDArray[np.float64]) -> None:
        self.world.agent.pos = np.array([pose[0], 0.0, pose[1]])
        self.world.agent.dir = pose[2]

    def _move(self, pose: NDArray[np.float64], actions: NDArray[np.int64]) -> None:
        for row, chosen in zip(pose, actions, strict=True):
            self._place(row)
            if chosen in (Action.FORWARD, Action.BACK):
                self.world.move_agent(FORWARD_STEP if chosen == Action.FORWARD else -FORWARD_STEP, 0.0)
            elif chosen in (Action.TURN_LEFT, Action.TURN_RIGHT):
                self.world.turn_agent(5 if chosen == Action.TURN_LEFT else -5)
            agent = self.world.agent
            row[:] = agent.pos[0], agent.pos[2], agent.dir

    def _draw(self, frames: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
        for row in rows:
            self._place(self._pose[row])
            frames[row] = self.world.render_obs()
