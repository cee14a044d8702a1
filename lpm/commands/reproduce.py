"""`lpm reproduce NAME`: run an experiment of the paper and report it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper: every method and seed, then table, figure and page. Rerun to continue."""

    name: Annotated[Literal["mnist"], tyro.conf.Positional]
    """Which experiment: mnist (Figure 2)."""
    scale: Literal["smoke", "desk", "paper"] = "desk"
    """smoke: seconds; desk: this machine; paper: the paper's size (for mnist the same as desk)."""
    seeds: int | None = None
    """Seeds per method; the scale's own number if not given (5)."""
    methods: tuple[str, ...] | None = None
    """Methods to run; all of the experiment's if not given."""
    workers: int = 2
    """Worker processes, one torch thread each."""
    out: Path | None = None
    """Results folder; runs/NAME-SCALE if not given."""


def run(args: Sequence[str]) -> int:
    """Parse and run."""
    options = tyro.cli(Reproduce, args=args, prog="lpm reproduce")
    out = options.out or Path("runs") / f"mnist-{options.scale}"
    try:
        return reproduce_mnist(options, out)
    except KeyboardInterrupt:
        print(f"\nInterrupted. Finished runs are in {out}; the same command continues where this stopped.")
        return 130


def reproduce_mnist(options: Reproduce, out: Path) -> int:
    """Run what is missing, then write the report and print the table."""
    from lpm import data
    from lpm.experiments import mnist
    from lpm.sweeps import Job, run_jobs
    from lpm.report.mnist import HEADER, write_report

    console = Console()
    scale = mnist.scale_named(options.scale, options.seeds)
    methods = options.methods or tuple(mnist.METHODS)
    digits = data.mnist("train")
    data.mnist("test")  # every run evaluates on it: a bad file is an error of the command, not of each run
    jobs = []
    for seed in range(scale.seeds):
        for method in methods:
            settings = mnist.job_settings(method, seed, scale, digits)
            jobs.append(
                Job(f"{method}, seed {seed}", out / "runs" / method / f"seed_{seed}.json", settings, scale.updates)
            )
    console.print(f"Noisy MNIST, {options.scale}: {len(methods)} methods × {scale.seeds} seeds, into {out}")
    results, failures = run_jobs(jobs, mnist.run, workers=options.workers, console=console)
    if not results:
        console.print("[red]every run failed[/red]")
        return 1
    rows = write_report(results, out, failures)
    table = Table(*HEADER[:1], *HEADER[2:], title=f"Noisy MNIST, training digits ({results[0]['settings']['data']})")
    for method, pool, *cells in rows:
        if pool == "training":
            table.add_row(method, *cells)
    table.columns[1].no_wrap = True  # "determinis…" says less than a folded number
    console.print(table)
    # not wrapped: a path that is cut in two cannot be copied
    console.print(f"Results: {out}  (held-out digits are in the page and in table.md)", soft_wrap=True)
    console.print(f"Page: {out / 'index.html'}", soft_wrap=True)
    return 1 if failures else 0
