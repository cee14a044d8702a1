"""The pixel maze with the noise families that it does not carry itself, put around it by the wrappers of `noise`."""

from __future__ import annotations

from typing import Any, Literal

from gymnasium.vector import AutoresetMode, VectorEnv

from lpm.envs.maze import NMazeVector
from lpm.envs.noise import NoiseConfig, NoisyVectorEnv

Family = Literal["none", "photographs", "wall", "part", "small", "sticky"]
_OWN: dict[Family, dict[str, Any]] = {
    "none": {},
    "photographs": {"noise": "action"},
    "wall": {"noise": "state"},
    "sticky": {"sticky": 0.25},
}
FAMILIES: dict[Family, str] = {
    "none": "no noise",
    "photographs": "the idle action shows a photograph",
    "wall": "a wall shows random pixels",
    "part": "a third of the picture is random pixels",
    "small": "a little noise on every pixel",
    "sticky": "a quarter of the actions repeat the last",
}
SMALL = 16.0  # standard deviation of the small noise, in levels of 256


def make_noisy_maze(
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
    if noise not in FAMILIES:
        raise ValueError(f"noise must be one of {', '.join(FAMILIES)}, got {noise!r}")
    own = {"width": width, "height": height, "max_steps": max_steps, "threads": threads, **_OWN.get(noise, {})}
    envs = NMazeVector(num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode, **own)
    if noise == "part":
        # the lower third: floor, which tells the place least
        region = ((height - height // 3, height),)
        return NoisyVectorEnv(envs, NoiseConfig(trigger="always", source="uniform", region=region))
    if noise == "small":
        return NoisyVectorEnv(envs, NoiseConfig(trigger="always", source="gaussian", blend="add", std=SMALL))
    return envs
