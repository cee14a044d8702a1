"""`lpm envs`: the noisy-TV environments, listed or rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape


@dataclass(frozen=True)
class Envs:
    """List the environments and their conditions, or draw a strip of pictures of each."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Only these."""
    render: Path | None = None
    """Write a PNG strip of each into this folder; frames that show noise have a red border."""


def run(args: Sequence[str]) -> int:
    """Parse, then list or draw."""
    options = tyro.cli(Envs, args=args, prog="lpm envs")
    from lpm.envs.catalogue import find_env, list_envs, render_strips

    console = Console(highlight=False)
    entries = [find_env(name) for name in options.names] if options.names else list(list_envs())
    if options.render is not None:
        for entry in entries:
            if entry.missing:
                console.print(f"[yellow]{entry.name} is not drawn:[/] {escape(entry.missing)}")
        for path in render_strips(options.render, [entry.name for entry in entries]):
            console.print(str(path))
        return 0
    for entry in entries:
        settings = "".join(f", {key}={value!r}" for key, value in entry.settings.items())
        lines = [escape(entry.what), f'[dim]gymnasium.make_vec("{entry.id}", num_envs=16{escape(settings)})[/]']
        if entry.missing:
            lines.append(f"[yellow]{escape(entry.missing)}[/]")
        # soft_wrap: a call that is broken in two cannot be copied
        console.print(
            f"[bold cyan]{escape(entry.name)}[/]", *(f"    {line}" for line in lines), sep="\n", soft_wrap=True
        )
    return 0
