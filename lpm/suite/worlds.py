"""The worlds of the suite and their conditions: what is run, at each scale, for every bonus alike.

Decided once, on the two references (the maze's wall on RND and ICM too): without noise uniform random actions stay
below half of what the oracle reaches. The agent is that of MountainCar's table; bonuses have their library defaults in
every world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.envs import maze_geometry
from lpm.envs.rooms import generate_layout
from lpm.experiments.experiment import Method
from lpm.experiments.methods import BASELINES
from lpm.experiments.pictures import maze_grid, mountain_car_grid
from lpm.experiments.training import Condition, Scale, Scores, Settings, TrainingExperiment, average

VERSION = 1
"""Of the suite. It changes whenever a world, a condition, the agent or a score does: cards do not mix."""
CLEAN = "clean"
SEEDS = {"smoke": 2, "desk": 5}
REFERENCES: Mapping[str, Method] = {name: BASELINES[name] for name in ("random", "oracle")}
"""0 and 1 of every axis."""


@dataclass(frozen=True)
class World:
    """An environment with a way to score it."""

    label: str
    experiment: TrainingExperiment
    """Its runs; the conditions are `CLEAN` and families of noise."""
    watched: tuple[str, ...] = ()
    """Families whose noise the agent chooses to watch: steps spent on it are wasted."""
    metric: str = "cells"
    """What is normalised: "cells" visited, or "success" in a task."""


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """What a run is scored by: cells, steps on noise, late success, share of the bonus on first visits."""
    late = {"success": curves.get("success", [])[-(len(curves["step"]) // 3 or 1) :]}
    means = {**average(curves, "noise_share"), **average(late, "success"), **average(curves, "first_visits")}
    return {"cells": float(np.count_nonzero(visits)), "noise_share": 0.0, "success": 0.0, **means}


def score_maze(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The same, but cells of the arm in which episodes start do not count: random actions see most of that arm."""
    beyond = visits.copy()
    if len(beyond):
        arm, cell = maze_geometry.ROOMS[0], maze_geometry.CELL
        beyond.reshape(maze_geometry.GRID)[: round(arm.max_x / cell), : round(arm.max_z / cell)] = 0
    return score(curves, beyond)


Grid = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def rooms_grid(num_rooms: int, room_size: int = 7) -> Grid:
    """A picture of visits: the floor from above, nothing where there are walls."""
    free = generate_layout(num_rooms, room_size, 0)

    def grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
        floor = np.full(free.shape, np.nan)
        floor[free] = visits
        return floor

    return grid


def _world(
    name: str,
    label: str,
    env_id: str,
    families: Mapping[str, tuple[str, Mapping[str, Any]]],
    steps: int,
    agent: Settings,
    env: Mapping[str, Any],
    *,
    smoke: tuple[str, ...],
    smoke_steps: int,
    watched: tuple[str, ...] = (),
    metric: str = "cells",
    mixer: Settings | None = None,
    scores: Scores = score,
    about: tuple[str, ...] = (),
    grid: Grid,
) -> World:
    shown = {"cells": "cells visited", "noise_share": "share of steps on the noise"}
    experiment = TrainingExperiment(
        name=f"suite-{name}",
        title=label,
        place=f"suite, version {VERSION}",
        about=about,
        env_id=env_id,
        algo="ppo",
        variants={family: Condition(words, settings) for family, (words, settings) in families.items()},
        methods=REFERENCES,
        sizes={
            "smoke": Scale(smoke_steps, SEEDS["smoke"], agent, (), smoke, env),
            "desk": Scale(steps, SEEDS["desk"], agent, (), None, env),
        },
        metrics={"success": "episodes that reach the goal", **shown} if metric == "success" else shown,
        lower_is_better=("noise_share",),
        score=scores,
        grid=grid,
        mixer=mixer or {},
    )
    return World(label, experiment, watched, metric)


CAR_AGENT = {"preset": "published-noisy"}
ROOMS_AGENT = {"preset": "published-noisy", "num_envs": 16, "rollout_steps": 128}
MAZE_AGENT = {"preset": "published-noisy", "num_envs": 16, "rollout_steps": 32, "epochs": 2}
ROOMS = {"num_rooms": 6, "max_episode_steps": 400}


def _families(*names: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    return {CLEAN: ("no noise", {"noise": "none"}), **{name: (LABELS[name], {"noise": name}) for name in names}}


LABELS: Mapping[str, str] = {
    CLEAN: "no noise",
    "action": "noise action",
    "photographs": "photographs",
    "sequence": "sequence action",
    "wall": "noise wall",
    "video": "video",
    "half": "half noise",
    "part": "a third noise",
    "small": "small noise",
    "place": "noise by place",
    "room": "noisy rooms",
    "sticky": "sticky actions",
    "dynamics": "mirrored rooms",
    "doors": "doors of chance",
}
"""Condition to its words in tables; every condition is one of these."""

WORLDS: Mapping[str, World] = {
    "car": _world(
        "car",
        "MountainCar",
        "lpm/MountainCar-v0",
        # without noise the second action still freezes the car: the price of idling is in both
        {CLEAN: ("no noise", {"noise": "idle"}), "action": ("noise action", {"noise": True})},
        30_720,
        CAR_AGENT,
        {},
        smoke=(CLEAN, "action"),
        smoke_steps=4_096,
        watched=("action",),
        grid=mountain_car_grid,
    ),
    "rooms": _world(
        "rooms",
        "Rooms, position",
        "lpm/Rooms-v0",
        _families(
            "action", "sequence", "wall", "video", "half", "small", "place", "room", "sticky", "dynamics", "doors"
        ),
        40_960,
        ROOMS_AGENT,
        ROOMS,
        smoke=(CLEAN, "action", "half"),
        smoke_steps=4_096,
        watched=("action", "sequence"),
        grid=rooms_grid(6),
    ),
    "onehot": _world(
        "onehot",
        "Rooms, one-hot",
        "lpm/Rooms-v0",
        _families("action", "photographs", "half"),
        40_960,
        ROOMS_AGENT,
        {**ROOMS, "observation": "onehot"},
        smoke=(CLEAN,),
        smoke_steps=4_096,
        watched=("action", "photographs"),
        grid=rooms_grid(6),
    ),
    "maze": _world(
        "maze",
        "Maze, pixels",
        "lpm/NoisyMaze-v0",
        _families("photographs", "wall", "part", "small", "sticky"),
        8_192,
        MAZE_AGENT,
        {"width": 36, "height": 36, "threads": 1, "max_steps": 150},
        smoke=(CLEAN,),
        smoke_steps=1_024,
        watched=("photographs",),
        scores=score_maze,
        about=("The score counts cells beyond the arm in which episodes start; the curves count every cell.",),
        grid=maze_grid,
    ),
    "task": _world(
        "task",
        "Task: a goal far away",
        "lpm/Rooms-v0",
        _families("action"),
        40_960,
        ROOMS_AGENT,
        {"num_rooms": 3, "room_size": 5, "max_episode_steps": 150, "observation": "onehot", "goal": True},
        smoke=(CLEAN,),
        smoke_steps=4_096,
        watched=("action",),
        metric="success",
        about=("The score is that of the last third of a run.",),
        mixer={"weight": 0.1},
        grid=rooms_grid(3, 5),
    ),
}
