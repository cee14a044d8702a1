"""Noisy-TV environments. Importing this package registers them with Gymnasium under `lpm/...-v0`.

>>> import gymnasium, lpm.envs
>>> envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=16, noise=True)
>>> envs.single_action_space.shape
(2,)
"""

from gymnasium.envs.registration import register

from lpm.envs.minigrid import MiniGridObservation, MiniGridVector

__all__ = ["MiniGridObservation", "MiniGridVector"]

# Strings: a simulation and the packages it needs are imported only when an environment is made.
for _name, _module in {"MountainCar": "mountain_car", "NMaze": "maze", "NoisyMaze": "maze", "Atari": "atari",
                       "LavaCrossing": "lava", "DeepSea": "deep_sea", "Rooms": "rooms"}.items():  # fmt: skip
    _entry = f"lpm.envs.{_module}:{_name}"
    register(id=f"lpm/{_name}-v0", entry_point=_entry, vector_entry_point=f"{_entry}Vector")
_rooms = {"minNumRooms": 7, "maxNumRooms": 7, "maxRoomSize": 4}
register(id="lpm/MultiRoomNoisyTV-N7-S4-v0", entry_point="lpm.envs.multiroom_tv:MultiRoomNoisyTV", kwargs=_rooms)
