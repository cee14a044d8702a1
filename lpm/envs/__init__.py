"""Noisy-TV environments. Importing this package registers them with Gymnasium under `lpm/...-v0`.

>>> import gymnasium, lpm.envs
>>> envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=16, noise=True)
>>> envs.single_action_space.shape
(2,)
"""

from __future__ import annotations

from gymnasium.envs.registration import register

from lpm.envs.minigrid import MiniGridObservation, MiniGridVector

__all__ = ["MiniGridObservation", "MiniGridVector"]

# Strings: a simulation and the packages it needs are imported only when an environment is made.
_ENTRY_POINTS = {
    "MountainCar": ("lpm.envs.mountain_car:MountainCar", "lpm.envs.mountain_car:MountainCarVector"),
    "NMaze": ("lpm.envs.maze:NMaze", "lpm.envs.maze:NMazeVector"),
    "NoisyMaze": ("lpm.envs.noisy_maze:make_single", "lpm.envs.noisy_maze:make_noisy_maze"),
    "Atari": ("lpm.envs.atari:Atari", "lpm.envs.atari:AtariVector"),
    "LavaCrossing": ("lpm.envs.lava:LavaCrossing", "lpm.envs.lava:LavaCrossingVector"),
    "DeepSea": ("lpm.envs.deep_sea:DeepSea", "lpm.envs.deep_sea:DeepSeaVector"),
    "Rooms": ("lpm.envs.rooms:Rooms", "lpm.envs.rooms:RoomsVector"),
}

for _name, (_single, _vector) in _ENTRY_POINTS.items():
    register(id=f"lpm/{_name}-v0", entry_point=_single, vector_entry_point=_vector)
register(
    id="lpm/MultiRoomNoisyTV-N7-S4-v0",
    entry_point="lpm.envs.multiroom_tv:MultiRoomNoisyTV",
    kwargs={"minNumRooms": 7, "maxNumRooms": 7, "maxRoomSize": 4},
)
