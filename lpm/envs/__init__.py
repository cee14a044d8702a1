"""Noisy-TV environments. Importing this package registers them with Gymnasium under `lpm/...-v0`.

>>> import gymnasium, lpm.envs
>>> envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=16, noise=True)
>>> envs.single_action_space.shape
(2,)
"""

from __future__ import annotations

from gymnasium.envs.registration import register

_HOMES = {
    "MountainCar": "lpm.envs.mountain_car",
    "NMaze": "lpm.envs.maze",
    "Atari": "lpm.envs.atari",
    "LavaCrossing": "lpm.envs.lava",
}

for _name, _home in _HOMES.items():
    # Strings: a simulation and the packages it needs are imported only when an environment is made.
    register(id=f"lpm/{_name}-v0", entry_point=f"{_home}:{_name}", vector_entry_point=f"{_home}:{_name}Vector")
