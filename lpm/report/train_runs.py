"""Folders of `lpm train` as evidence: curves and last values of what was recorded, per bonus and environment."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lpm.core.registry import lookup
from lpm.experiments.evidence import Curve, Evidence, Score
from lpm.experiments.experiment import BASELINES
from lpm.report.results import LARGEST, UNUSABLE
from lpm.runs.config import RunConfig
from lpm.runs.folder import RunFolder
from lpm.runs.metrics import read_metrics
from lpm.storage.files import parse_json, read_regular

METRICS = {
    "coverage": ("coverage", "coverage (share of the cells)"),
    "cells": ("cells", "cells visited"),
    "success": ("success", "success, last 100 episodes"),
    "return": ("return", "return of the task"),
    "bonus": ("bonus/raw_mean", "raw bonus"),
    "noise_share": ("noise_share", "share of steps on the noise"),
}
"""Metric to its name in metrics.jsonl and its label. The first one that was recorded is the main one."""
POINTS = 100
ABOUT = "Runs of lpm train. Scores are the last values of each run; curves share the steps that all seeds reached."


@dataclass(frozen=True)
class TrainRun:
    """One folder."""

    path: Path
    config: RunConfig
    lines: list[dict[str, float]]

    @property
    def early_end(self) -> str:
        """How far it got and why it ended there, in words; empty if it has all of its steps."""
        reached = int(self.lines[-1]["step"]) if self.lines else 0
        if reached >= self.config.steps:
            return ""
        try:
            ended = parse_json(read_regular(RunFolder(self.path).result_file))
            why = f"{ended['status']}: {ended['error']}" if ended["error"] else ended["status"]
        except (OSError, *UNUSABLE):
            why = "still running, or killed"
        return f"ends at {reached:,} of {self.config.steps:,} steps ({why}); it is counted with what it had reached"


def find_train_runs(folders: Iterable[Path], warnings: list[str]) -> list[TrainRun]:
    """Every folder with a config.toml and a metrics.jsonl below the given ones; what cannot be read is named."""
    found: dict[Path, TrainRun] = {}
    for folder in folders:
        for file in sorted(folder.rglob("config.toml")) if folder.is_dir() else ():
            path = file.parent
            if any(part.startswith(".") for part in path.relative_to(folder).parts) or path.resolve() in found:
                continue  # hidden folders belong to unfinished sweeps
            try:
                lines = read_metrics(path / "metrics.jsonl")
                config = RunFolder(path).described
                if not all(_finite(line["step"]) for line in lines):
                    raise ValueError("expected a step in every line of metrics.jsonl")
            except FileNotFoundError:
                warnings.append(f"{path}: skipped: no metrics.jsonl yet")
            except (OSError, *UNUSABLE) as problem:
                warnings.append(f"{path}: skipped: not a readable run ({problem})")
            else:
                found[path.resolve()] = TrainRun(path, config, lines)
    return list(found.values())


def train_evidence(runs: Sequence[TrainRun]) -> list[Evidence]:
    """One piece of evidence per environment; its arguments are the conditions."""
    by_env: dict[str, list[TrainRun]] = defaultdict(list)
    for run in runs:
        by_env[run.config.env_id].append(run)
    return [_evidence(env_id, here) for env_id, here in sorted(by_env.items())]


def _evidence(env_id: str, runs: Sequence[TrainRun]) -> Evidence:
    warnings: list[str] = []
    groups: dict[tuple[str, str], dict[int, TrainRun]] = defaultdict(dict)
    methods = dict(zip([run.path for run in runs], _method_names([run.config for run in runs]), strict=True))
    for run in runs:
        seed, method = run.config.seed, methods[run.path]
        condition = ", ".join(f"{key}={value}" for key, value in sorted(run.config.env.items()))
        first = groups[condition, method].setdefault(seed, run)
        if first is not run:
            warnings.append(f"{run.path}: left out: seed {seed} of {method} is also in {first.path}")
        elif run.early_end:
            warnings.append(f"{run.path}: {run.early_end}")
    scores, curves = [], []
    for (condition, method), seeds in groups.items():
        for metric, (key, _) in METRICS.items():
            pairs = {s: [(x["step"], x[key]) for x in run.lines if _finite(x.get(key))] for s, run in seeds.items()}
            if known := {seed: found for seed, found in pairs.items() if found}:
                scores.append(Score(condition, metric, method, {seed: found[-1][1] for seed, found in known.items()}))
                curves.append(_curve(condition, metric, method, known))
    present = {score.metric for score in scores}
    # success stands after the return where nobody ever succeeds, or nothing counts as it
    never = not any(any(score.values.values()) for score in scores if score.metric == "success")
    order: dict[str, float] = {metric: place for place, metric in enumerate(METRICS)}
    order["success"] = order["return"] + 0.5 if never else order["success"]
    budgets = sorted({run.config.steps for run in runs})
    if len(budgets) > 1:
        shown = ", ".join(f"{steps:,}" for steps in budgets)
        said = f"runs have different budgets ({shown} steps): their last values are compared as they are"
        warnings.append(f"{env_id}: {said}")
    # as typed, but "none leads" would say that nobody does
    labels = {methods[run.path]: methods[run.path].replace("none", BASELINES["none"].label, 1)
              if run.config.bonus == "none" else methods[run.path] for run in runs}  # fmt: skip
    tables = [run.config.to_dict() for run in runs]
    return Evidence(
        name=env_id,
        title=f"{env_id}: your runs",
        place="lpm train",
        about=(ABOUT,),
        scale="",
        methods=labels,
        # as the bonus's class says; that of another package is not imported to make a page
        families={methods[run.path]: "other" if ":" in (bonus := run.config.bonus) else lookup(bonus).bonus.family
                  for run in runs},
        conditions={condition: condition for condition, _ in groups},
        metrics={metric: METRICS[metric][1] for metric in sorted(METRICS, key=order.__getitem__) if metric in present},
        scores=tuple(scores),
        curves=tuple(curves),
        lower_is_better=("noise_share",),
        unranked=("bonus",),
        settings={name: {k: v for k, v in table.items() if all(t.get(name, {}).get(k) == v for t in tables)}
                  for name, table in tables[0].items()},
        warnings=tuple(warnings),
    )  # fmt: skip


def _curve(condition: str, metric: str, method: str, known: dict[int, list[tuple[float, float]]]) -> Curve:
    """All seeds on common steps, from the latest first one to the earliest last one."""
    first = max(pairs[0][0] for pairs in known.values())
    last = max(min(pairs[-1][0] for pairs in known.values()), first)
    steps = np.unique(np.linspace(first, last, POINTS).round())
    runs = {seed: tuple(np.interp(steps, *np.transpose(pairs)).tolist()) for seed, pairs in known.items()}
    return Curve(condition, metric, method, tuple(steps.tolist()), runs)


def _method_names(configs: Sequence[RunConfig]) -> list[str]:
    """The bonus, and the settings in which runs of one bonus differ (seed, budget and logging aside)."""
    ignored = {f"run.{name}" for name in ("seed", "steps", "log_every", "threads", "device", "env_id", "bonus")}
    kept = [{k: v for k, v in c.flat().items() if k not in ignored and not k.startswith("env.")} for c in configs]
    flat = [{k.removeprefix("run."): v for k, v in settings.items()} for settings in kept]
    names = []
    for config, settings in zip(configs, flat, strict=True):
        same = [other for other, c in zip(flat, configs, strict=True) if c.bonus == config.bonus]
        keys = sorted({key for other in same for key in {*other, *settings} if other.get(key) != settings.get(key)})
        details = ", ".join(f"{key}={settings.get(key)}" for key in keys)
        names.append(f"{config.bonus}-{details}" if details else config.bonus)
    return names


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST
