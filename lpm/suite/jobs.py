"""The runs of the suite: which there are, how each is done, and what was measured in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lpm.core.check import IntrinsicCheckError, check_intrinsic
from lpm.core.registry import configure, make
from lpm.experiments.experiment import Method, folder_name
from lpm.experiments.methods import parse_method
from lpm.experiments.training import run_training
from lpm.runs.machine import machine
from lpm.suite import two_arms
from lpm.suite.axes import Cell, Floats, Runs
from lpm.suite.worlds import VERSION, WORLDS
from lpm.sweeps import Job, Result, Tick

ARMS = "two-arms"
UPDATES = {"smoke": 30, "desk": 200}
"""Of the two arms."""
METRICS = ("cells", "noise_share", "success", "first_visits")


def conditions(scale: str) -> list[Cell]:
    """Every world and condition of a scale."""
    return [(name, c) for name, world in WORLDS.items() for c in world.experiment.default_conditions(scale)]


def check(name: str, method: Method) -> None:
    """Hold the bonus against the contract before anything is run; a ValueError names the rule that it breaks.

    A bonus or a field that does not exist breaks no rule, and has an error message of its own.
    """
    configure(method.bonus, **method.fields)
    try:
        check_intrinsic(partial(make, method.bonus, **method.fields))
    except IntrinsicCheckError as problem:
        raise ValueError(f"{name} breaks the contract of bonuses, {problem}") from None


def jobs_of(name: str, scale: str, seeds: Sequence[int], out: Path, worlds: Sequence[str] | None = None) -> list[Job]:
    """All runs of one method, or those in some worlds: conditions and, for a bonus, the two arms."""
    method, jobs = parse_method(name), []
    for seed in seeds:
        for world, condition in conditions(scale):
            if worlds and world not in worlds:
                continue
            job = WORLDS[world].experiment.opened([name]).job(scale, condition, name, seed, out)
            path = out / "runs" / world / condition / folder_name(name) / job.path.name
            settings = {"suite": VERSION, **job.settings}
            jobs.append(replace(job, name=f"{name}, {world} {condition}, seed {seed}", path=path, settings=settings))
        if method.policy == "learnt":
            arms = {"suite": VERSION, "experiment": ARMS, "method": method.bonus, "fields": dict(method.fields)}
            arms |= {"seed": seed, "updates": UPDATES[scale], "unseen": True}
            path = out / "runs" / ARMS / folder_name(name) / f"seed_{seed}.json"
            jobs.append(Job(f"{name}, two arms, seed {seed}", path, arms, UPDATES[scale]))
    return jobs


def run_job(task: Any, tick: Tick, scratch: Path) -> Result:
    """Do one of them, and say what it ran on."""
    done = two_arms.run_job(task, tick, scratch) if isinstance(task, dict) else run_training(task, tick, scratch)
    return {**done, "machine": machine()}


def measured(results: Sequence[Result], scale: str) -> Runs:
    """The runs of one method as numbers, in the worlds that are whole: all conditions, for as many seeds as in any.

    A world that is still being run is left out, and a seed that lacks a run in the others.
    """
    arms: dict[int, float] = {}
    found: dict[int, dict[Cell, dict[str, float]]] = {}
    for result in results:
        settings = result["settings"]
        if settings["experiment"] == ARMS:
            arms[settings["seed"]] = noise_reward(result["curves"])
            continue
        world = settings["experiment"].removeprefix("suite-")
        numbers = {"first_visits": np.nan, **WORLDS[world].experiment.scored(result)}
        numbers["bonus_share"] = result["time_shares"]["bonus"]
        numbers["seconds"] = result["seconds"]
        found.setdefault(settings["seed"], {})[world, settings["condition"]] = numbers
    worlds: dict[str, list[Cell]] = {}
    for cell in conditions(scale):
        worlds.setdefault(cell[0], []).append(cell)
    whole = {world: sum(set(cells) <= set(done) for done in found.values()) for world, cells in worlds.items()}
    most = max(whole.values())
    wanted = [cell for world, cells in worlds.items() if whole[world] == most > 0 for cell in cells]
    seeds = tuple(sorted(seed for seed, cells in found.items() if wanted and set(wanted) <= set(cells)))
    if not seeds:
        raise ValueError("expected at least one seed with a run in every condition of a world, got none")

    def column(cell: Cell, metric: str) -> Floats:
        return np.array([found[seed][cell][metric] for seed in seeds])

    cells = {cell: {m: column(cell, m) for m in (*METRICS, "bonus_share", "seconds")} for cell in wanted}
    # a sweep that is not finished may have the arms of some seeds only
    return Runs(seeds, cells, np.array([arms[seed] for seed in seeds] if set(seeds) <= set(arms) else []))


def noise_reward(curves: Mapping[str, Any]) -> float:
    """`two_arms.noise_share` of a seed, clipped to 0..1; 0 if the bonus is never above 0, or negative on noise."""
    starts = [two_arms.first_reward(curves[arm]) for arm in ("learnable", "noise")]
    share = two_arms.noise_share(float(np.mean(curves["noise"][-10:])), starts, curves["unseen"])
    return float(np.clip(np.nan_to_num(share), 0, 1))
