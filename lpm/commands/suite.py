"""`lpm suite NAME`: the score card of a bonus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lpm.commands.terminal import continued, parse, print_table, terminal


@dataclass(frozen=True)
class Suite:
    """Score a bonus in every world under every family of noise: runs, then a card. Rerun to continue."""

    name: Annotated[str, tyro.conf.Positional]
    """A registered bonus, package.module:Class, or either with fields, as in lgn:regression=joint."""
    field: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A field of the bonus's config, as in lr=1e-3; may be given again."""
    compare: tuple[str, ...] = ()
    """Other bonuses to score beside it, spelt like NAME."""
    scale: Literal["smoke", "desk"] = "desk"
    """smoke: two minutes, to see that everything runs; desk: the suite."""
    seeds: int | None = None
    """Seeds per bonus; the scale's own number if not given."""
    first_seed: int = 0
    """The first of them; the references keep theirs."""
    worlds: tuple[str, ...] = ()
    """Run only these worlds now (car, rooms, onehot, maze, task); the card comes when all are done."""
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
    """Run what is missing, write a card for each bonus, and print them."""
    from lpm.experiments.experiment import expect_known, folder_name
    from lpm.experiments.methods import method_name, parse_fields, parse_method
    from lpm.files import expect_own, write_atomic
    from lpm.report.text import count_of
    from lpm.suite.axes import Runs
    from lpm.suite.card import make_card, summary
    from lpm.suite.run import check, conditions, jobs_of, measured, run_job
    from lpm.suite.worlds import REFERENCES, SEEDS, WORLDS
    from lpm.sweeps import Job, run_jobs

    console = terminal()
    fields = {name: value for text in options.field for name, value in parse_fields(text).items()}
    names = list(dict.fromkeys([method_name(options.name, **fields), *map(method_name, options.compare)]))
    count = SEEDS[options.scale] if options.seeds is None else options.seeds
    if count < 1 or options.first_seed < 0:
        raise ValueError(f"expected at least 1 seed, the first at least 0, got {count} from {options.first_seed}")
    seeds = range(options.first_seed, options.first_seed + count)
    for world in options.worlds:
        expect_known("world", world, WORLDS)
    expect_own(out, "results of lpm suite", "runs")
    methods = {name: parse_method(name) for name in names}
    for name, method in methods.items():
        check(name, method)
    reference_seeds = range(SEEDS[options.scale])
    jobs = {name: jobs_of(name, options.scale, reference_seeds, out, options.worlds) for name in REFERENCES}
    own = {name: jobs_of(name, options.scale, seeds, out, options.worlds) for name in names}
    console.print(
        f"Suite ({options.scale}): {', '.join(names)} and two references in "
        f"{count_of(len(conditions(options.scale)), 'condition')}, {count_of(count, 'seed')}, into {out}"
    )
    # a reference may be asked for by name as well, with seeds of its own or the same
    every = {job.path: job for listed in (*jobs.values(), *own.values()) for job in listed}
    results, failures = run_jobs(
        list(every.values()), run_job, workers=options.workers, ray=options.ray, console=console
    )

    if options.worlds:
        console.print(f"Runs: {out}; the same command without --worlds makes the cards")
        return 1 if failures else 0

    def runs_of(listed: Sequence[Job]) -> Runs:
        return measured([results[job.path] for job in listed if job.path in results], options.scale)

    references = [runs_of(jobs[name]) for name in REFERENCES]
    for name, method in methods.items():
        card = make_card(name, method, options.scale, runs_of(own[name]), *references)
        path = out / "cards" / f"{folder_name(name)}.json"
        write_atomic(path, (json.dumps(card, indent=1, allow_nan=False) + "\n").encode())
        print_table(console, f"{method.label}: 0 random actions, 1 oracle", ("axis", "score [95 %]"), summary(card))
        console.print(f"Card: {path}")
    return 1 if failures else 0
