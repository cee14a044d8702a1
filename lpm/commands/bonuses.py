"""`lpm bonuses`: what there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding


@dataclass(frozen=True)
class Bonuses:
    """List the bonuses: one line, the reference, the variants and the fields of each."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Show only these."""
    fields: bool = True
    """Show the fields that `lpm.make` accepts, with their defaults."""


def run(args: Sequence[str]) -> int:
    """Parse and print."""
    options = tyro.cli(Bonuses, args=args, prog="lpm bonuses")
    from lpm.core.registry import lookup, names

    console = Console(highlight=False)
    for name in options.names or names():
        entry = lookup(name)
        summary = (entry.bonus.__doc__ or "").strip().splitlines()[0]
        lines = [escape(summary)]
        if entry.bonus.reference:
            lines.append(f"[dim]{escape(entry.bonus.reference)}[/]")
        if entry.bonus.variants:
            lines.append(f"variants: {escape(', '.join(entry.bonus.variants))}")
        if options.fields:
            defaults = {f.name: entry.defaults.get(f.name, f.default) for f in dataclasses.fields(entry.bonus.Config)}
            shown = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
            lines.append(f"[dim]{escape(shown) or 'no fields'}[/]")
        console.print(f"[bold cyan]{escape(name)}[/]", Padding("\n".join(lines), (0, 0, 0, 4)), sep="\n")
    return 0
