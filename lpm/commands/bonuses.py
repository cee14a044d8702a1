"""`lpm bonuses`: what there is."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from lpm.commands.terminal import continued, parse, print_table, terminal

if TYPE_CHECKING:
    from lpm.core.registry import Entry


@dataclass(frozen=True)
class Bonuses:
    """List the bonuses, the one to start with first, and what each is for. Those that are named are shown with their
    formula in words, reference, variants and fields."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Show only these."""
    fields: bool | None = None
    """Show all about each, its fields with defaults and meanings included; if not given, only of named bonuses."""
    noise_table: bool = False
    """Instead, train each on one learnable and one noisy transition and show what it still gives for the noise."""
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
    from lpm.report.families import FAMILIES, family_of, in_order
    from lpm.runs.config import RunConfig

    console = terminal()
    status = 0
    for name in options.names or in_order(names()):
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
        shown = bool(options.names) if options.fields is None else options.fields
        bonus, formula = entry.bonus, (entry.bonus.__doc__ or "").strip().partition("\n")[0]
        lines: list[Text | Padding] = [Text(entry.use or formula)]
        if entry.defaults:
            lines.append(Text(f"with {', '.join(f'{field}={value!r}' for field, value in entry.defaults.items())}"))
        if shown:
            lines += [Text(formula), *([Text(bonus.reference, style="dim")] if bonus.reference else [])]
            lines += [Text(f"variants: {', '.join(bonus.variants)}")] if bonus.variants else []
            fields = fields_of(entry)
            lines.append(Text("fields:" if fields else "no fields"))
            for field, default, meaning in fields:
                lines.append(Padding(Text(f"{field}={default}"), (0, 0, 0, 4)))
                lines += [Padding(Text(meaning, style="dim"), (0, 0, 0, 8))] if meaning else []
        family = FAMILIES[family_of(name)].label
        mark = "start with this one, the default of `lpm train`" if name == RunConfig.bonus else family
        console.print(f"{name}  ({mark})", style="bold cyan")
        console.print(Padding(Group(*lines), (0, 0, 0, 4)), soft_wrap=False)
    if not options.names and not options.fields:
        console.print("    Formula, source and settings of one: lpm bonuses NAME")
    return status


def fields_of(entry: Entry) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a bonus."""
    meanings, found = field_docs(entry.bonus.Config), []
    for item in dataclasses.fields(entry.bonus.Config):
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        meaning = " ".join(meanings.get(item.name, "").split())
        found.append((item.name, repr(entry.defaults.get(item.name, default)), meaning))
    return found


def field_docs(config: type) -> dict[str, str]:
    """The text below each field of a dataclass; those of a class without source are missing."""
    found: dict[str, str] = {}
    for cls in reversed(config.__mro__[:-1]):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        assert isinstance(tree, ast.ClassDef)
        for item, text in pairwise(tree.body):
            match item, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                    found[name] = inspect.cleandoc(meaning)
    return found


def _noise_table(options: Bonuses) -> int:
    from lpm.core.registry import lookup, names
    from lpm.report.text import markdown_table
    from lpm.storage.files import expect_own, write_atomic
    from lpm.suite import noise_table
    from lpm.sweeps import run_jobs

    console = terminal()
    jobs = []
    for seed in range(options.seeds):
        for name in (lookup(name).name for name in options.names or names()):
            settings = {"experiment": "two_arms", "method": name, "seed": seed, "updates": options.updates}
            jobs.append(noise_table.job(f"{name}, seed {seed}", settings, options.out / name / f"seed_{seed}.json"))
    expect_own(options.out, "noise table", "*/seed_*.json", "table.md")
    with continued(options.out):
        results, failures = run_jobs(jobs, noise_table.run_job, workers=options.workers, console=console)
    rows = noise_table.table_rows(noise_table.summarise(result["curves"] for result in results.values()))
    write_atomic(options.out / "table.md", markdown_table(noise_table.HEADER, rows).encode())
    print_table(console, f"{options.updates} updates, {options.seeds} seeds", noise_table.HEADER, rows)
    console.print(f"Per-seed files and table.md: {options.out}")
    return 1 if failures else 0
