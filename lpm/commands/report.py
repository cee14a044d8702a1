"""`lpm report DIR…`: one page from results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from lpm.commands.terminal import parse, terminal


@dataclass(frozen=True)
class Report:
    """Make one self-contained page of all runs in the given folders: who leads, the paper's numbers beside ours."""

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Folders with results of `lpm reproduce` or runs of `lpm train`, or folders of such folders."""
    out: Path = Path("report.html")
    """The page."""
    figures: Path | None = None
    """Also write figures (PNG, SVG, PDF) and tables (CSV, LaTeX, Markdown) into this folder."""


def run(args: Sequence[str]) -> int:
    """Parse, write, say where the page is; 1 if there was nothing to show."""
    options = parse(Report, args)
    if not options.folders:
        raise ValueError("expected at least one folder with results, got none")
    from lpm.report.pages import write_pages
    from lpm.report.ranking import rank
    from lpm.report.text import count_of

    console = terminal()
    with console.status("reading and drawing"):
        written = write_pages(options.folders, options.out, figures=options.figures)
    for warning in written.warnings:
        console.print(f"warning {warning}", style="yellow")
    if written.page is None:
        console.print("nothing to show: no result could be read", style="red")
        return 1
    for analysis in written.analyses:
        found = {"numbers": analysis.verdicts, "claims": analysis.claim_verdicts}
        words = {what: ", ".join(f"{n} {verdict}" for verdict, n in sorted(found[what].items())) for what in found}
        told = "; ".join(f"{what}: {said}" for what, said in words.items() if said)
        scale = f" ({analysis.evidence.scale})" if analysis.evidence.scale else ""
        console.print(f"{analysis.evidence.name}{scale}: {told or count_of(len(analysis.methods), 'method')}")
        if analysis.evidence.unfinished:
            console.print(analysis.evidence.unfinished, style="yellow")
    ranking = rank(written.analyses)
    if ranking is not None:
        console.print(ranking.sentence, style="bold")
    if written.figures:
        console.print(f"Figures and tables: {options.figures} ({len(written.figures)} files)")
    console.print(f"Page: {written.page} ({written.size / 1e6:.1f} MB)")
    return 0
