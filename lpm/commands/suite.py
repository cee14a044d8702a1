"""`lpm suite NAME`: the scorecard of a bonus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from lpm.commands.terminal import continued, parse, print_table, terminal

if TYPE_CHECKING:
    from lpm.suite.scorecard import Scorecard
    from lpm.sweeps import Job, Result


@dataclass(frozen=True)
class Suite:
    """Score a bonus in every environment under every kind of noise: runs, then a scorecard. Rerun to continue."""

    name: Annotated[str, tyro.conf.Positional]
    """A registered bonus, package.module:Class, or either with fields, as in lgn:gate=False."""
    compare: tuple[str, ...] = ()
    """Other bonuses to score beside it, spelt like NAME."""
    scale: Literal["smoke", "short"] = "short"
    """smoke: half a minute, to see that everything runs; short: the real suite, for two cores."""
    seeds: int | None = None
    """Seeds per bonus; the scale's own number if not given."""
    first_seed: int = 0
    """The first of them; the references keep theirs."""
    envs: tuple[str, ...] = ()
    """Run only these environments (car, rooms, onehot, maze, task): the scorecard says which are missing."""
    own_references: bool = False
    """Run both references here too (random actions, count of true cells), instead of using the package's numbers."""
    workers: int = 2
    """Worker processes, one torch thread each."""
    ray: str | None = None
    """Run on Ray instead: local, auto or the address of a cluster that shares the results folder."""
    out: Path | None = None
    """Results folder; runs/suite-SCALE if not given. Bonuses of several commands may share one."""


def run(args: Sequence[str]) -> int:
    """Parse and run."""
    options = parse(Suite, args)
    out = options.out or Path("runs") / f"suite-{options.scale}"
    with continued(out):
        return suite(options, out)


def suite(options: Suite, out: Path) -> int:
    """Run what is missing, write a scorecard for each bonus, and print them."""
    from lpm.experiments.experiment import expect_known, method_name, parse_method
    from lpm.report.text import count_of
    from lpm.storage.files import expect_own
    from lpm.suite.environments import ENVIRONMENTS, REFERENCES, SEEDS
    from lpm.suite.jobs import check, conditions, jobs_of, measured, run_job
    from lpm.suite.scorecard import (
        in_order,
        in_words,
        make_scorecard,
        packaged_references,
        packaged_scorecards,
        summary,
    )
    from lpm.sweeps import run_jobs

    console = terminal()
    names = list(dict.fromkeys(map(method_name, (options.name, *options.compare))))
    count = SEEDS[options.scale] if options.seeds is None else options.seeds
    if count < 1 or options.first_seed < 0:
        raise ValueError(f"expected at least 1 seed, the first at least 0, got {count} from {options.first_seed}")
    seeds = range(options.first_seed, options.first_seed + count)
    for name in options.envs:
        expect_known("environment", name, ENVIRONMENTS)
    wanted = options.envs or tuple(ENVIRONMENTS)
    expect_own(out, "results of lpm suite", "runs")
    methods = {name: parse_method(name) for name in names}
    for name, method in methods.items():
        check(name, method)
    needed = [cell for cell in conditions(options.scale) if cell[0] in wanted]
    references = {} if options.own_references else packaged_references(options.scale)
    if any(name not in references or not set(needed) <= set(references[name].cells) for name in REFERENCES):
        references = {}
    run_here = () if references else tuple(REFERENCES)
    jobs = {name: jobs_of(name, options.scale, range(SEEDS[options.scale]), out, wanted) for name in run_here}
    own = {name: jobs_of(name, options.scale, seeds, out, wanted) for name in names}
    counts = f"{count_of(len(needed), 'condition')}, {count_of(count, 'seed')}"
    too = "both references too, " if run_here else ""
    console.print(f"Suite ({options.scale}): {', '.join(names)} in {counts}, {too}into {out}")
    # a reference may be asked for by name as well, with seeds of its own or the same
    every = {job.path: job for listed in (*jobs.values(), *own.values()) for job in listed}
    given = list(every.values())
    results, failures = run_jobs(given, run_job, workers=options.workers, ray=options.ray, console=console)

    def found(listed: Sequence[Job]) -> list[Result]:
        return [results[job.path] for job in listed if job.path in results]

    references |= {name: measured(found(listed), options.scale) for name, listed in jobs.items()}
    random, cell_counts = (references[name] for name in REFERENCES)
    cards = []
    for name, method in methods.items():
        runs = measured(found(own[name]), options.scale)
        cards.append(make_scorecard(name, method, options.scale, runs, random, cell_counts))
    stored = [card for card in packaged_scorecards(options.scale) if card["name"] not in names]
    beside = [result for listed in jobs.values() for result in found(listed)]
    for card in cards:
        runs_of = [*found(own[card["name"]]), *beside]
        page = write_scorecard(out / "scorecards", card, in_order([*cards, *stored]), runs_of)
        title = f"{card['label']}: 0 random actions, 1 count of true cells"
        print_table(console, title, ("axis", "score [95 %]"), summary(card))
        console.print(in_words(card))
        console.print(f"Scorecard: {page}")
    return 1 if failures else 0


def write_scorecard(folder: Path, card: Scorecard, others: Sequence[Scorecard], results: Sequence[Result]) -> Path:
    """The scorecard as JSON and as a page, which is returned."""
    from lpm.experiments.experiment import folder_name
    from lpm.storage.files import write_atomic
    from lpm.suite.page import scorecard_page

    name = folder_name(card["name"])
    # a result of the noise table has no curve that the page shows
    runs = [result for result in results if "condition" in result["settings"]]
    write_atomic(folder / f"{name}.json", (json.dumps(card, indent=1, allow_nan=False) + "\n").encode())
    write_atomic(folder / f"{name}.html", scorecard_page(card, others, runs).encode())
    return folder / f"{name}.html"
