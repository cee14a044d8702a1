"""From folders of results to a page: read, turn into evidence, analyse, write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lpm.experiments import papers
from lpm.experiments.evidence import Evidence, size_of
from lpm.experiments.experiment import load_experiment, parse_method
from lpm.report.analysis import Analysis, analyse
from lpm.report.html import write_page
from lpm.report.results import UNUSABLE, Run, RunGroup, read_results


@dataclass(frozen=True)
class Pages:
    """What was written, and what was left out."""

    page: Path | None
    """The page; None if there was nothing to show."""
    analyses: tuple[Analysis, ...]
    warnings: tuple[str, ...]
    """About files, runs and numbers, all of them."""
    size: int = 0
    """Of the page, in bytes."""
    figures: tuple[Path, ...] = ()
    """Exported figures and tables."""


def write_pages(folders: Sequence[Path], out: Path, failures: Sequence[str] = (), figures: Path | None = None) -> Pages:
    """Report all results of `lpm reproduce` and runs of `lpm train` under `folders`.

    `out` is the page, or a folder that gets an `index.html`. `failures` are runs that failed, in words. `figures` is
    a folder for figures and tables.
    """
    known = papers.installed()
    found = read_results(folders, known.experiments)
    warnings = [*(f"failed: {failure}" for failure in failures), *known.problems, *found.warnings]
    order = list(known.experiments)
    groups = sorted(found.groups, key=lambda g: (order.index(g.experiment), size_of(g.scale)))
    pieces: list[RunGroup | Evidence] = [*groups, *_of_train_runs(folders, warnings)]
    analyses = []
    for piece in pieces:
        try:
            analyses.append(analyse(_evidence(piece) if isinstance(piece, RunGroup) else piece))
        except UNUSABLE as problem:
            name, own = (piece.where(), piece.warnings) if isinstance(piece, RunGroup) else (piece.name, [])
            warnings += [*own, f"{name}: left out: {type(problem).__name__}: {problem}"]
    everything = (*warnings, *(w for a in analyses for w in a.warnings))
    if not analyses:
        return Pages(None, (), everything)
    page = out if out.suffix.lower() in (".html", ".htm") else out / "index.html"
    size = write_page(page, analyses, warnings)
    exported: list[Path] = []
    if figures is not None:
        from lpm.report.export import export

        exported = export(analyses, figures)
    return Pages(page, tuple(analyses), everything, size, tuple(exported))


def _of_train_runs(folders: Sequence[Path], warnings: list[str]) -> list[Evidence]:
    """What runs of `lpm train` show. Their configs need torch, which is loaded only if there are any."""
    if not any(next(folder.rglob("config.toml"), None) for folder in folders if folder.is_dir()):
        return []
    from lpm.report.train_runs import find_train_runs, train_evidence

    return train_evidence(find_train_runs(folders, warnings))


def _evidence(group: RunGroup) -> Evidence:
    if not group.runs:
        raise ValueError("no run is left")
    # names that `--methods` took beyond the experiment's own; a method that an older version had is none of them
    own_names = {run.settings["method"] for run in group.runs if _names_its_bonus(run.settings)}
    experiment = load_experiment(group.experiment).opened(sorted(own_names))
    try:
        evidence = experiment.evidence(group.results)
    except UNUSABLE:
        usable: list[Run] = []
        for run in group.runs:
            try:
                experiment.evidence([run.result])
            except UNUSABLE as problem:
                group.warnings.append(f"{run.path}: skipped: {type(problem).__name__}: {problem}")
            else:
                usable.append(run)
        if len(usable) in (0, len(group.runs)):
            raise
        group.runs = usable
        evidence = experiment.evidence(group.results)
    # of all methods: a claim names one without runs by its label too
    labels = {name: method.label for name, method in experiment.methods.items()}
    return replace(evidence, methods=labels, warnings=(*evidence.warnings, *group.warnings))


def _names_its_bonus(settings: Mapping[str, Any]) -> bool:
    try:
        return parse_method(settings["method"]).bonus == settings.get("bonus")
    except ValueError:
        return False
