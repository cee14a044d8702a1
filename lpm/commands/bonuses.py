"""`lpm bonuses`: what there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from lpm.commands.terminal import continued, parse, print_table, terminal


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
    options = parse(Bonuses, args)
    if options.noise_table:
        return _noise_table(options)
    from lpm.core.registry import lookup, names

    console = terminal()
    status = 0
    for name in options.names or names():
        try:
            entry = lookup(name)
        except ValueError as problem:
            if options.names:
                raise
            # another package's broken bonus must not hide the others
            console.print(name, style="bold red")
            console.print(f"    {problem}")
            status = 1
            continue
        lines = [Text(line) for line in (entry.bonus.__doc__ or "").strip().splitlines()[:1]]
        if entry.bonus.reference:
            lines.append(Text(entry.bonus.reference, style="dim"))
        if entry.bonus.variants:
            lines.append(Text(f"variants: {', '.join(entry.bonus.variants)}"))
        if options.fields:
            defaults = {f.name: entry.defaults.get(f.name, f.default) for f in dataclasses.fields(entry.bonus.Config)}
            shown = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
            lines.append(Text(shown or "no fields", style="dim"))
        console.print(name, style="bold cyan")
        console.print(Padding(Group(*lines), (0, 0, 0, 4)), soft_wrap=False)
    return status


def _noise_table(options: Bonuses) -> int:
    from lpm.core.registry import lookup, names
    from lpm.files import expect_own, write_atomic
    from lpm.report.text import markdown_table
    from lpm.suite import two_arms
    from lpm.sweeps import Job, run_jobs

    console = terminal()
    jobs = []
    for seed in range(options.seeds):
        for name in (lookup(name).name for name in options.names or names()):
            settings = {"experiment": "two_arms", "method": name, "seed": seed, "updates": options.updates}
            settings["unseen"] = True
            path = options.out / name / f"seed_{seed}.json"
            jobs.append(Job(f"{name}, seed {seed}", path, settings, options.updates))
    expect_own(options.out, "noise table", "*/seed_*.json", "table.md")
    with continued(options.out):
        results, failures = run_jobs(jobs, two_arms.run_job, workers=options.workers, console=console)
    rows = two_arms.table_rows(
        two_arms.summarise(two_arms.ArmCurves(**result["curves"]) for result in results.values())
    )
    write_atomic(options.out / "table.md", markdown_table(two_arms.HEADER, rows).encode())
    print_table(console, f"Two arms, {options.updates} updates, {options.seeds} seeds", two_arms.HEADER, rows)
    console.print(f"Per-seed files and table.md: {options.out}")
    return 1 if failures else 0
