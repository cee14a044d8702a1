"""`lpm theory`: check the theorems and their limits by running them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lpm.commands.terminal import parse, terminal


@dataclass(frozen=True)
class Theory:
    """Check every statement about learning progress and information gain; write figures and a page."""

    out: Path = Path("runs/theory")
    """Folder for figures, numbers and the page."""
    quick: bool = False
    """Fewer random models and seeds: seconds instead of half a minute."""
    networks: bool = True
    """Also correlate the library's own bonuses with information gain (about a minute more)."""
    network_seeds: int = 8
    """Streams for those."""


def run(args: Sequence[str]) -> int:
    """Parse, check, print ✓ or ✗ with the numbers; exit 1 if a check fails."""
    options = parse(Theory, args)
    from lpm.storage.files import expect_own
    from lpm_paper.theory import run as check_everything

    expect_own(options.out, "results of lpm theory", "theory_*")

    extra = None
    if options.networks:
        import torch

        from lpm_paper.theory.networks import network_bonuses

        torch.set_num_threads(1)
        extra = network_bonuses
    console = terminal()
    with console.status("checking"):
        results = check_everything(options.out, options.quick, extra, options.network_seeds)
    section = ""
    for check in results:
        if check.section != section:
            section = check.section
            console.print(f"\n{section}", style="bold")
        numbers = f"{check.measured:.6g} {check.sign} {check.expected:.6g} (± {check.tolerance:.1g})"
        console.print(f"  {'✓' if check.ok else '✗'} {check.name}: {numbers}", style="" if check.ok else "red")
    failed = sum(not check.ok for check in results)
    console.print(f"\n{len(results) - failed} of {len(results)} hold. Figures and page: {options.out}")
    return 1 if failed else 0
