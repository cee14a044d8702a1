"""`lpm tune NAME`: search a method's fields over the runs of an experiment, or in an environment of one's own."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray

from lpm.commands.terminal import continued, parse, print_table, terminal
from lpm.core.mixer import MixerConfig
from lpm.core.registry import configure, lookup
from lpm.core.settings import check_types
from lpm.envs.third_party import find_spec
from lpm.experiments.experiment import Experiment, expect_known, load_experiment, parse_method
from lpm.experiments.training import Condition, Scale, TrainingExperiment, known, last
from lpm.report.seed_statistics import Summary, summarise
from lpm.runs.config import PRESETS, RunConfig
from lpm.storage.files import expect_own, to_toml, write_atomic
from lpm.sweeps import Job, run_jobs, shared_workers
from lpm.sweeps.fields import Field, parse_field
from lpm.sweeps.local_workers import WorkerPool
from lpm.sweeps.search import STUDY, Trial, search

MIXER = "mixer."
"""Before fields of the mixer."""
FRESH = 1_000
"""First of the seeds that the search never sees."""


@dataclass(frozen=True)
class Tune:
    """Search the weight and the settings of a bonus with Optuna, on an environment or in an experiment. Rerun to
    continue.

    The best settings are then run beside the default ones, on seeds that the search has not seen.
    """

    name: Annotated[str, tyro.conf.Positional]
    """The environment, as in `lpm train`, or the experiment, as in `lpm reproduce`."""
    method: str
    """The bonus, or a method of the experiment."""
    field: tyro.conf.UseAppendAction[tuple[str, ...]]
    """What to search; give it once per field: lr=1e-4:1e-2:log, epochs=1..4, form=log,linear,exp. The weight of the
    bonus is weight=0.03:3:log."""
    trials: int = 20
    """How many settings to try."""
    seeds: int = 2
    """Runs per trial."""
    fresh_seeds: int = 5
    """Runs of the best and of the method's own settings, on seeds that the search has not seen."""
    scale: Literal["smoke", "short", "long", "paper"] = "short"
    """The experiment's size."""
    condition: str | None = None
    """The condition to run; the scale's first one if not given."""
    metric: str | None = None
    """The score to improve; the experiment's first one if not given."""
    steps: int | None = None
    """Steps of a run in an environment, 100,000 if not given; an experiment has its own."""
    preset: str | None = None
    """Named settings of PPO in an environment, as in `lpm train`."""
    workers: int = 2
    """Worker processes, one torch thread each. Trials that fit beside each other run at the same time."""
    ray: str | None = None
    """Run on Ray instead: local, auto or the address of a cluster that shares the results folder."""
    seed: int = 0
    """Of the search."""
    out: Path | None = None
    """Results folder; runs/tune-NAME-METHOD if not given."""


def run(args: Sequence[str]) -> int:
    """Parse and run."""
    options = parse(Tune, args)
    name = re.sub(r"[^\w.-]+", "-", f"tune-{options.name}-{options.method}")
    out = options.out or Path("runs") / name
    with continued(out):
        return tune(options, _experiment(options), out)


def _experiment(options: Tune) -> Experiment:
    """The experiment of that name, or runs in the environment of that id."""
    if not re.search(r":|-v\d+$", options.name):
        for what in ("steps", "preset"):
            if getattr(options, what) is not None:
                raise ValueError(f"--{what}: expected none with an experiment, whose --scale has its own")
        return load_experiment(options.name)
    find_spec(options.name)
    preset = options.preset or "default"
    expect_known("preset", preset, PRESETS["ppo"])
    return TrainingExperiment(
        name=options.name,
        title=options.name,
        place="",
        about=(),
        env_id=options.name,
        algo="ppo",
        variants={"own": Condition(options.name)},
        methods={options.method: parse_method(options.method)},
        metrics={"return": "return, last tenth", "cells": "cells visited"},
        sizes={options.scale: Scale(100_000 if options.steps is None else options.steps, 1, {"preset": preset}, ())},
        score=_score,
        mixer=asdict(MixerConfig()),
    )


def _score(curves: Mapping[str, list[float]], visits: NDArray[np.int64]) -> dict[str, float]:
    """The mean return of the last tenth of the steps, and the cells that were visited."""
    steps, values = known(curves, "return")
    late = [value for step, value in zip(steps, values, strict=True) if step > 0.9 * steps[-1]]
    return {**last(curves, "cells"), **({"return": float(np.mean(late))} if late else {})}


def tune(options: Tune, experiment: Experiment, out: Path) -> int:
    """Search, compare the best settings with the method's own, write trials.csv and best.toml."""
    for what in ("trials", "seeds", "fresh_seeds", "workers"):
        if getattr(options, what) < 1:
            raise ValueError(f"{what}: expected at least 1, got {getattr(options, what)}")
    if options.seeds > FRESH:
        raise ValueError(f"seeds: expected at most {FRESH}, got {options.seeds}")
    expect_own(out, "search of lpm tune", "trials", "trials.csv", STUDY)
    with shared_workers(options.workers, options.ray) as pool:
        runs = _Runs(options, experiment, out, pool)
        settings = {"experiment": options.name, "method": options.method, "scale": options.scale,
                    "condition": runs.condition, "metric": runs.metric, "seeds": options.seeds}  # fmt: skip
        if isinstance(experiment, TrainingExperiment) and experiment.name == experiment.env_id:
            settings |= {"steps": experiment.sizes[options.scale].steps, "preset": options.preset or "default"}
        counts = f"{options.trials} settings of {options.method} × {options.seeds} seeds"
        where = f"{experiment.title} ({options.scale}, {runs.condition})"
        runs.console.print(f"{where}: {counts}, by {runs.metric}, into {out}")
        for package in ("optuna", "scipy"):
            import_module(package)
        experiment.preflight(options.scale, [runs.condition], options.method)
        batch = max(options.workers // options.seeds, 1)
        given = {"trials": options.trials, "batch": batch, "seed": options.seed}
        trials = search(out, runs.fields, settings, runs.evaluate, **given)
        done = [trial for trial in trials if trial.value is not None]
        if not done:
            runs.console.print("every trial failed", style="red")
            return 1
        best = max(done, key=lambda trial: trial.value or 0.0)
        compared = runs.compare({"best": best.fields, "own": {}})
        runs.write(settings, trials, best, compared)
        labels = {"best": f"trial {best.number}: {_words(best.fields)}", "own": "the method's own"}
        rows = [(labels[name], f"{s.mean:.4g}", _interval(s), str(s.n)) for name, s in compared.items()]
        header = ("settings", f"{runs.metric}, mean", "95 % interval", "seeds")
        print_table(runs.console, f"{options.method}, fresh seeds", header, rows)
        runs.console.print(f"Trials: {out / 'trials.csv'}\nBest: {out / 'best.toml'}")
        return 1 if runs.failures or len(compared) < 2 else 0


class _Runs:
    """The runs of a search, as jobs of the experiment."""

    def __init__(self, options: Tune, experiment: Experiment, out: Path, pool: WorkerPool | None) -> None:
        expect_known("scale", options.scale, experiment.sizes)
        expect_known("method", options.method, experiment.methods)
        self.condition = options.condition or experiment.default_conditions(options.scale)[0]
        self.metric = options.metric or next(iter(experiment.metrics))
        expect_known("condition", self.condition, experiment.conditions)
        expect_known("metric", self.metric, experiment.metrics)
        self.options, self.experiment, self.out, self.pool = options, experiment, out, pool
        self.fields = _fields(options, experiment)
        self.console = terminal()
        self.failures: list[str] = []
        self.sign = 1
        """-1 if less of the metric is better; known once there are results."""

    def evaluate(self, trials: Sequence[Trial]) -> list[float | None]:
        """Run trials side by side; the value of each, more is better."""
        seeds = range(self.options.seeds)
        found = self._run({f"trials/{trial.number:04d}": trial.fields for trial in trials}, seeds)
        values: list[float | None] = []
        for trial, scores in zip(trials, found.values(), strict=True):
            mean = float(np.mean(list(scores.values()))) if len(scores) == len(seeds) else None
            values.append(None if mean is None else self.sign * mean)
            shown = "failed" if mean is None else f"{self.metric} {mean:.4g}"
            self.console.print(f"trial {trial.number}: {_words(trial.fields)}: {shown}")
        return values

    def compare(self, candidates: Mapping[str, Mapping[str, Any]]) -> dict[str, Summary]:
        """Settings on fresh seeds; those without any finished run are left out."""
        found = self._run(candidates, range(FRESH, FRESH + self.options.fresh_seeds))
        rng = np.random.default_rng(self.options.seed)
        return {name: summarise(list(scores.values()), rng) for name, scores in found.items() if scores}

    def _run(self, candidates: Mapping[str, Mapping[str, Any]], seeds: range) -> dict[str, dict[int, float]]:
        """For every folder and its settings the score of every seed that finished."""
        jobs = {(folder, seed): self._job(folder, seed, own) for seed in seeds for folder, own in candidates.items()}
        how: dict[str, Any] = {"workers": self.options.workers, "ray": self.options.ray, "pool": self.pool}
        results, failures = run_jobs(list(jobs.values()), self.experiment.run, console=self.console, **how)
        self.failures += failures
        scores: dict[str, dict[int, float]] = {folder: {} for folder in candidates}
        for folder in candidates:
            found = [results[path] for seed in seeds if (path := jobs[folder, seed].path) in results]
            if not found:
                continue
            evidence = self.experiment.evidence(found)
            self.sign = -1 if self.metric in evidence.lower_is_better else 1
            here = {s.metric: s.values for s in evidence.scores if s.condition == self.condition}
            if self.metric not in here:
                there = ", ".join(sorted(here))
                raise ValueError(f"metric {self.metric!r} is not measured in {self.condition!r} alone; known: {there}")
            scores[folder] = {seed: value for seed, value in here[self.metric].items() if np.isfinite(value)}
        return scores

    def _job(self, folder: str, seed: int, given: Mapping[str, Any]) -> Job:
        """A run with the bonus's and the mixer's fields."""
        own = {name: value for name, value in given.items() if not name.startswith(MIXER)}
        method, scale = self.options.method, self.options.scale
        job = self.experiment.job(scale, self.condition, method, seed, self.out / folder, own)
        if len(own) == len(given):
            return job
        if not isinstance(job.task, RunConfig):
            mixed = next(name for name in given if name not in own)
            raise ValueError(f"--field {mixed}: {self.experiment.name} trains no agent, so nothing is mixed")
        task = replace(job.task, mixer=_mixed(job.task.mixer, given))
        settings = {**job.settings, "config": {**job.settings["config"], "mixer": task.to_dict()["mixer"]}}
        return replace(job, settings=settings, task=task)

    def write(
        self, settings: Mapping[str, Any], trials: Sequence[Trial], best: Trial, compared: Mapping[str, Summary]
    ) -> None:
        """Every trial as a row of trials.csv; the best one and its scores on fresh seeds as best.toml."""
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["trial", *best.fields, self.metric, "folder"])
        for trial in trials:
            value = "" if trial.value is None else self.sign * trial.value
            writer.writerow([trial.number, *trial.fields.values(), value, f"trials/{trial.number:04d}"])
        write_atomic(self.out / "trials.csv", table.getvalue().encode())
        whole = {"search": {**settings, "trials": len(trials), "best": best.number}, "fields": dict(best.fields)}
        for name, summary in compared.items():
            ends = asdict(summary.mean_interval) if summary.mean_interval else {"low": None, "high": None}
            whole[f"score_{name}"] = {"seeds": summary.n, "mean": summary.mean, "std": summary.std, **ends}
        write_atomic(self.out / "best.toml", to_toml(whole).encode())


def _fields(options: Tune, experiment: Experiment) -> list[Field]:
    if not options.field:
        raise ValueError("--field: expected at least one field to search, such as weight=0.03:3:log, got none")
    found = [parse_field(text) for text in options.field]
    names = [field.name for field in found]
    if len(set(names)) < len(names):
        raise ValueError(f"--field: expected each field once, got {', '.join(names)}")
    chosen = experiment.methods[options.method]
    if "weight" not in {item.name for item in fields(lookup(chosen.bonus).bonus.Config)}:
        found = [replace(field, name=f"{MIXER}weight") if field.name == "weight" else field for field in found]
    for field in found:
        for value in field.examples:  # an unknown field or a value of another type is an error of the command
            if field.name.startswith(MIXER):
                _mixed(MixerConfig(), {field.name: value})
            else:
                configure(chosen.bonus, **{**chosen.fields, field.name: value})
    return found


def _mixed(config: MixerConfig, given: Mapping[str, Any]) -> MixerConfig:
    """A mixer with the fields that are its own."""
    own = {name.removeprefix(MIXER): value for name, value in given.items() if name.startswith(MIXER)}
    for name in own:
        expect_known("field of the mixer", name, [item.name for item in fields(MixerConfig)])
    check_types(MixerConfig, own)
    return replace(config, **own)


def _words(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{n}={format(value, '.4g') if isinstance(value, float) else value}" for n, value in given.items())


def _interval(summary: Summary) -> str:
    found = summary.mean_interval
    return "– (one seed)" if found is None else f"{found.low:.4g} to {found.high:.4g}"
