"""The runs of the suite: which there are, how each is done, and what was measured in them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lpm.core.check import IntrinsicCheckError, check_intrinsic
from lpm.core.registry import configure, make
from lpm.experiments.experiment import Method, folder_name, parse_method
from lpm.experiments.training import run_training
from lpm.runs.machine import machine
from lpm.suite import noise_table
from lpm.suite.axes import Cell, Runs
from lpm.suite.environments import ENVIRONMENTS, VERSION
from lpm.suite.scorecard import METRICS
from lpm.sweeps import Job, Result, Tick

NOISE_TABLE = "two-arms"
"""Folder and experiment of the runs that the noise table has too."""
UPDATES = {"smoke": 30, "short": 200}
"""Of them."""


def conditions(scale: str) -> list[Cell]:
    """Every environment and condition of a scale."""
    return [(name, c) for name, env in ENVIRONMENTS.items() for c in env.experiment.default_conditions(scale)]


def check(name: str, method: Method) -> None:
    """Hold the bonus against the contract before anything is run; a ValueError names the rule that it breaks.

    A bonus or a field that does not exist breaks no rule, and has an error message of its own.
    """
    configure(method.bonus, **method.fields)
    try:
        check_intrinsic(partial(make, method.bonus, **method.fields))
    except IntrinsicCheckError as problem:
        raise ValueError(f"{name} breaks the contract of bonuses, {problem}") from None


def jobs_of(name: str, scale: str, seeds: Sequence[int], out: Path, names: Sequence[str] | None = None) -> list[Job]:
    """All runs of one method, or those in some environments; for a bonus those of the noise table too."""
    method, jobs = parse_method(name), []
    for seed in seeds:
        for cell in conditions(scale):
            if names and cell[0] not in names:
                continue
            job = ENVIRONMENTS[cell[0]].experiment.opened([name]).job(scale, cell[1], name, seed, out)
            path = out.joinpath("runs", *cell, folder_name(name), job.path.name)
            settings = {"suite": VERSION, **job.settings}
            jobs.append(replace(job, name=f"{name}, {' '.join(cell)}, seed {seed}", path=path, settings=settings))
        if method.policy == "learnt":
            settings = {"suite": VERSION, "experiment": NOISE_TABLE, "method": method.bonus}
            settings |= {"fields": dict(method.fields), "seed": seed, "updates": UPDATES[scale]}
            path = out / "runs" / NOISE_TABLE / folder_name(name) / f"seed_{seed}.json"
            jobs.append(noise_table.job(f"{name}, noise table, seed {seed}", settings, path))
    return jobs


def run_job(task: Any, tick: Tick, scratch: Path) -> Result:
    """Do one of them, and say what it ran on."""
    done = noise_table.run_job(task, tick, scratch) if isinstance(task, dict) else run_training(task, tick, scratch)
    return {**done, "machine": machine()}


def measured(results: Sequence[Result], scale: str) -> Runs:
    """The runs of one method as numbers, in the environments that are whole: all conditions, as many seeds as in any.

    An environment that is still being run is left out, and a seed that lacks a run in the others.
    """
    rewards: dict[int, float] = {}
    found: dict[int, dict[Cell, dict[str, float]]] = {}
    for result in results:
        settings = result["settings"]
        if settings["experiment"] == NOISE_TABLE:
            rewards[settings["seed"]] = noise_reward(result["curves"])
            continue
        name = settings["experiment"].removeprefix("suite-")
        numbers = {"first_visits": np.nan, **ENVIRONMENTS[name].experiment.scored(result)}
        numbers |= {"bonus_share": result["time_shares"]["bonus"], "seconds": result["seconds"]}
        found.setdefault(settings["seed"], {})[name, settings["condition"]] = numbers
    cells_of = {name: [cell for cell in conditions(scale) if cell[0] == name] for name in ENVIRONMENTS}
    whole = {name: sum(set(cells) <= set(done) for done in found.values()) for name, cells in cells_of.items()}
    most = max(whole.values())
    wanted = [cell for name, cells in cells_of.items() if whole[name] == most > 0 for cell in cells]
    seeds = tuple(sorted(seed for seed, cells in found.items() if wanted and set(wanted) <= set(cells)))
    if not seeds:
        raise ValueError("expected at least one seed with a run in every condition of an environment, got none")
    measures = (*METRICS, "bonus_share", "seconds")
    cells = {cell: {m: np.array([found[seed][cell][m] for seed in seeds]) for m in measures} for cell in wanted}
    # a sweep that is not finished may have the noise table of some seeds only
    return Runs(seeds, cells, np.array([rewards[seed] for seed in seeds] if set(seeds) <= set(rewards) else []))


def noise_reward(curves: Mapping[str, Any]) -> float:
    """`noise_share` of a seed, clipped to 0..1; 0 if the bonus is never above 0, or negative on noise."""
    starts = [noise_table.first_reward(curves[kind]) for kind in ("learnable", "noise")]
    share = noise_table.noise_share(float(np.mean(curves["noise"][-10:])), starts, curves["unseen"])
    return float(np.clip(np.nan_to_num(share), 0, 1))
