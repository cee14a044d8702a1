"""What each bonus costs (the paper's section on computational overhead): time and parameters beside PPO alone.

Two agents, one with the bonus and one without, take turns in one process, cycle by cycle, so that a busy machine slows
both; processor time is compared. A seed is one repetition of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from lpm.agents import Agent, PPOConfig
from lpm.core.registry import configure
from lpm.experiments.evidence import Evidence, Score
from lpm.experiments.experiment import Method, expect_known, unknown_runs
from lpm.experiments.methods import ALL
from lpm.experiments.training import run_versions
from lpm.runs import RunConfig, build
from lpm.sweeps import Job, Result, Tick

METHODS = {name: method for name, method in ALL.items() if name not in ("none", "random")}
VECTOR = PPOConfig(num_envs=8)
IMAGE = PPOConfig(num_envs=8, rollout_steps=16, epochs=3)
SHAPES: Mapping[str, tuple[str, dict[str, Any], PPOConfig]] = {
    "vector": ("lpm/MountainCar-v0", {}, VECTOR),
    "image": ("lpm/NMaze-v0", {"width": 84, "height": 84, "threads": 1}, IMAGE),
}


@dataclass(frozen=True)
class Scale:
    """How large the measurement is."""

    cycles: int
    """Cycles of each agent that are timed."""
    seeds: int
    """Repetitions."""
    methods: tuple[str, ...] = tuple(METHODS)
    conditions: tuple[str, ...] = tuple(SHAPES)


SCALES = {
    "smoke": Scale(1, 1, ("lpm", "rnd"), ("vector",)),
    "desk": Scale(4, 3, conditions=("vector",)),
    "paper": Scale(20, 5),
}


def run(settings: dict[str, Any], tick: Tick, scratch: Path) -> Result:
    """Time both agents in turn; nothing is kept in `scratch`, a repetition is short."""
    env_id, env, agent = SHAPES[settings["condition"]]
    fields, bonus = settings["fields"], settings["bonus"]
    agents: dict[str, Agent] = {}
    for name, given in ((bonus, fields), ("none", {})):
        config = RunConfig(env_id, bonus=name, bonus_settings=configure(name, **given), seed=settings["seed"],
                           env=env, agent=agent)  # fmt: skip
        agents[name] = build(config)
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    for cycle in range(1 + settings["cycles"]):
        for name, agent_now in agents.items():
            start = process_time()
            agent_now.cycle()
            if cycle:  # the first one warms up
                seconds[name].append(process_time() - start)
        if cycle:
            tick(1)
    for agent_now in agents.values():
        agent_now.collector.envs.close()
    module = agents[bonus].bonus
    assert module is not None
    return {
        "scores": {
            "overhead": 100 * (float(np.sum(seconds[bonus])) / float(np.sum(seconds["none"])) - 1),
            "parameters": float(sum(p.numel() for p in module.parameters())),
            "steps_per_second": settings["cycles"] * agent.num_envs * agent.rollout_steps / sum(seconds[bonus]),
        },
        "versions": run_versions(),
    }


@dataclass(frozen=True)
class OverheadExperiment:
    """Cost of every bonus, on vectors and on images."""

    name: str = "overhead"
    title: str = "Overhead: what each bonus costs beside PPO alone"
    place: str = "Section 5, computational overhead"
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)
    conditions: Mapping[str, str] = field(
        default_factory=lambda: {"vector": "MountainCar, 2 numbers", "image": "maze, 84 × 84 × 3"}
    )
    metrics: Mapping[str, str] = field(
        default_factory=lambda: {
            "overhead": "time beside PPO alone [%]",
            "parameters": "parameters",
            "steps_per_second": "steps per second of processor time",
        }
    )

    @property
    def scales(self) -> tuple[str, ...]:
        """Names of the sizes."""
        return tuple(SCALES)

    def default_methods(self, scale: str) -> tuple[str, ...]:
        """The methods that this size runs unless told otherwise."""
        return SCALES[scale].methods

    def default_conditions(self, scale: str) -> tuple[str, ...]:
        """The conditions that this size runs unless told otherwise."""
        return SCALES[scale].conditions

    def default_seeds(self, scale: str) -> int:
        """The repetitions that this size runs unless told otherwise."""
        return SCALES[scale].seeds

    def job(
        self, scale: str, condition: str, method: str, seed: int, out: Path, fields: Mapping[str, Any] | None = None
    ) -> Job:
        """One repetition."""
        expect_known("scale", scale, SCALES)
        expect_known("condition", condition, self.conditions)
        expect_known("method", method, METHODS)
        settings = {
            "experiment": self.name,
            "scale": scale,
            "condition": condition,
            "method": method,
            "seed": seed,
            "bonus": METHODS[method].bonus,
            "fields": {**METHODS[method].fields, **(fields or {})},
            "cycles": SCALES[scale].cycles,
        }
        path = out / "runs" / condition / method / f"seed_{seed}.json"
        return Job(f"{method}, {condition}, repetition {seed}", path, settings, SCALES[scale].cycles)

    @staticmethod
    def run(task: dict[str, Any], tick: Tick, scratch: Path) -> Result:
        """One repetition."""
        return run(task, tick, scratch)

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """The table; there are no curves."""
        present = {(r["settings"]["condition"], r["settings"]["method"]) for r in results}
        scores = [
            Score(
                condition,
                metric,
                method,
                {
                    r["settings"]["seed"]: r["scores"][metric]
                    for r in results
                    if (r["settings"]["condition"], r["settings"]["method"]) == (condition, method)
                },
            )
            for condition in self.conditions
            for method in METHODS
            if (condition, method) in present
            for metric in self.metrics
        ]
        return Evidence(
            name=self.name,
            title=self.title,
            place=self.place,
            about=(
                "Processor time of a whole training cycle (environment, policy, bonus, learning) with the bonus, as "
                "percent more than without it, measured in turn in one process. Every bonus has its default gradient "
                "steps, which differ: this is the price of the defaults, not of the ideas.",
                "The paper says in words that LPM costs about what AMA does, and that ensembles and EME cost more.",
            ),
            scale=results[0]["settings"]["scale"],
            methods={name: METHODS[name].label for name in METHODS if any(name == m for _, m in present)},
            conditions={c: label for c, label in self.conditions.items() if any(c == key for key, _ in present)},
            metrics=self.metrics,
            scores=tuple(scores),
            settings={"cycles": results[0]["settings"]["cycles"]},
            versions=results[0]["versions"],
            lower_is_better=("overhead", "parameters"),
            warnings=unknown_runs(results, self),
        )


EXPERIMENT = OverheadExperiment()
