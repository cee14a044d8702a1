"""`lpm reproduce NAME`: run an experiment and report it."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from lpm.commands.terminal import continued, parse, print_table, terminal
from lpm.experiments.papers import installed
from lpm.report.analysis import NOT_RUN, Analysis, Cell
from lpm.report.text import as_printed, count_of, plus_minus


@dataclass(frozen=True)
class Reproduce:
    """Repeat a stored experiment: every method, condition and seed, then tables and a page. Rerun to continue."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(help=f"One of {', '.join(installed().experiments)}.")]
    scale: Literal["smoke", "short", "long", "paper"] = "short"
    """The budget. smoke: seconds; short: for two cores; long: more steps, where it exists; paper: the paper's own."""
    seeds: int | None = None
    """Seeds per method and condition; the scale's own number if not given."""
    methods: tuple[str, ...] | None = None
    """Methods to run; the scale's own if not given. Beside the experiment's: any registered bonus,
    package.module:Class, or either with fields, as in lgn:gate=False."""
    conditions: tuple[str, ...] | None = None
    """Conditions to run; the scale's own if not given."""
    workers: int = 2
    """Worker processes, one torch thread each."""
    ray: str | None = None
    """Run on Ray instead: local, auto or the address of a cluster that shares the results folder."""
    out: Path | None = None
    """Results folder; runs/NAME-SCALE if not given."""


def run(args: Sequence[str]) -> int:
    """Parse and run."""
    options = parse(Reproduce, args)
    out = options.out or Path("runs") / f"{options.name}-{options.scale}"
    with continued(out):
        return reproduce(options, out)


def reproduce(options: Reproduce, out: Path) -> int:
    """Run what is missing, then write the report and print the main table."""
    from lpm.experiments.experiment import expect_known, load_experiment
    from lpm.report.pages import write_pages
    from lpm.report.ranking import in_words, rank
    from lpm.storage.files import expect_own
    from lpm.sweeps import run_jobs

    console = terminal()
    experiment = load_experiment(options.name)
    expect_known("scale", options.scale, experiment.sizes)
    methods = _given("methods", options.methods, experiment.default_methods(options.scale))
    experiment = experiment.opened(methods)
    conditions = _given("conditions", options.conditions, experiment.default_conditions(options.scale))
    seeds = experiment.sizes[options.scale].seeds if options.seeds is None else options.seeds
    if seeds < 1:
        raise ValueError(f"seeds: expected at least 1, got {seeds}")
    # seeds outermost: an interrupted sweep has whole tables of fewer seeds
    runs = product(range(seeds), conditions, methods)
    jobs = [experiment.job(options.scale, condition, method, seed, out) for seed, condition, method in runs]
    counts = (
        f"{count_of(len(methods), 'method')} × {count_of(len(conditions), 'condition')} × {count_of(seeds, 'seed')}"
    )
    console.print(f"{experiment.title} ({options.scale}): {counts}, into {out}")
    expect_own(out, "results of lpm reproduce", "runs")
    import_module("scipy")  # what is used only at the end is missed at once
    experiment.preflight(options.scale, conditions, methods[0])
    _, failures = run_jobs(jobs, experiment.run, workers=options.workers, ray=options.ray, console=console)
    pages = write_pages([out], out, failures)
    for analysis in pages.analyses:
        print_main_table(console, analysis)
        unfinished = analysis.evidence.unfinished
        if unfinished and not (options.methods or options.conditions or options.seeds):  # a part as asked for
            console.print(unfinished, style="yellow", markup=False)
    ranking = rank(pages.analyses)
    for line in in_words(ranking) if ranking else ():
        console.print(line, style="bold")
    for warning in pages.warnings:
        console.print(warning, style="yellow")
    console.print(f"Results: {out}")
    if pages.page is not None:
        console.print(f"Page: {pages.page}")
    return 1 if failures or not pages.analyses else 0


def _given(what: str, names: Sequence[str] | None, default: Sequence[str]) -> Sequence[str]:
    """What was asked for, each once; the default if nothing was."""
    if names is None:
        return default
    if not names:
        raise ValueError(f"{what}: expected at least one name after --{what}, got none")
    return tuple(dict.fromkeys(names))


def print_main_table(console: Console, analysis: Analysis) -> None:
    """The first metric of an experiment: a row a method, a column a condition, mean ± std over seeds."""
    metric, label = next(iter(analysis.evidence.metrics.items()))
    table = analysis.table(metric)
    title = f"{analysis.evidence.title}\n{label}, mean ± std over seeds (the paper's in brackets)"

    def shown(cell: Cell | None) -> str:
        if cell is None:
            return NOT_RUN
        paper = f" ({as_printed(cell.score.paper.value, None)})" if cell.score.paper else ""
        return f"{plus_minus(cell.summary)}{' (one seed)' if cell.summary.n == 1 else ''}{paper}"

    rows = [(name, *(shown(table.cells.get((c, m))) for c in table.conditions)) for m, name in analysis.methods.items()]
    print_table(console, title, ("method", *table.conditions.values()), rows)
