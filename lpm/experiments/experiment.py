"""What every experiment offers: methods, conditions and sizes, a job for each run, and evidence from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from lpm.experiments.evidence import Evidence
from lpm.runs.config import nearest
from lpm.sweeps import Job, Result, Tick

# Name on the command line -> module; each module has an EXPERIMENT. Imported only when asked for.
EXPERIMENTS: Mapping[str, str] = {
    "mnist": "mnist",
    "maze": "maze",
    "mountain-car": "mountain_car",
    "atari": "atari",
    "montezuma": "montezuma",
    "lava": "lava",
    "overhead": "overhead",
    "ablation": "ablation",
}


@dataclass(frozen=True)
class Method:
    """A bonus with its settings in an experiment."""

    label: str
    """Shown in tables and figures."""
    bonus: str
    """Its registered name."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What differs from its defaults; "variant" names a set of settings."""


class Experiment(Protocol):
    """A table or figure of the paper."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def title(self) -> str:
        """In words."""

    @property
    def place(self) -> str:
        """The paper's table or figure."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """All methods, in the order of tables."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """Condition to label."""

    @property
    def metrics(self) -> Mapping[str, str]:
        """Metric to label, the main one first."""

    @property
    def scales(self) -> Sequence[str]:
        """Names of the sizes."""

    def default_methods(self, scale: str) -> tuple[str, ...]:
        """The methods that this size runs unless told otherwise."""

    def default_conditions(self, scale: str) -> tuple[str, ...]:
        """The conditions that this size runs unless told otherwise."""

    def default_seeds(self, scale: str) -> int:
        """The seeds that this size runs unless told otherwise."""

    def job(
        self, scale: str, condition: str, method: str, seed: int, out: Path, fields: Mapping[str, Any] | None = None
    ) -> Job:
        """One run; `fields` are added to the method's own (a search over settings)."""

    def run(self, settings: dict[str, Any], tick: Tick, scratch: Path) -> Result:
        """Do one run. Picklable: a plain function behind it."""

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """What results of one scale show."""


def load_experiment(name: str) -> Experiment:
    """An experiment by name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}{nearest(name, EXPERIMENTS)}")
    experiment: Experiment = import_module(f"lpm.experiments.{EXPERIMENTS[name]}").EXPERIMENT
    return experiment


def expect_known(kind: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    """Refuse an unknown method, condition or scale with the nearest known ones."""
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}{nearest(name, known)}")


def unknown_runs(results: Sequence[Result], experiment: Experiment) -> tuple[str, ...]:
    """A warning for each method or condition in results that the experiment does not have: they are not shown."""
    warnings = []
    for kind, known in (("method", experiment.methods), ("condition", experiment.conditions)):
        for name in dict.fromkeys(str(result["settings"][kind]) for result in results):
            if name not in known:
                count = sum(str(result["settings"][kind]) == name for result in results)
                warnings.append(f"{experiment.name}: {count} runs of the unknown {kind} {name!r} are left out")
    return tuple(warnings)
