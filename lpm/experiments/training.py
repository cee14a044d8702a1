"""Experiments that train an agent: settings as data, one run as `lpm.runs.train`, and the evidence from its curves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Curve, Evidence, Heatmap, PaperNumber, Score
from lpm.experiments.experiment import Experiment
from lpm.sweeps import Result, Tick

if TYPE_CHECKING:  # a report must not load torch: what trains is imported where a run is described or done
    from lpm.agents.agent import Agent
    from lpm.runs import RunConfig
    from lpm.runs.config import AgentConfig, Algorithm

Settings = Mapping[str, Any]
"""Fields of a config that differ from its defaults; "preset" names a set of them to start from."""
PUBLISHED_MIXER: Settings = {"weight": 1.0, "scale": "bonus"}
"""What published work on bonuses does, unless an experiment says otherwise: the bonus is divided by its own deviation,
the task's reward is left as it is."""

POINTS = 100  # of a curve
CHECKPOINT_SECONDS = 120.0
MOST_PLACES = 10_000_000
"""Cells that a stored run may have: a file that names more is damaged."""
MOST_CELLS = 10_000
"""Of which visits are stored one by one. Montezuma has 1.5 million, of which a run sees a few thousand."""

# Metric -> key in metrics.jsonl.
RECORDED: Mapping[str, str] = {
    "cells": "cells",
    "noise_share": "noise_share",
    "bonus": "bonus/raw_mean",
    "first_visits": "bonus/first_visits",
    "return": "return",
    "success": "success",
    "episodes": "episodes",
    "entropy": "learn/entropy",
}


@dataclass(frozen=True)
class Scale:
    """How large an experiment is."""

    steps: int
    """Environment steps of one run."""
    seeds: int
    """Runs per method and condition."""
    agent: Settings
    """Of the learner."""
    methods: tuple[str, ...]
    """What is run unless told otherwise."""
    conditions: tuple[str, ...] | None = None
    """What is run unless told otherwise; None: all."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment beside the condition's."""
    bonus: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Bonus name to settings that this size gives to every method built on it, under the method's own."""
    mixer: Settings | None = None
    """How rewards are combined at this size; None: as in the experiment."""


@dataclass(frozen=True)
class Condition:
    """A variant of the environment, or of how rewards are combined in it."""

    label: str
    env: Mapping[str, Any] = field(default_factory=dict)
    mixer: Settings | None = None
    """How rewards are combined in this variant; None: as at this size."""
    env_id: str = ""
    """Gymnasium id of the environment; empty: the experiment's."""
    steps: int | None = None
    """The most steps that a run needs here, whatever the size; None: as many as the size has."""


Scores = Callable[[Mapping[str, list[float]], NDArray[np.int64]], dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class TrainingExperiment(Experiment):
    """An experiment whose runs are training runs that differ in bonus, condition and seed only."""

    env_id: str
    algo: Algorithm
    variants: Mapping[str, Condition]
    sizes: Mapping[str, Scale]
    score: Scores
    """The scores of a run, from its curves and its visits per cell. Metrics of `RECORDED` get curves as well."""
    mixer: Settings = field(default_factory=dict)
    """How rewards are combined."""
    paper: Mapping[tuple[str, str, str], PaperNumber] = field(default_factory=dict)
    """(condition, metric, method) to the paper's number."""
    grid: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    """Mean visits per cell as a picture: rows from the top, NaN where no agent can be."""
    derived: Callable[[Sequence[Score]], tuple[Score, ...]] | None = None
    """Scores computed from several conditions."""
    unreached: Mapping[str, float] = field(default_factory=dict)
    """Metric to what a run counts with that never had a value of it; inf: with all steps of its budget."""

    @property
    def conditions(self) -> Mapping[str, str]:
        return {name: variant.label for name, variant in self.variants.items()}

    def describe(self, common: dict[str, Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], int, RunConfig]:
        """A training run; what may differ between the runs of one condition stands beside its config."""
        from lpm.core.mixer import MixerConfig
        from lpm.core.registry import configure
        from lpm.runs import RunConfig

        size, chosen = self.sizes[common["scale"]], self.methods[common["method"]]
        variant = self.variants[common["condition"]]
        mixer = next(mixer for mixer in (variant.mixer, size.mixer, self.mixer) if mixer is not None)
        steps = size.steps if variant.steps is None else min(size.steps, variant.steps)
        config = RunConfig(
            variant.env_id or self.env_id,
            algo=self.algo,
            bonus=chosen.bonus,
            policy=chosen.policy,
            steps=steps,
            seed=common["seed"],
            log_every=max(steps // POINTS, 1),
            env={**size.env, **variant.env},
            agent=agent_config(self.algo, size.agent),
            bonus_settings=configure(chosen.bonus, **{**size.bonus.get(chosen.bonus, {}), **chosen.fields, **fields}),
            mixer=MixerConfig(**{**PUBLISHED_MIXER, **mixer}),
        )
        tables = config.to_dict()
        settings = {**common, "fields": tables.pop("bonus"), "config": tables}
        for own in ("seed", "bonus", "policy"):
            del tables["run"][own]
        if chosen.policy != "learnt":
            settings["policy"] = chosen.policy
        return settings, steps, config

    @staticmethod
    def run(task: RunConfig, tick: Tick, scratch: Path) -> Result:
        return run_training(task, tick, scratch)

    def preflight(self, scale: str, conditions: Sequence[str], method: str) -> None:
        from lpm.runs import make_envs

        for condition in conditions:
            make_envs(self.job(scale, condition, method, 0, Path()).task, 1).close()

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """Scores, curves and heat maps, in the order of methods and conditions."""
        cells = self.found(results)
        scores = []
        for (condition, method), found in cells.items():
            scored = {_seed(r): self.scored(r) for r in found}
            diverged = [_seed(r) for r in found if r.get("diverged")]
            for metric in self.metrics:
                values = {seed: numbers[metric] for seed, numbers in scored.items() if metric in numbers}
                if values:
                    paper = self.paper.get((condition, metric, method))
                    ended = tuple(seed for seed in diverged if seed in values)
                    scores.append(Score(condition, metric, method, values, paper, ended))
        if self.derived is not None:
            scores += self.derived(scores)
        settings = results[0]["settings"]
        config = settings["config"]
        runs = [result["settings"]["config"]["run"] for result in results]
        same = {name: value for name, value in config["run"].items() if all(run.get(name) == value for run in runs)}
        common = {**same, **config[self.algo], "mixer": config["mixer"]}
        common.pop("log_every", None)
        budgets = " to ".join(f"{steps:,}" for steps in sorted({f(run["steps"] for run in runs) for f in (min, max)}))
        steps = f"Here, at the {settings['scale']} scale: {budgets} steps a run."
        return self.show(
            results,
            {condition: self.conditions[condition] for condition, _ in cells},
            about=(*self.about, steps),
            scores=tuple(scores),
            curves=tuple(c for key, found in cells.items() for c in self._curves(*key, found)),
            heatmaps=tuple(m for key, found in cells.items() for m in self._heatmap(*key, found)),
            settings=common,
        )

    def scored(self, result: Result) -> dict[str, float]:
        """The scores of a stored run. Computed anew, so that a changed score needs no new runs."""
        own = result["settings"]
        missing = {metric: float(own["config"]["run"]["steps"]) if math.isinf(value) else value
                   for metric, value in self.unreached.items()}  # fmt: skip
        return {**missing, **self.score(result["curves"], visits_of(result))}

    def _curves(self, condition: str, method: str, found: Sequence[Result]) -> list[Curve]:
        curves = []
        for metric in self.metrics:
            chosen = {_seed(r): r["curves"] for r in found if known(r["curves"], metric)[0]}
            if not chosen:
                continue
            steps = max((curve["step"] for curve in chosen.values()), key=len)
            runs = {seed: tuple(np.interp(steps, *known(curve, metric))) for seed, curve in chosen.items()}
            curves.append(Curve(condition, metric, method, tuple(steps), runs))
        return curves

    def _heatmap(self, condition: str, method: str, found: Sequence[Result]) -> list[Heatmap]:
        visits = [r["visits"] for r in found if r.get("visits")]
        if self.grid is None or not visits:
            return []
        return [Heatmap(condition, method, self.grid(np.mean(np.asarray(visits, dtype=np.float64), axis=0)))]


def agent_config(algo: Algorithm, settings: Settings) -> AgentConfig:
    """The config of a learner: a preset, "published" unless it is named, with these fields changed."""
    from lpm.runs.config import PRESETS

    fields = dict(settings)
    preset = PRESETS[algo][fields.pop("preset", "published")]
    if "network" in fields:
        fields["network"] = replace(preset.network, **fields["network"])
    return replace(preset, **fields)


def run_training(config: RunConfig, tick: Tick, scratch: Path) -> Result:
    """Train (or go on with) one run in `scratch` and return its curves, visits and timing."""
    from lpm.core.monitor import NonFiniteError
    from lpm.runs import RunFolder, TrainOptions, read_metrics, train

    resume = (scratch / "config.toml").exists()
    done, started = 0, process_time()
    latest: Agent | None = None

    def progress(agent: Agent, metrics: Mapping[str, float]) -> None:
        nonlocal done, latest
        latest = agent
        tick(min(agent.steps, config.steps) - done)
        done = min(agent.steps, config.steps)

    options = TrainOptions(checkpoint_seconds=CHECKPOINT_SECONDS, tensorboard=False)
    try:
        outcome = train(config, scratch, options, resume=resume, log=lambda message: None, on_cycle=progress)
    except NonFiniteError as error:
        # the same settings end like this again: a result like any other, that says how far it got
        tick(config.steps - done)
        folder = RunFolder(scratch)
        ended = json.loads(folder.result_file.read_bytes())
        visits = np.zeros(0, dtype=np.int64) if latest is None else latest.collector.visits
        rows = read_metrics(folder.metrics_file)
        return {**_result(rows, visits, ended["seconds"], ended["time_shares"]), "diverged": str(error)}
    if outcome.status == "interrupted":
        raise SystemExit(f"interrupted at step {outcome.steps}; a checkpoint is in {scratch}")
    cpu = {} if resume else {"cpu_seconds": round(process_time() - started, 2)}  # of an interrupted run not known
    return {**_result(outcome.rows, outcome.visits, outcome.seconds, outcome.time_shares), **cpu}


def _result(
    rows: Sequence[Mapping[str, float]], visits: NDArray[np.int64], seconds: float, shares: Mapping[str, float]
) -> Result:
    from lpm.runs.machine import run_versions

    # None before there is a first value: a return needs a finished episode
    found = {metric: [row.get(key) for row in rows] for metric, key in RECORDED.items()}
    curves = {metric: [None if value is None else float(f"{value:.6g}") for value in values]
              for metric, values in found.items() if any(value is not None for value in values)}  # fmt: skip
    result: Result = {"curves": {"step": [row["step"] for row in rows], **curves}, "seconds": round(seconds, 2)}
    result |= {"time_shares": dict(shares), "versions": run_versions()}
    if 0 < len(visits) <= MOST_CELLS:
        result["visits"] = visits.tolist()
    elif len(visits):
        at = np.flatnonzero(visits)
        result["visited"] = {"of": len(visits), "cells": at.tolist(), "times": visits[at].tolist()}
    return result


def visits_of(result: Result) -> NDArray[np.int64]:
    """Visits per cell of a stored run, whichever way they are stored; empty if they are not."""
    few = result.get("visited")
    if few is None:
        return np.asarray(result.get("visits", ()), dtype=np.int64)
    if not 0 < few["of"] <= MOST_PLACES:
        raise ValueError(f"visited.of: expected 1 to {MOST_PLACES:,} cells, got {few['of']}")
    visits = np.zeros(few["of"], dtype=np.int64)
    visits[few["cells"]] = few["times"]
    return visits


def _seed(result: Result) -> int:
    return int(result["settings"]["seed"])


# ---- scores and pictures that several experiments share ---------------------------------------------------------
def known(curves: Mapping[str, Sequence[float | None]], metric: str) -> tuple[list[float], list[float]]:
    """Steps and values where there is a value; none if it was not recorded."""
    pairs = zip(curves["step"], curves.get(metric, ()), strict=metric in curves)
    both = [(step, value) for step, value in pairs if step is not None and value is not None]
    return [step for step, _ in both], [value for _, value in both]


def cells_seen(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """{"cells": how many were visited}; from the curve where visits are not stored, 0 if it did not begin."""
    return {"cells": float(np.count_nonzero(visits)), **({} if len(visits) else last(curves, "cells"))}


def last(curves: Mapping[str, list[float]], metric: str) -> dict[str, float]:
    """{metric: its last value}, or nothing if it was not recorded."""
    values = [value for value in curves.get(metric, ()) if value is not None]
    return {metric: float(values[-1])} if values else {}


def average(curves: Mapping[str, list[float]], metric: str) -> dict[str, float]:
    """{metric: its mean over the run}, or nothing if it was not recorded."""
    values = [value for value in curves.get(metric, ()) if value is not None]
    return {metric: float(np.mean(values))} if values else {}


def mountain_car_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Position to the right, velocity upwards."""
    return visits.reshape(10, 10).T[::-1]


def maze_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """x to the right, z downwards: the maze from above."""
    from lpm.envs.maze_geometry import GRID, maze_cells

    return np.where(maze_cells(), visits.reshape(GRID), np.nan).T


def floor_grid(free: NDArray[np.bool_], visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """A floor from above, indexed [y, x], whose free cells are numbered row by row."""
    floor = np.full(free.shape, np.nan)
    floor[free] = visits
    return floor


def square_grid(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    """A square floor from above, its cells numbered row by row."""
    side = int(np.sqrt(len(visits)))
    return visits.reshape(side, side)
