"""Training runs in an environment of one's own, as much of an experiment as a search needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lpm.core.registry import configure
from lpm.experiments.evidence import Evidence, Score
from lpm.experiments.experiment import Experiment
from lpm.experiments.training import POINTS, known, last, run_training
from lpm.runs.config import PRESETS, RunConfig
from lpm.sweeps import Result, Tick

CONDITION = "own"


@dataclass(frozen=True)
class Budget:
    """How long a run is, and its learner."""

    steps: int
    """Environment steps of one run."""
    preset: str
    """Named settings of PPO."""
    seeds: int = 1
    methods: tuple[str, ...] = ()
    conditions: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class OwnEnvironment(Experiment):
    """PPO with a bonus in any environment that `lpm train` takes; `name` is its id."""

    sizes: Mapping[str, Budget]

    @property
    def conditions(self) -> Mapping[str, str]:
        """There is one."""
        return {CONDITION: self.name}

    def describe(self, common: dict[str, Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], int, RunConfig]:
        """A training run."""
        size, chosen = self.sizes[common["scale"]], self.methods[common["method"]]
        config = RunConfig(
            self.name,
            bonus=chosen.bonus,
            policy=chosen.policy,
            steps=size.steps,
            seed=common["seed"],
            log_every=max(size.steps // POINTS, 1),
            agent=PRESETS["ppo"][size.preset],
            bonus_settings=configure(chosen.bonus, **{**chosen.fields, **fields}),
        )
        return {**common, "config": config.to_dict()}, size.steps, config

    @staticmethod
    def run(task: RunConfig, tick: Tick, scratch: Path) -> Result:
        """One run."""
        return run_training(task, tick, scratch)

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """The mean return of the last tenth of the steps, and the cells that were visited."""
        scores = tuple(
            Score(condition, metric, method, values)
            for (condition, method), found in self.found(results).items()
            for metric in self.metrics
            if (values := {r["settings"]["seed"]: v for r in found if (v := _score(r["curves"], metric)) is not None})
        )
        return self.show(results, self.conditions, scores=scores)


def _score(curves: Mapping[str, list[float]], metric: str) -> float | None:
    if metric != "return" or metric not in curves:
        return last(curves, metric).get(metric)
    steps, values = known(curves, metric)
    return float(np.mean([value for step, value in zip(steps, values, strict=True) if step > 0.9 * steps[-1]]))
