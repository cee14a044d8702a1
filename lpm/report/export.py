"""Everything on the page as files: scores and claims as CSV, tables as LaTeX and Markdown, and the figures."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lpm.report.analysis import Analysis, Cell, families
from lpm.report.families import looks
from lpm.report.figures import draw_curves, draw_heatmaps, draw_scores, encoded
from lpm.report.text import as_printed, markdown_table, plus_minus, slug, with_interval
from lpm.storage.files import write_atomic

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": r"$-$", "±": r"$\pm$", "–": "--", "\n": " ",
}  # fmt: skip


def export(analyses: Sequence[Analysis], folder: Path) -> list[Path]:
    """Write everything of every experiment into `folder`; return the files."""
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        written.append(folder / name)
        write_atomic(folder / name, content)

    for analysis in analyses:
        write(f"{analysis.name}-scores.csv", scores_csv(analysis).encode())
        if analysis.claims:
            write(f"{analysis.name}-claims.csv", claims_csv(analysis).encode())
        for metric in analysis.metrics("scores"):
            write(f"{analysis.name}-{slug(metric)}.tex", latex_table(analysis, metric).encode())
            write(f"{analysis.name}-{slug(metric)}.md", markdown_scores(analysis, metric).encode())
    for name, draw in drawings(analyses).items():
        for kind, content in encoded(draw()).items():
            write(f"{name}.{kind}", content)
    return written


def drawings(analyses: Sequence[Analysis]) -> dict[str, Callable[[], Any]]:
    """Name of every figure of every experiment to what draws it."""
    styles = looks((method for analysis in analyses for method in analysis.methods), families(analyses))
    found: dict[str, Callable[[], Any]] = {}
    for analysis in analyses:
        for metric in analysis.metrics("scores"):
            found[f"{analysis.name}-{slug(metric)}-scores"] = partial(draw_scores, analysis, metric, styles)
        for metric in analysis.metrics("curves"):
            found[f"{analysis.name}-{slug(metric)}-curves"] = partial(draw_curves, analysis, metric, styles)
        if analysis.maps:
            found[f"{analysis.name}-visits"] = partial(draw_heatmaps, analysis)
    return found


def scores_csv(analysis: Analysis) -> str:
    """One line per metric, condition and method, with all digits."""
    header = ("metric", "condition", "method", "seeds", "mean", "std", "mean_low", "mean_high", "iqm", "iqm_low",
              "iqm_high", "paper_mean", "paper_std", "difference_low", "difference_high", "verdict", "diverged",
              "values")  # fmt: skip
    rows = []
    for (metric, condition, method), cell in analysis.cells.items():
        summary, paper = cell.summary, cell.score.paper
        rows.append((
            metric, condition, method, summary.n, summary.mean, summary.std, *_ends(summary.mean_interval),
            summary.iqm, *_ends(summary.iqm_interval), paper and paper.value, paper and paper.std,
            *_ends(cell.difference), cell.verdict, len(cell.score.diverged),
            " ".join(f"{s}:{v:.10g}" for s, v in cell.score.values.items()),
        ))  # fmt: skip
    return _csv(header, rows)


def claims_csv(analysis: Analysis) -> str:
    """One line per claim."""
    header = ("claim", "place", "condition", "metric", "better", "worse", "verdict", "difference", "p", "p_holm",
              "paired", "exact", "p_better", "p_better_low", "p_better_high", "seeds_needed", "why")  # fmt: skip
    rows = []
    for result in analysis.claims:
        claim, test, chance = result.claim, result.comparison, result.improvement
        rows.append((
            claim.text, claim.place, claim.condition, claim.metric, claim.better, claim.worse, result.verdict,
            result.difference, test and test.p, result.corrected, test and test.paired, test and test.exact,
            chance and chance.value, *_ends(chance and chance.interval), result.needed, result.why,
        ))  # fmt: skip
    return _csv(header, rows)


def _ends(interval: Any) -> tuple[Any, Any]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    # a spreadsheet runs a text that starts like a formula
    formula = ("=", "+", "-", "@")
    writer.writerows([f"'{c}" if isinstance(c, str) and c.startswith(formula) else c for c in row] for row in rows)
    return stream.getvalue()


def latex(text: str) -> str:
    r"""Text as LaTeX source.

    >>> print(latex("50 % of a_b & ${x}"))
    50 \% of a\_b \& \$\{x\}
    """
    return "".join(_LATEX.get(character, character) for character in text)


def latex_table(analysis: Analysis, metric: str) -> str:
    """Methods × conditions, mean ± std, the best in bold, the paper's number beside ours. Needs booktabs."""
    table = analysis.table(metric)
    paper = any(cell.score.paper for cell in table.cells.values())
    width = 2 if paper else 1
    groups = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{latex(name)}}}" for name in table.conditions.values())
    heads = " & ".join(["ours", "paper"][:width] * len(table.conditions))
    lines = []
    for method, label in table.methods.items():
        row = [latex(label)]
        for condition in table.conditions:
            row += _latex_cells(table.cells.get((condition, method)), (condition, method) in table.best, paper)
        lines.append(" & ".join(row) + r" \\")
    seeds = [cell.summary.n for cell in table.cells.values()]
    count = " to ".join(dict.fromkeys((f"{min(seeds)}", f"{max(seeds)}")))
    label = analysis.metrics("scores")[metric]
    caption = f"{analysis.evidence.title}: {label}, mean ± sample standard deviation over {count} seeds."
    return rf"""\begin{{table}}
\centering
\caption{{{latex(caption)}}}
\begin{{tabular}}{{l{"c" * width * len(table.conditions)}}}
\toprule
 & {groups} \\
Method & {heads} \\
\midrule
{chr(10).join(lines)}
\bottomrule
\end{{tabular}}
\end{{table}}
"""


def markdown_scores(analysis: Analysis, metric: str) -> str:
    """Methods × conditions: mean ± std [95 % interval of the mean], the best bold, the paper's number in brackets."""
    table = analysis.table(metric)
    shown = table.moving

    def after(cell: Cell) -> str:
        paper = cell.score.paper
        return _ended(cell) + (f" (paper: {as_printed(paper.value, paper.std)}; {cell.verdict})" if paper else "")

    rows = [
        (label, *table.row(method, shown, lambda cell: with_interval(cell.summary), after))
        for method, label in table.methods.items()
    ]
    notes = [markdown_table(("method", *shown.values()), rows)]
    if still := [label for c, label in table.conditions.items() if c not in shown]:
        notes.append(f"Zero for all: {'; '.join(still)}.\n")
    if analysis.evidence.unfinished:
        notes.append(f"{analysis.evidence.unfinished}\n")
    return "\n".join(notes)


def _ended(cell: Cell) -> str:
    return f" ({len(cell.score.diverged)} of {cell.summary.n} diverged)" if cell.score.diverged else ""


def _latex_cells(cell: Cell | None, best: bool, paper: bool) -> list[str]:
    if cell is None:
        return ["--"] * (2 if paper else 1)
    ours = latex(plus_minus(cell.summary))
    shown = [(rf"\textbf{{{ours}}}" if best else ours) + _ended(cell)]
    if paper:
        number = cell.score.paper
        shown.append("--" if number is None else latex(as_printed(number.value, number.std)))
    return shown
