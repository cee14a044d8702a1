"""`lpm bonuses`: what there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table


@dataclass(frozen=True)
class Bonuses:
    """List the bonuses: one line, the reference, the variants and the fields of each."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Show only these."""
    fields: bool = True
    """Show the fields that `lpm.make` accepts, with their defaults."""
    noise_table: bool = False
    """Instead, train each on one learnable and one noisy transition and show what it still pays for the noise."""
    seeds: int = 3
    """Seeds of the noise table."""
    updates: int = 200
    """Updates per run of the noise table."""
    workers: int = 2
    """Worker processes of the noise table."""
    out: Path = Path("runs/noise-table")
    """Folder of the noise table: a file per method and seed, and table.md. Rerun to continue."""


def run(args: Sequence[str]) -> int:
    """Parse and print."""
    options = tyro.cli(Bonuses, args=args, prog="lpm bonuses")
    if options.noise_table:
        return _noise_table(options)
    from lpm.core.registry import lookup, names

    console = Console(highlight=False)
    status = 0
    for name in options.names or names():
        try:
            entry = lookup(name)
        except ValueError as problem:
            if options.names:
                raise
            # another package's broken bonus must not hide the others
            console.print(f"[bold red]{escape(name)}[/]", Padding(escape(str(problem)), (0, 0, 0, 4)), sep="\n")
            status = 1
            continue
        lines = [escape(line) for line in (entry.bonus.__doc__ or "").strip().splitlines()[:1]]
        if entry.bonus.reference:
            lines.append(f"[dim]{escape(entry.bonus.reference)}[/]")
        if entry.bonus.variants:
            lines.append(f"variants: {escape(', '.join(entry.bonus.variants))}")
        if options.fields:
            defaults = {f.name: entry.defaults.get(f.name, f.default) for f in dataclasses.fields(entry.bonus.Config)}
            shown = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
            lines.append(f"[dim]{escape(shown) or 'no fields'}[/]")
        console.print(f"[bold cyan]{escape(name)}[/]", Padding("\n".join(lines), (0, 0, 0, 4)), sep="\n")
    return status


def _noise_table(options: Bonuses) -> int:
    from lpm.core.registry import lookup, names
    from lpm.experiments import two_arms
    from lpm.report.two_arms import HEADER, table_rows, write_table
    from lpm.sweeps import Job, run_jobs

    console = Console(highlight=False)
    chosen = [lookup(name).name for name in options.names or names()]
    jobs = []
    for seed in range(options.seeds):
        for name in chosen:
            settings = {"experiment": "two_arms", "method": name, "seed": seed, "updates": options.updates}
            jobs.append(
                Job(f"{name}, seed {seed}", options.out / name / f"seed_{seed}.json", settings, options.updates)
            )
    try:
        results, failures = run_jobs(jobs, two_arms.run_job, workers=options.workers, console=console)
    except KeyboardInterrupt:
        console.print(f"\nInterrupted. Finished runs are in {options.out}; the same command continues.")
        return 130
    rows = table_rows(two_arms.summarise(two_arms.ArmCurves(**result["curves"]) for result in results.values()))
    write_table(rows, options.out / "table.md")
    table = Table(*HEADER, title=f"Two arms, {options.updates} updates, {options.seeds} seeds")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"Per-seed files and table.md: {options.out}")
    return 1 if failures else 0
