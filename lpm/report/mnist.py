"""Table, figure and page of the Noisy MNIST experiment."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lpm.experiments import mnist
from lpm.sweeps import Result
from lpm.files import write_atomic
from lpm.report.page import Page, markdown_table

HEADER = ("method", "digits", "transitions", "first bonus", "last bonus", "steps to settle", "paper")

WHY_TWO_POOLS = (
    "Each method is scored on new transitions of the training digits and, separately, of held-out digits. The two "
    "differ because the error model is fitted on errors made on training digits before they were trained on; on "
    "held-out digits the dynamics model's generalisation gap is added to the error and so taken off the bonus."
)
HOW_TO_READ = (
    "“Steps to settle” is the first evaluated step from which the absolute bonus stays below 5 % of its first non-zero "
    "value, as mean ± std over the seeds that settled, with their number when not all did. The “paper” column has the "
    "paper's ≈150 (LPM) and ≈400 (AMA)."
)


def table_rows(rows: Sequence[mnist.Row]) -> list[tuple[str, ...]]:
    """The table as strings."""
    return [
        (
            mnist.METHODS[row.method].label,
            "training" if row.pool == "training" else "held out",
            row.kind,
            _pm(row.first),
            _pm(row.final),
            _settled(row),
            f"≈{mnist.PAPER_STEPS[row.method]}" if row.method in mnist.PAPER_STEPS else "–",
        )
        for row in rows
    ]


def _pm(pair: tuple[float, float]) -> str:
    return f"{pair[0]:+.4f} ± {pair[1]:.4f}"


def _settled(row: mnist.Row) -> str:
    if row.settled is None:
        return "never"
    text = f"{row.settled[0]:.0f} ± {row.settled[1]:.0f}"
    return text if row.settled_seeds == row.seeds else f"{text} ({row.settled_seeds} of {row.seeds} seeds)"


def figure(results: Sequence[Result], pool: str = "training") -> bytes:
    """Bonus against updates, one panel per method, mean ± std over seeds; a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    present = {r["settings"]["method"] for r in results}
    methods = [m for m in mnist.METHODS if m in present]
    columns = min(3, len(methods))
    lines = -(-len(methods) // columns)
    canvas = Figure(figsize=(4.2 * columns, 3.0 * lines), layout="constrained")
    FigureCanvasAgg(canvas)
    axes: Any = canvas.subplots(lines, columns, squeeze=False)
    for axis in axes.flat[len(methods) :]:
        axis.set_visible(False)
    for axis, method in zip(axes.flat, methods, strict=False):
        for kind, colour in (("deterministic", "#1f77b4"), ("stochastic", "#d62728")):
            steps, mean, std = mnist.mean_curves(results, method, f"{pool}_{kind}")
            axis.plot(steps, mean, color=colour, label=kind, linewidth=1.5)
            axis.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)
        axis.axhline(0, color="0.5", linewidth=0.8)
        if method in mnist.PAPER_STEPS:
            axis.axvline(mnist.PAPER_STEPS[method], color="0.4", linestyle=":", linewidth=1)
        axis.set_title(mnist.METHODS[method].label, fontsize=10)
        axis.set_xlabel("updates")
        axis.set_ylabel("bonus")
    axes[0, 0].legend(frameon=False, fontsize=9)
    stream = io.BytesIO()
    canvas.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


def write_report(results: Sequence[Result], out: Path, failures: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Write `table.md`, `figure.png`, `figure_heldout.png` and `index.html` into `out`; return the table's rows."""
    rows = table_rows(mnist.summarise(results))
    pictures = {"figure.png": figure(results), "figure_heldout.png": figure(results, "heldout")}
    for name, png in pictures.items():
        write_atomic(out / name, png)
    markdown_table(HEADER, rows, out / "table.md")
    settings = results[0]["settings"]
    seeds = len({r["settings"]["seed"] for r in results})
    page = Page("Noisy MNIST: does the bonus fall for noise?")
    page.text(
        "A 0 is followed by itself (deterministic), a 1 by a random image of 2 to 9 (stochastic). A bonus that is not "
        "fooled by noise goes to zero on both, and no slower on the noise.",
        f"{settings['updates']} updates of 32 transitions, {seeds} seeds, evaluated every {settings['eval_every']} "
        f"updates from before the first one. Data: {settings['data']}.",
    )
    if failures:
        page.text("Runs that failed: " + "; ".join(failures))
    page.figure(
        pictures["figure.png"], "Training digits: mean and std over seeds; dotted: the paper's number of steps."
    )
    page.heading("Table")
    page.table(HEADER, rows)
    page.text(HOW_TO_READ, WHY_TWO_POOLS, note=True)
    page.figure(pictures["figure_heldout.png"], "Held-out digits.")
    page.write(out / "index.html")
    return rows
