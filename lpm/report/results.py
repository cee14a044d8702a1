"""Find and read result files. What cannot be trusted is named and left out, never averaged in."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lpm.storage.files import parse_json, read_regular
from lpm.sweeps import RESULT_FORMAT, Result

UNUSABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What a file raises that has the right outline and lacks what its reader needs."""
LARGEST = 1e100
"""Of the numbers in a result: squares and sums of them are finite too."""
OWN = ("seed", "method", "bonus", "fields", "policy")
"""Settings in which the runs of one condition may differ: the seed, and what makes the method."""


@dataclass(frozen=True)
class Run:
    """A result and the file that it came from."""

    path: Path
    result: Result

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.result["settings"])

    @property
    def cell(self) -> tuple[str, str]:
        return self.settings.get("condition", ""), self.settings["method"]


@dataclass
class RunGroup:
    """The usable runs of one experiment at one scale."""

    experiment: str
    scale: str
    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        """What the experiment's module turns into evidence."""
        return [run.result for run in self.runs]

    def where(self, condition: str = "") -> str:
        """Experiment, scale and condition, in words."""
        return " ".join(part for part in (self.experiment, self.scale, condition) if part)


@dataclass
class Found:
    """Everything found in the folders."""

    groups: list[RunGroup]
    warnings: list[str]
    """About files that belong to no group."""
    files: int
    """How many result files were looked at."""


def read_results(folders: Sequence[Path], known: Collection[str]) -> Found:
    """Read every `runs/**/seed_<k>.json` under the folders; group by experiment and scale.

    `known` are the experiments that can be shown.
    """
    warnings: list[str] = []
    groups: dict[tuple[str, str], RunGroup] = {}
    unknown: dict[str, list[Run]] = defaultdict(list)
    paths = find(folders, warnings)
    for path in paths:
        try:
            run = Run(path, read(path))
        except UNUSABLE as problem:
            warnings.append(f"{path}: skipped: {problem}")
            continue
        name = run.settings["experiment"]
        if name not in known:
            unknown["" if "suite" in run.settings else name].append(run)
            continue
        key = name, run.settings.get("scale", "")
        groups.setdefault(key, RunGroup(*key)).runs.append(run)
    for name, runs in sorted(unknown.items()):
        if name:
            expected = f"expected one of {', '.join(sorted(known))}"
            warnings.append(f"{_paths(runs, 2)}: skipped: unknown experiment {name!r}; {expected}")
        else:
            warnings.append(f"{len(runs)} results of lpm suite are not on this page: each bonus has its scorecard")
    for group in groups.values():
        _drop_mixed(group)
        _drop_duplicates(group)
        _note_versions(group)
    return Found([groups[key] for key in sorted(groups)], warnings, len(paths))


def find(folders: Iterable[Path], warnings: list[str]) -> list[Path]:
    """Result files below the folders, each once, in a fixed order."""
    found: dict[Path, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            warnings.append(f"{folder}: skipped: not a folder")
            continue
        here = sorted(p for p in folder.rglob("seed_*.json") if "runs" in p.absolute().parts[:-1] and p.is_file())
        if not here and next(folder.rglob("config.toml"), None) is None:
            expected = "neither of lpm reproduce (runs/**/seed_<k>.json) nor of lpm train (config.toml)"
            warnings.append(f"{folder}: no result files in it: {expected}")
        for path in here:
            found.setdefault(path.resolve(), path)
    return list(found.values())


def read(path: Path) -> Result:
    """One result file; a ValueError says what is wrong with it."""
    try:
        result = parse_json(read_regular(path))
    except (OSError, ValueError) as problem:
        raise ValueError(f"not a complete JSON file ({problem})") from None
    if not isinstance(result, dict) or not isinstance(result.get("settings"), dict):
        raise ValueError("expected a result with settings")
    version, settings = result.get("format"), result["settings"]
    if version != RESULT_FORMAT:
        raise ValueError(f"expected format {RESULT_FORMAT}, got {version!r}: written by another version of lpm")
    given = {"scale": "", "condition": "", "bonus": "", **settings}
    for key in ("experiment", "scale", "condition", "method", "bonus", "seed"):
        kind = int if key == "seed" else str
        if type(given.get(key)) is not kind:
            raise ValueError(f"settings.{key}: expected {kind.__name__}, got {given.get(key)!r}")
    versions, scores, curves = (result.get(key, {}) for key in ("versions", "scores", "curves"))
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        raise ValueError(f"versions: expected package to text, got {_short(versions)}")
    if not isinstance(scores, dict):
        raise ValueError(f"scores: expected metric to number, got {type(scores).__name__}")
    for metric, value in scores.items():
        _expect_number(f"scores.{metric}", value)
    if not isinstance(curves, dict) or not all(isinstance(values, list) for values in curves.values()):
        raise ValueError("curves: expected metric to list of numbers")
    if not scores and not curves:
        raise ValueError("expected scores or curves, got neither")
    if curves and "step" not in curves:
        raise ValueError("curves: expected a list 'step'")
    for metric, values in curves.items():
        if len(values) != len(curves["step"]):
            raise ValueError(f"curves.{metric}: expected {len(curves['step'])} values as in step, got {len(values)}")
        for value in values:
            if value is not None or metric == "step":
                _expect_number(f"curves.{metric}", value)
    return result


def _expect_number(what: str, value: Any) -> None:
    if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{what}: expected a finite number, got {_short(value)}")


def _drop_mixed(group: RunGroup) -> None:
    """Leave one configuration per method, then one set of common settings per condition."""
    cells: dict[tuple[str, str], list[Run]] = defaultdict(list)
    conditions: dict[str, list[Run]] = defaultdict(list)
    for run in group.runs:
        cells[run.cell].append(run)
    for (condition, method), runs in cells.items():
        conditions[condition] += _largest(group, runs, ("seed",), f"{group.where(condition)}, {method}")
    group.runs = []
    for condition, runs in conditions.items():
        group.runs += _largest(group, runs, OWN, f"{group.where(condition)}, common settings of all methods")


def _largest(group: RunGroup, runs: list[Run], ignored: Collection[str], where: str) -> list[Run]:
    """The runs with the most common settings; none if two are equally common."""
    kinds: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        shared = {key: value for key, value in run.settings.items() if key not in ignored}
        kinds[json.dumps(shared, sort_keys=True)].append(run)
    if len(kinds) < 2:
        return runs
    ranked = sorted(kinds.values(), key=len, reverse=True)
    kept = ranked[0] if len(ranked[0]) > len(ranked[1]) else []
    examples = [kind[0].settings for kind in ranked]
    names = sorted({key for settings in examples for key in settings} - set(ignored))
    texts = {key: [_short(settings.get(key)) for settings in examples] for key in names}
    shown = "; ".join(f"{key}: {' / '.join(texts[key])}" for key in names if len(set(texts[key])) > 1)
    counts = " / ".join(str(len(kind)) for kind in ranked)
    decision = f"the largest group is kept ({len(kept)} runs)" if kept else "no group is the largest: none is kept"
    left_out = _paths([run for kind in ranked[bool(kept) :] for run in kind])
    group.warnings.append(f"{where}: mixed configurations ({shown}; {counts} runs): {decision}; left out: {left_out}")
    return kept


def _drop_duplicates(group: RunGroup) -> None:
    seeds: dict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for run in group.runs:
        seeds[(*run.cell, run.settings["seed"])].append(run)
    group.runs = []
    for (condition, method, seed), runs in sorted(seeds.items()):
        outcomes = [[run.result.get(key) for key in ("scores", "curves", "visits")] for run in runs]
        same = all(outcome == outcomes[0] for outcome in outcomes)
        if same:
            group.runs.append(runs[0])
        if len(runs) > 1:
            what = "the same numbers, one is kept" if same else "different numbers, none is kept"
            where = f"{group.where(condition)}, {method}, seed {seed}"
            group.warnings.append(f"{where}: {len(runs)} files with {what}: {_paths(runs)}")


def _note_versions(group: RunGroup) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for run in group.runs:
        for package, version in run.result.get("versions", {}).items():
            seen[package].add(version)
    for package, versions in sorted(seen.items()):
        if len(versions) > 1:
            made = f"runs were made with different versions of {package}: {', '.join(sorted(versions))}"
            group.warnings.append(f"{group.where()}: {made}; all are used")


def _short(value: Any, limit: int = 80) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _paths(runs: Sequence[Run], limit: int = 6) -> str:
    shown = ", ".join(str(run.path) for run in runs[:limit])
    return shown if len(runs) <= limit else f"{shown} and {len(runs) - limit} more"
