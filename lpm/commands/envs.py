"""`lpm envs`: the noisy-TV environments, listed or rendered."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from lpm.commands.terminal import parse, terminal


@dataclass(frozen=True)
class Envs:
    """List the environments and their conditions, or draw a strip of pictures of each."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Only these."""
    render: Path | None = None
    """Write a PNG strip of each into this folder; frames that show noise have a red border."""


def run(args: Sequence[str]) -> int:
    """Parse, then list or draw."""
    options = parse(Envs, args)
    from lpm.envs.catalogue import find_env, list_envs, render_strips

    console = terminal()
    entries = [find_env(name) for name in options.names] if options.names else list(list_envs())
    if options.render is not None:
        for entry in entries:
            if entry.missing:
                console.print(f"{entry.name} is not drawn: {entry.missing}", style="yellow")
        for path in render_strips(options.render, [entry.name for entry in entries]):
            console.print(str(path))
        return 0
    for entry in entries:
        settings = "".join(f", {key}={value!r}" for key, value in entry.settings.items())
        console.print(entry.name, style="bold cyan")
        console.print(f"    {entry.what}")
        # module:id, because Gymnasium loads no plug-ins by itself: the line runs when it is pasted
        console.print(f'    gymnasium.make_vec("lpm.envs:{entry.id}", num_envs=16{settings})', style="dim")
        if entry.missing:
            console.print(f"    {entry.missing}", style="yellow")
    return 0
