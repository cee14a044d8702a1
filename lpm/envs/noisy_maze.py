"""The pixel maze with the noise families that it does not carry itself, put around it by the wrappers of `noise`."""

from typing import Any, Literal

from gymnasium import Env
from gymnasium.vector import AutoresetMode, VectorEnv

from lpm.envs.maze import NMaze, NMazeVector
from lpm.envs.maze_geometry import ARM_WALL
from lpm.envs.noise import NoiseConfig, NoisyEnv, NoisyVectorEnv

Family = Literal["none", "photographs", "wall", "part", "small", "sticky"]
_OWN: dict[Family, dict[str, Any]] = {
    "none": {},
    "photographs": {"noise": "action"},
    "wall": {"noise": "state", "noise_wall": ARM_WALL},
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
