"""Before a sweep: what every run needs is tried once, so that it fails at once and once."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from lpm.experiments.experiment import Experiment
from lpm.experiments.training import TrainingExperiment
from lpm.runs.build import make_envs


def preflight(experiment: Experiment, scale: str, conditions: Sequence[str], method: str, *packages: str) -> None:
    """Import packages that are used only later, and make the environment of every condition; raises what is missing."""
    for package in packages:
        import_module(package)
    if isinstance(experiment, TrainingExperiment):
        for condition in conditions:
            make_envs(experiment.job(scale, condition, method, 0, Path()).task, 1).close()
