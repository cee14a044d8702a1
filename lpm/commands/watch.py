"""`lpm watch RUN`: roll out a trained policy as a GIF, and draw where training has been."""

import dataclasses
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from lpm.agents.collect import Envs, find_attribute
from lpm.agents.policy import ActorCritic
from lpm.commands.terminal import parse, terminal
from lpm.core.spaces import Spaces
from lpm.experiments.training import floor_grid, maze_grid, mountain_car_grid, square_grid
from lpm.runs.build import make_envs
from lpm.runs.checkpoint import CheckpointError, Loaded, load_checkpoint
from lpm.runs.config import RunConfig
from lpm.runs.folder import RunFolder
from lpm.storage.files import write_atomic
from lpm.storage.state_tree import check_like, require


@dataclass(frozen=True)
class Watch:
    """Roll out the policy of a run's last checkpoint and write rollout.gif; for environments whose cells lie in
    a plane, also coverage.png, a map of the visits in training."""

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
    from lpm.report.figures import draw_visits, encoded

    options = parse(Watch, args)
    for name in ("steps", "every", "fps"):
        if getattr(options, name) <= 0:
            raise ValueError(f"--{name}: expected a number above 0, got {getattr(options, name)}")
    folder = RunFolder.open(options.run)
    config = folder.described
    try:
        loaded = load_checkpoint(folder.checkpoints)
    except CheckpointError as problem:
        raise ValueError(f"{options.run}: {problem}") from None
    if loaded is None:
        raise ValueError(f"{options.run} has no checkpoint yet")
    console, out = terminal(), options.out or options.run
    weights, visits = _parts(loaded)
    torch.set_num_threads(config.threads)
    if len(visits):
        seen, picture = f"{np.count_nonzero(visits):,} of {len(visits):,} cells visited", laid_out(config, visits)
        if picture is not None:
            drawn = draw_visits([f"{config.env_id}, {config.algo} + {config.bonus}\n{seen}"], [picture], size=6.0)
            write_atomic(out / "coverage.png", encoded(drawn, ["png"])["png"])
        where = "no map: how they lie is not known" if picture is None else f"in {out / 'coverage.png'}"
        console.print(f"{seen}, {where}")
    frames, total, length = rollout(config, weights, options)
    write_gif(out / "rollout.gif", frames, options.fps)
    console.print(f"Step {loaded.steps:,}: a rollout of {length} steps, return {total:.2f}, in {out / 'rollout.gif'}")
    return 0


def _parts(loaded: Loaded) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """The policy's weights and the visits per cell, of a checkpoint that may be anybody's."""
    match loaded.state:
        case {"agent": {"policy": dict(policy), "collector": dict(collector)}}:
            visits: Any = collector.get("visits")
        case _:
            raise ValueError(f"{loaded.path.name}: expected the state of a run, got another")
    counts = isinstance(visits, np.ndarray) and visits.ndim == 1 and visits.dtype == np.int64 and (visits >= 0).all()
    require(bool(counts), f"{loaded.path.name}: visits per cell", type(visits).__name__)
    return policy, visits


def rollout(config: RunConfig, weights: dict[str, Any], options: Watch) -> tuple[list[NDArray[np.uint8]], float, int]:
    """Pictures, return and length of one episode (or of `options.steps` steps)."""
    settings = {name: value for name, value in config.env.items() if name != "render_mode"}
    with _drawing(config.env_id), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*render_mode")  # said below, with what to do
        envs = make_envs(dataclasses.replace(config, env=settings), 1, render_mode="rgb_array")
    with closing(envs):
        generator = torch.Generator().manual_seed(options.seed)
        spaces = Spaces.of(envs)
        policy = ActorCritic(spaces, config.learner.network, config.learner.value_heads, generator)
        check_like(policy.state_dict(), weights, "policy")
        policy.load_state_dict(weights)
        chooser = policy.actions
        obs, _ = envs.reset(seed=options.seed)
        frames, total, step, ended = [_picture(envs, config)], 0.0, 0, False
        while step < options.steps and not ended:
            noise = chooser.noise(1, 1, generator)[0]
            with torch.inference_mode():
                parameters = policy.policy(torch.as_tensor(np.asarray(obs), dtype=spaces.obs_dtype))
                if config.policy == "uniform":
                    raw_action = chooser.uniform(noise)
                else:
                    raw_action = chooser.greedy(parameters) if options.greedy else chooser.sample(parameters, noise)
            obs, reward, terminated, truncated, _ = envs.step(chooser.executed(raw_action.numpy()))
            step, total, ended = step + 1, total + float(reward[0]), bool(terminated[0] or truncated[0])
            if step % options.every == 0:
                frames.append(_picture(envs, config))
        return frames, total, step


def _picture(envs: Envs, config: RunConfig) -> NDArray[np.uint8]:
    with _drawing(config.env_id):
        pictures: Any = envs.render()
    if pictures is None or pictures[0] is None:
        raise ValueError(f"{config.env_id} draws no pictures: {RENDERING}")
    return np.asarray(pictures[0], dtype=np.uint8)


RENDERING = (
    "expected an environment with 'rgb_array' in metadata['render_modes'], an argument render_mode, which it keeps as "
    "self.render_mode, and a method render() that returns an RGB picture"
)


@contextmanager
def _drawing(env_id: str) -> Iterator[None]:
    """Whatever an environment that cannot be drawn raises, as a sentence that says what to do."""
    try:
        yield
    except (ValueError, OSError, ImportError, gymnasium.error.Error):
        raise  # each says what it is
    except TypeError as problem:
        if "render_mode" not in str(problem):
            raise
        raise ValueError(f"{env_id} takes no render_mode: {RENDERING}") from problem
    except Exception as problem:
        display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        known = display or sys.platform in ("darwin", "win32")
        hint = "" if known else "; without a display, set MUJOCO_GL=egl for MuJoCo, or use xvfb-run for others"
        raise ValueError(f"{env_id} cannot be drawn: {type(problem).__name__}: {problem}{hint}") from problem


def write_gif(path: Path, frames: Sequence[NDArray[np.uint8]], fps: float) -> None:
    """An endless GIF of RGB pictures."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    stream = io.BytesIO()
    # GIF counts time in hundredths of a second, and viewers slow down anything below two
    duration = max(20, round(1000 / fps))
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0)
    write_atomic(path, stream.getvalue())


# Environment -> how its cells lie in the plane.
LAYOUTS = {"lpm/MountainCar-v0": mountain_car_grid, "lpm/NMaze-v0": maze_grid, "lpm/NoisyMaze-v0": maze_grid,
           "lpm/LavaCrossing-v0": square_grid}  # fmt: skip


def laid_out(config: RunConfig, visits: NDArray[Any]) -> NDArray[np.float64] | None:
    """Visits per cell as a picture, NaN where no agent can be; None where nobody knows how the cells lie."""
    if config.env_id == "lpm/Rooms-v0":  # its cells are the floor, which its settings draw
        return floor_grid(find_attribute(make_envs(config, 1), "free", None), visits)
    return LAYOUTS[config.env_id](visits.astype(np.float64)) if config.env_id in LAYOUTS else None
