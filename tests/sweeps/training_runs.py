"""Real training runs of noisy MountainCar that checkpoint often, as a sweep that tests may kill."""

import copy
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from lpm.experiments import training
from lpm.runs import RunConfig
from lpm.sweeps import Job, Result, Tick, run_jobs
from lpm_paper.mountain_car import EXPERIMENT

METHODS, SEEDS, STEPS = ("lpm",), (0, 1), 2048


def often(config: RunConfig, tick: Tick, scratch: Path) -> Result:
    training.CHECKPOINT_SECONDS = 0.05
    with (scratch.parents[3] / "log.txt").open("a") as log:
        log.write(f"{len(checkpoints(scratch))} checkpoints\n")
    return EXPERIMENT.run(config, tick, scratch)


def checkpoints(folder: Path) -> list[Path]:
    return list(folder.rglob("checkpoints/step-*.safetensors"))


def training_jobs(out: Path) -> list[Job]:
    jobs = []
    for method in METHODS:
        for seed in SEEDS:
            job = EXPERIMENT.job("smoke", "stochastic", method, seed, out)
            settings = copy.deepcopy(job.settings)
            settings["config"]["run"]["steps"] = STEPS
            jobs.append(replace(job, settings=settings, units=STEPS, task=replace(job.task, steps=STEPS)))
    return jobs


def main() -> None:
    out, ray = sys.argv[1:]
    address = None if ray == "none" else ray
    run_jobs(training_jobs(Path(out)), often, workers=2, console=Console(quiet=True), ray=address)


if __name__ == "__main__":
    import training_runs

    training_runs.main()
