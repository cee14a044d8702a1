"""Find and read result files. What cannot be trusted is named and left out, never averaged in."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lpm.storage.files import parse_json, read_regular
from lpm.sweeps import RESULT_FORMAT, Result

UNUSABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What a file raises that has the right outline and lacks what its reader needs."""
LARGEST = 1e100
"""Of the numbers in a result."""
OWN = ("seed", "method", "bonus", "fields", "policy")
"""Settings in which the runs of one condition may differ: the seed, and what makes the method."""


@dataclass(frozen=True)
class Run:
    """A result and the file that it came from."""

    path: Path
    result: Result

    @property
    def settings(self) -> dict[str, Any]:
        """Everything the run depends on."""
        settings: dict[str, Any] = self.result["settings"]
        return settings

    @property
    def cell(self) -> tuple[str, str]:
        """Condition and method."""
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


@dataclass
class Found:
    """Everything found in the folders."""

    groups: list[RunGroup]
    warnings: list[str]
    """About files that belong to no group."""
    files: int
    """How many result files were looked at."""


def read_results(
    folders: Sequence[Path], known: Collection[str], at_hand: Mapping[Path, Result] | None = None
) -> Found:
    """Read every `runs/**/seed_<k>.json` under the folders; group by experiment and scale.

    `known` are the experiments that can be shown; `at_hand` are results that need not be read again.
    """
    warnings: list[str] = []
    groups: dict[tuple[str, str], RunGroup] = {}
    unknown: dict[str, list[Run]] = defaultdict(list)
    paths = find(folders, warnings)
    for path in paths:
        try:
            run = Run(path, at_hand[path]) if at_hand and path in at_hand else read(path)
        except UNUSABLE as problem:
            warnings.append(f"{path}: skipped: {problem}")
            continue
        name = run.settings["experiment"]
        if name not in known:
            unknown[name].append(run)
            continue
        key = name, str(run.settings.get("scale", ""))
        groups.setdefault(key, RunGroup(*key)).runs.append(run)
    suite = [run for name in list(unknown) if "suite" in unknown[name][0].settings for run in unknown.pop(name)]
    if suite:
        warnings.append(f"{len(suite)} results of lpm suite are not on this page: it has a page a bonus, under cards/")
    for name, runs in sorted(unknown.items()):
        expected = f"expected one of {', '.join(sorted(known))}"
        warnings.append(f"{_paths(runs, 2)}: skipped: unknown experiment {name!r}; {expected}")
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
            warnings.append(
                f"{folder}: no result files in it: neither of lpm reproduce (runs/**/seed_<k>.json) nor of lpm train "
                "(config.toml)"
            )
        for path in here:
            found.setdefault(path.resolve(), path)
    return list(found.values())


def read(path: Path) -> Run:
    """One result file; a ValueError says what is wrong with it."""
    try:
        result = parse_json(read_regular(path))
    except (OSError, ValueError) as problem:
        raise ValueError(f"not a complete JSON file ({problem})") from None
    if not isinstance(result, dict) or not isinstance(result.get("settings"), dict):
        raise ValueError("expected a result with settings")
    version = result.get("format", RESULT_FORMAT)
    if version != RESULT_FORMAT:
        raise ValueError(f"expected format {RESULT_FORMAT}, got {version!r}: written by another version of lpm")
    settings = result["settings"]
    for key, kind in (("experiment", str), ("method", str), ("seed", int)):
        if not isinstance(settings.get(key), kind) or isinstance(settings.get(key), bool):
            raise ValueError(f"settings.{key}: expected {kind.__name__}, got {settings.get(key)!r}")
    for key in ("scale", "condition", "bonus", "policy"):
        if not isinstance(settings.get(key, ""), str):
            raise ValueError(f"settings.{key}: expected str, got {settings[key]!r}")
    versions = result.get("versions", {})
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        raise ValueError(f"versions: expected package to text, got {_short(versions)}")
    _check_scores(result.get("scores", {}))
    _check_curves(result.get("curves", {}))
    if not result.get("scores") and not result.get("curves"):
        raise ValueError("expected scores or curves, got neither")
    return Run(path, result)


def _check_scores(scores: Any) -> None:
    if not isinstance(scores, dict):
        raise ValueError(f"scores: expected metric to number, got {type(scores).__name__}")
    for metric, value in scores.items():
        if not _is_number(value):
            raise ValueError(f"scores.{metric}: expected a finite number, got {_short(value)}")


def _check_curves(curves: Any) -> None:
    if not isinstance(curves, dict) or not all(isinstance(values, list) for values in curves.values()):
        raise ValueError("curves: expected metric to list of numbers")
    if not curves:
        return
    if "step" not in curves:
        raise ValueError("curves: expected a list 'step'")
    for metric, values in curves.items():
        if len(values) != len(curves["step"]):
            raise ValueError(f"curves.{metric}: expected {len(curves['step'])} values as in step, got {len(values)}")
        for value in values:
            missing = value is None and metric != "step"
            if not missing and not _is_number(value):
                raise ValueError(f"curves.{metric}: expected finite numbers, got {_short(value)}")


def _is_number(value: Any) -> bool:
    """Finite, and small enough that squares and sums of it are too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def _drop_mixed(group: RunGroup) -> None:
    """Leave one configuration per method, then one set of common settings per condition."""
    cells: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in group.runs:
        cells[run.cell].append(run)
    conditions: dict[str, list[Run]] = defaultdict(list)
    for (condition, method), runs in cells.items():
        where = f"{_label(group, condition)}, {method}"
        conditions[condition] += _largest(group, runs, ("seed",), where)
    group.runs = [
        run
        for condition, runs in conditions.items()
        for run in _largest(group, runs, OWN, f"{_label(group, condition)}, common settings of all methods")
    ]


def _label(group: RunGroup, condition: str) -> str:
    return " ".join(part for part in (group.experiment, group.scale, condition) if part)


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
    differing = [run.settings for run in (kind[0] for kind in ranked)]
    keys = sorted(
        key
        for key in {key for settings in differing for key in settings} - set(ignored)
        if len({json.dumps(settings.get(key), sort_keys=True) for settings in differing}) > 1
    )
    shown = "; ".join(f"{key}: {' / '.join(_short(settings.get(key)) for settings in differing)}" for key in keys)
    counts = " / ".join(str(len(kind)) for kind in ranked)
    decision = f"the largest group is kept ({len(kept)} runs)" if kept else "no group is the largest: none is kept"
    left_out = [run for run in runs if not any(run is other for other in kept)]
    group.warnings.append(
        f"{where}: mixed configurations ({shown}; {counts} runs): {decision}; left out: {_paths(left_out)}"
    )
    return kept


def _drop_duplicates(group: RunGroup) -> None:
    seeds: dict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for run in group.runs:
        seeds[(*run.cell, run.settings["seed"])].append(run)
    group.runs = []
    for (condition, method, seed), runs in sorted(seeds.items()):
        same = all(_outcome(run) == _outcome(runs[0]) for run in runs)
        if same:
            group.runs.append(runs[0])
        if len(runs) > 1:
            what = "the same numbers, one is kept" if same else "different numbers, none is kept"
            group.warnings.append(
                f"{_label(group, condition)}, {method}, seed {seed}: {len(runs)} files with {what}: {_paths(runs)}"
            )


def _outcome(run: Run) -> list[Any]:
    return [run.result.get(key) for key in ("scores", "curves", "visits")]


def _note_versions(group: RunGroup) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for run in group.runs:
        versions = run.result.get("versions")
        for package, version in versions.items() if isinstance(versions, dict) else ():
            seen[str(package)].add(str(version))
    for package, versions in sorted(seen.items()):
        if len(versions) > 1:
            group.warnings.append(
                f"{_label(group, '')}: runs were made with different versions of {package}: "
                f"{', '.join(sorted(versions))}; all are used"
            )


def _short(value: Any, limit: int = 80) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _paths(runs: Sequence[Run], limit: int = 6) -> str:
    shown = ", ".join(str(run.path) for run in runs[:limit])
    return shown if len(runs) <= limit else f"{shown} and {len(runs) - limit} more"
