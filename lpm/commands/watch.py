"""`lpm watch RUN`: roll out a trained policy as a GIF, and draw where training has been."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console

from lpm.agents.collect import Envs
from lpm.agents.policy import ActorCritic
from lpm.core.spaces import Spaces
from lpm.files import write_atomic
from lpm.runs.build import make_envs
from lpm.runs.checkpoint import load_checkpoint
from lpm.runs.config import RunConfig
from lpm.runs.folder import RunFolder


@dataclass(frozen=True)
class Watch:
    """Roll out the policy of a run's last checkpoint and write rollout.gif; for environments that count cells, also
    coverage.png, a map of the visits in training."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    steps: int = 500
    """Most steps to show; the rollout also ends with its first episode."""
    seed: int = 0
    """Seed of the environment and of the actions."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""
    fps: float = 30.0
    """Frames per second."""
    every: int = 1
    """Show only every so many steps."""
    out: Path | None = None
    """Where the pictures go; the run's folder if not given."""


def run(args: Sequence[str]) -> int:
    """Parse, roll out, draw."""
    options = tyro.cli(Watch, args=args, prog="lpm watch")
    for name in ("steps", "every", "fps"):
        if getattr(options, name) <= 0:
            raise ValueError(f"--{name}: expected a number above 0, got {getattr(options, name)}")
    folder = RunFolder.open(options.run)
    config, loaded = folder.config, load_checkpoint(folder.checkpoints)
    if loaded is None:
        raise ValueError(f"{options.run} has no checkpoint yet")
    console, out = Console(), options.out or options.run
    agent_state = loaded.state["agent"]
    frames, total, length = rollout(config, agent_state["policy"], options)
    write_gif(out / "rollout.gif", frames, options.fps)
    console.print(
        f"Step {loaded.steps:,}: a rollout of {length} steps, return {total:.2f}, in {out / 'rollout.gif'}",
        highlight=False,
    )
    visits = np.asarray(agent_state["collector"]["visits"])
    if len(visits):
        write_heat_map(out / "coverage.png", visits, config)
        seen = int(np.count_nonzero(visits))
        console.print(f"{seen:,} of {len(visits):,} cells visited, in {out / 'coverage.png'}", highlight=False)
    return 0


def rollout(config: RunConfig, weights: dict[str, Any], options: Watch) -> tuple[list[NDArray[np.uint8]], float, int]:
    """Pictures, return and length of one episode (or of `options.steps` steps)."""
    envs = make_envs(config, 1, render_mode="rgb_array")
    try:
        return _rollout(envs, config, weights, options)
    finally:
        envs.close()


def _rollout(
    envs: Envs, config: RunConfig, weights: dict[str, Any], options: Watch
) -> tuple[list[NDArray[np.uint8]], float, int]:
    generator = torch.Generator().manual_seed(options.seed)
    spaces = Spaces.of(envs)
    policy = ActorCritic(spaces, config.learner.network, config.learner.value_heads, generator)
    policy.load_state_dict(weights)
    chooser = policy.actions
    obs, _ = envs.reset(seed=options.seed)
    frames, total, step = [_picture(envs)], 0.0, 0
    while step < options.steps:
        noise = chooser.noise(1, 1, generator)[0]
        with torch.inference_mode():
            parameters = policy.policy(torch.as_tensor(np.asarray(obs), dtype=spaces.obs_dtype))
            if config.policy == "uniform":
                choice = chooser.uniform(noise)
            else:
                choice = chooser.greedy(parameters) if options.greedy else chooser.sample(parameters, noise)
        obs, reward, terminated, truncated, _ = envs.step(chooser.executed(choice.numpy()))
        step, total = step + 1, total + float(reward[0])
        if step % options.every == 0:
            frames.append(_picture(envs))
        if terminated[0] or truncated[0]:
            break
    return frames, total, step


def _picture(envs: Envs) -> NDArray[np.uint8]:
    pictures: Any = envs.render()
    if pictures is None or pictures[0] is None:
        raise ValueError(f"{envs} draws no pictures: expected render_mode='rgb_array' to be supported")
    return np.asarray(pictures[0], dtype=np.uint8)


def write_gif(path: Path, frames: Sequence[NDArray[np.uint8]], fps: float) -> None:
    """An endless GIF of RGB pictures."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    stream = io.BytesIO()
    # GIF counts time in hundredths of a second, and viewers slow down anything below two
    duration = max(20, round(1000 / fps))
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0)
    write_atomic(path, stream.getvalue())


@dataclass(frozen=True)
class Grid:
    """How the cells of an environment lie in the plane."""

    shape: tuple[int, int]
    """Cells along the two axes; the index counts along the second first."""
    labels: tuple[str, str]
    """Names of the axes."""
    extent: tuple[float, float, float, float]
    """First axis from, to; second axis from, to."""
    downwards: bool = False
    """Whether the second axis points down."""


def grid_of(config: RunConfig, cells: int) -> Grid:
    """The layout of an environment's cells; those of unknown ones are laid out row by row."""
    if config.env_id == "lpm/MountainCar-v0":
        return Grid((10, 10), ("position", "velocity"), (-1.2, 0.6, -0.07, 0.07))
    if config.env_id == "lpm/NMaze-v0":
        from lpm.envs.maze_geometry import CELL, GRID

        return Grid(GRID, ("x [m]", "z [m]"), (0, GRID[0] * CELL, 0, GRID[1] * CELL), downwards=True)
    height = math.isqrt(cells)
    while cells % height:
        height -= 1
    width = cells // height
    return Grid((height, width), ("row", "column"), (0, height, 0, width), downwards=True)


def write_heat_map(path: Path, visits: NDArray[np.int64], config: RunConfig) -> None:
    """Visits per cell on a logarithmic scale; cells never visited stay white."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    grid = grid_of(config, len(visits))
    counts = np.ma.masked_equal(visits.reshape(grid.shape).T, 0)
    low, high, bottom, top = grid.extent
    extent = (low, high, top, bottom) if grid.downwards else (low, high, bottom, top)
    figure = Figure(figsize=(7, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    picture = axes.imshow(
        counts,
        origin="upper" if grid.downwards else "lower",
        extent=extent,
        aspect="auto" if config.env_id == "lpm/MountainCar-v0" else "equal",
        interpolation="nearest",
        norm=LogNorm(vmin=1, vmax=max(2, int(visits.max()))),
        cmap="viridis",
    )
    axes.set_xlabel(grid.labels[0])
    axes.set_ylabel(grid.labels[1])
    seen = int(np.count_nonzero(visits))
    axes.set_title(f"{config.env_id}, {config.algo} + {config.bonus}: {seen:,} of {len(visits):,} cells visited")
    figure.colorbar(picture, ax=axes, label="visits in training")
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    write_atomic(path, stream.getvalue())
