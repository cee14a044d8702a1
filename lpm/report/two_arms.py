"""The table of the two-arm test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lpm.experiments.two_arms import ArmRow
from lpm.files import write_atomic
from lpm.report.text import markdown_table

HEADER = ("bonus", "learnable: start", "final", "final / start", "noise: start", "final", "final / start")


def table_rows(rows: Sequence[ArmRow]) -> list[tuple[str, ...]]:
    """The table as strings."""
    return [
        (
            row.method,
            *(
                text
                for arm in (0, 1)
                for text in (f"{row.start[arm]:.4g}", f"{row.final[arm]:.4g}", _ratio(row.ratio[arm]))
            ),
        )
        for row in rows
    ]


def write_table(rows: Sequence[tuple[str, ...]], path: Path) -> None:
    """Write the table as Markdown."""
    write_atomic(path, markdown_table(HEADER, rows).encode())


def _ratio(value: float) -> str:
    return "–" if value != value else f"{100 * value:.1f} %"
