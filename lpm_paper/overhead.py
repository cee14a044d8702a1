"""What each bonus costs (the paper's section on computational overhead): time and parameters beside PPO alone.

Two agents, one with the bonus and one without, take turns in one process, cycle by cycle, so that a busy machine slows
both; processor time is compared. A seed is one repetition of the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from lpm.experiments.evidence import Claim, Evidence, Score
from lpm.experiments.experiment import Experiment
from lpm.experiments.training import Settings, agent_config
from lpm.sweeps import Result, Tick
from lpm_paper import atari
from lpm_paper.methods import ALL

PLACE = "Section 5, computational overhead"
METHODS = {name: method for name, method in ALL.items() if name not in ("none", "random", "cell_counts", "lgn-first")}
VECTOR = {"num_envs": 8}
IMAGE = {"num_envs": 8, "rollout_steps": 16, "epochs": 3}
# the paper's agent and networks on fewer environments: the time of a step hardly depends on how many there are
ATARI = {"preset": "paper-atari", "num_envs": 8, "rollout_steps": 32}
SHAPES: Mapping[str, tuple[str, dict[str, Any], Settings]] = {
    "vector": ("lpm/MountainCar-v0", {}, VECTOR),
    "image": ("lpm/NMaze-v0", {"width": 84, "height": 84, "threads": 1}, IMAGE),
    "atari": ("lpm/Atari-v0", {"game": "ms_pacman", "num_threads": 1}, ATARI),
}
OWN_SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {"atari": atari.BONUS}
"""Condition to bonus name to settings instead of the defaults: Atari's are those of its paper size."""


@dataclass(frozen=True)
class Scale:
    """How large the measurement is."""

    cycles: int
    """Cycles of each agent that are timed."""
    seeds: int
    """Repetitions."""
    methods: tuple[str, ...] = tuple(METHODS)
    conditions: tuple[str, ...] | None = None


SCALES = {
    "smoke": Scale(1, 1, ("lpm", "rnd"), ("vector",)),
    "short": Scale(4, 3, conditions=("vector", "image")),
    "paper": Scale(20, 5),
}


def run(task: dict[str, Any], tick: Tick, scratch: Path) -> Result:
    """Time both agents in turn; nothing is kept in `scratch`, a repetition is short."""
    from lpm.agents import Agent
    from lpm.core.registry import configure
    from lpm.runs import RunConfig, build
    from lpm.runs.machine import run_versions

    env_id, env, chosen = SHAPES[task["condition"]]
    agent = agent_config("ppo", chosen)
    fields, bonus = task["fields"], task["bonus"]
    agents: dict[str, Agent] = {}
    for name, given in ((bonus, fields), ("none", {})):
        config = RunConfig(env_id, bonus=name, bonus_settings=configure(name, **given), seed=task["seed"],
                           env=env, agent=agent)  # fmt: skip
        agents[name] = build(config)
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    for cycle in range(1 + task["cycles"]):
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
            "steps_per_second": task["cycles"] * agent.num_envs * agent.rollout_steps / sum(seconds[bonus]),
        },
        "versions": run_versions(),
    }


class OverheadExperiment(Experiment):
    """Cost of every bonus, on vectors and on images."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """Kind of observations to label."""
        atari = "Ms Pacman, 84 × 84 × 4, the paper's agent"
        return {"vector": "MountainCar, 2 numbers", "image": "maze, 84 × 84 × 3", "atari": atari}

    def describe(self, common: dict[str, Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], int, None]:
        """One repetition."""
        cycles, method = SCALES[common["scale"]].cycles, self.methods[common["method"]]
        if method.bonus == "none":
            raise ValueError(f"overhead: expected a bonus, got {common['method']!r}, which has none")
        own = OWN_SETTINGS.get(common["condition"], {}).get(method.bonus, {})
        return {**common, "fields": {**own, **method.fields, **fields}, "cycles": cycles}, cycles, None

    run = staticmethod(run)

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """The table; there are no curves."""
        cells = self.found(results)
        scores = [
            Score(condition, metric, method, {r["settings"]["seed"]: r["scores"][metric] for r in runs})
            for (condition, method), runs in cells.items()
            for metric in self.metrics
        ]
        conditions = {condition: self.conditions[condition] for condition, _ in cells}
        settings = {"cycles": results[0]["settings"]["cycles"]}
        return self.show(results, conditions, scores=tuple(scores), settings=settings)


EXPERIMENT = OverheadExperiment(
    name="overhead",
    not_ranked="measures time",
    title="Overhead: what each bonus costs beside PPO alone",
    place=PLACE,
    about=(
        "Processor time of a whole training cycle (environment, policy, bonus, learning) with the bonus, as percent "
        "more than without it, measured in turn in one process. Every bonus has its default gradient steps, which "
        "differ: this is the price of the defaults, not of the ideas.",
        "The paper says in words that LPM costs about what AMA does, and that ensembles and EME cost more.",
    ),
    methods=METHODS,
    metrics={
        "overhead": "time beside PPO alone [%]",
        "parameters": "parameters",
        "steps_per_second": "steps per second of processor time",
    },
    sizes=SCALES,
    claims=tuple(
        Claim(f"LPM costs less than {METHODS[other].label} on images", PLACE, "image", "overhead", "lpm", other)
        for other in ("ensemble", "eme")
    ),
    lower_is_better=("overhead", "parameters"),
)
