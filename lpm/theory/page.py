"""Results as files: JSON for programs, one Markdown page for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from lpm.theory.result import CheckResult
from lpm.theory.stream import TARGETS, Correlation

_SIGN = {"equal": "=", "at least": "≥", "at most": "≤"}


def checks_json(checks: Sequence[CheckResult]) -> bytes:
    """Every check with its verdict."""
    rows = [{**asdict(check), "ok": check.ok} for check in checks]
    return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()


def streams_json(rows: Sequence[Correlation]) -> bytes:
    """Every rank correlation with its interval."""
    return (json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n").encode()


def stream_table(rows: Sequence[Correlation], stream: str, scope: str) -> list[str]:
    """A Markdown table: one line per bonus, one column per target."""
    chosen = {(r.bonus, r.target): r for r in rows if r.stream == stream and r.scope == scope}
    lines = ["| bonus | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for bonus in dict.fromkeys(bonus for bonus, _ in chosen):
        cells = [chosen[bonus, target] for target in TARGETS]
        lines.append(f"| {bonus} | " + " | ".join(f"{c.mean:+.2f} [{c.low:+.2f}, {c.high:+.2f}]" for c in cells) + " |")
    return lines


def results_page(checks: Sequence[CheckResult], rows: Sequence[Correlation]) -> bytes:
    """The numbers page that goes with `docs/theory.md`."""
    passed = sum(check.ok for check in checks)
    lines = [
        "# Theory: the numbers",
        "",
        "Written by `lpm theory`. The derivations are in [theory.md](theory.md).",
        "",
        f"{passed} of {len(checks)} checks hold.",
    ]
    for section in dict.fromkeys(check.section for check in checks):
        lines += [
            "",
            f"## {section}",
            "",
            "| | check | | expected | measured | note |",
            "|---|---|---|---|---|---|",
        ]
        for check in checks:
            if check.section == section:
                name, note = (text.replace("|", "\\|") for text in (check.name, check.note))
                lines.append(
                    f"| {'✓' if check.ok else '✗'} | {name} | {_SIGN[check.relation]} | {check.expected:.6g} "
                    f"| {check.measured:.6g} | {note} |"
                )
    if rows:
        lines += ["", "## Learning streams: rank correlation with exact information gain", ""]
        lines.append(f"Mean over {rows[0].seeds} independent streams, 95% bootstrap interval of the mean.")
        for stream in dict.fromkeys(row.stream for row in rows):
            for scope in dict.fromkeys(row.scope for row in rows):
                lines += ["", f"### {stream}, {scope}", "", *stream_table(rows, stream, scope)]
    return ("\n".join(lines) + "\n").encode()
