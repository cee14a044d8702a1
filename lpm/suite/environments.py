"""The environments of the suite and their conditions: what is run, at each scale, for every bonus alike.

Decided once, on the two references (the maze's wall on RND and ICM too): without noise uniform random actions stay
below half of what the count of true cells reaches. The agent is that of MountainCar's table; bonuses have their library
defaults in every environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.envs import maze_geometry
from lpm.envs.rooms import generate_layout
from lpm.experiments.experiment import BASELINES, Method
from lpm.experiments.training import (
    Condition,
    Scale,
    Scores,
    Settings,
    TrainingExperiment,
    average,
    floor_grid,
    maze_grid,
    mountain_car_grid,
)

VERSION = 1
"""Of the suite. It changes whenever an environment, a condition, the agent or a score does: scores do not mix."""
CLEAN = "clean"
SEEDS = {"smoke": 2, "short": 5}
REFERENCES: Mapping[str, Method] = {name: BASELINES[name] for name in ("random", "cell_counts")}
"""0 and 1 of every axis."""
Grid = Callable[[NDArray[np.float64]], NDArray[np.float64]]

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


def score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """What a run is scored by: cells, steps on noise, late success, share of the bonus on first visits."""
    late = {name: values[-(len(curves["step"]) // 3 or 1) :] for name, values in curves.items()}
    means = {**average(curves, "noise_share"), **average(late, "success"), **average(curves, "first_visits")}
    return {"cells": float(np.count_nonzero(visits)), "noise_share": 0.0, "success": 0.0, **means}


def score_maze(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The same, but cells of the arm in which episodes start do not count: random actions see most of that arm."""
    beyond = visits.copy()
    if len(beyond):
        arm, cell = maze_geometry.ROOMS[0], maze_geometry.CELL
        beyond.reshape(maze_geometry.GRID)[: round(arm.max_x / cell), : round(arm.max_z / cell)] = 0
    return score(curves, beyond)


@dataclass(frozen=True)
class SuiteEnvironment:
    """An environment, what is run in it, and how it is scored."""

    name: str
    label: str
    env_id: str
    grid: Grid
    """Visits per cell as a picture."""
    noise: tuple[str, ...]
    """Conditions beside the one without noise, as the environment's argument `noise`."""
    steps: int
    """Of a run at the short scale."""
    agent: Settings
    env: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    smoke: tuple[str, ...] = (CLEAN,)
    """Conditions of the smoke scale."""
    smoke_steps: int = 4_096
    watched: tuple[str, ...] = ()
    """Conditions whose noise the agent chooses to watch: steps spent on it are wasted."""
    metric: str = "cells"
    """What is normalised: "cells" visited, or "success" in a task."""
    score: Scores = score
    mixer: Settings = field(default_factory=dict)
    about: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Condition to the argument `noise`, where it is not the condition's name ("none" without noise)."""

    @cached_property
    def experiment(self) -> TrainingExperiment:
        arguments = {CLEAN: "none", **{name: name for name in self.noise}, **self.arguments}
        success = {"success": "episodes that reach the goal"} if self.metric == "success" else {}
        return TrainingExperiment(
            name=f"suite-{self.name}",
            title=self.label,
            place=f"suite, version {VERSION}",
            about=(self.about,) if self.about else (),
            env_id=self.env_id,
            algo="ppo",
            variants={name: Condition(LABELS[name], {"noise": noise}) for name, noise in arguments.items()},
            methods=REFERENCES,
            sizes={
                "smoke": Scale(self.smoke_steps, SEEDS["smoke"], self.agent, (), self.smoke, self.env),
                "short": Scale(self.steps, SEEDS["short"], self.agent, (), None, self.env),
            },
            metrics={**success, "cells": "cells visited", "noise_share": "share of steps on the noise"},
            lower_is_better=("noise_share",),
            score=self.score,
            grid=self.grid,
            mixer=self.mixer,
        )


CAR_AGENT = {"preset": "published-noisy"}
ROOMS_AGENT = {**CAR_AGENT, "num_envs": 16, "rollout_steps": 128}
MAZE_AGENT = {**CAR_AGENT, "num_envs": 16, "rollout_steps": 32, "epochs": 2}
SIX_ROOMS = partial(floor_grid, generate_layout(6, 7, 0))
ROOMS = {"num_rooms": 6, "max_episode_steps": 400}
TASK = {"num_rooms": 3, "room_size": 5, "max_episode_steps": 150, "observation": "onehot", "goal": True}

ENVIRONMENTS: Mapping[str, SuiteEnvironment] = {environment.name: environment for environment in (
    SuiteEnvironment(
        "car", "MountainCar", "lpm/MountainCar-v0", mountain_car_grid, ("action",), 30_720, CAR_AGENT,
        smoke=(CLEAN, "action"), watched=("action",),
        # without noise the second action still freezes the car: the price of idling is in both
        arguments={CLEAN: "idle", "action": True},
    ),
    SuiteEnvironment(
        "rooms", "Rooms, position", "lpm/Rooms-v0", SIX_ROOMS,
        ("action", "sequence", "wall", "video", "half", "small", "place", "room", "sticky", "dynamics", "doors"),
        40_960, ROOMS_AGENT, ROOMS, smoke=(CLEAN, "action", "half"), watched=("action", "sequence"),
    ),
    SuiteEnvironment(
        "onehot", "Rooms, one-hot", "lpm/Rooms-v0", SIX_ROOMS, ("action", "photographs", "half"),
        40_960, ROOMS_AGENT, {**ROOMS, "observation": "onehot"}, watched=("action", "photographs"),
    ),
    SuiteEnvironment(
        "maze", "Maze, pixels", "lpm/NoisyMaze-v0", maze_grid, ("photographs", "wall", "part", "small", "sticky"),
        8_192, MAZE_AGENT, {"width": 36, "height": 36, "threads": 1, "max_steps": 150}, smoke_steps=1_024,
        watched=("photographs",), score=score_maze,
        about="The score counts cells beyond the arm in which episodes start; the curves count every cell.",
    ),
    SuiteEnvironment(
        "task", "Task: a goal far away", "lpm/Rooms-v0", partial(floor_grid, generate_layout(3, 5, 0)), ("action",),
        40_960, ROOMS_AGENT, TASK,
        watched=("action",), metric="success", mixer={"weight": 0.1},
        about="The score is that of the last third of a run.",
    ),
)}  # fmt: skip
