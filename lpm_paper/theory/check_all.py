"""One call that does everything: checks, streams, figures, files."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lpm.report.text import markdown_table
from lpm.storage.files import write_atomic
from lpm_paper.theory import checks_algorithm as algorithm
from lpm_paper.theory import checks_theorems as theorems
from lpm_paper.theory import theory_figures as figures
from lpm_paper.theory.exact_bonuses import exact_factories
from lpm_paper.theory.result import FULL, QUICK, CheckResult, Effort
from lpm_paper.theory.stream import FIVE_DIM, ONE_DIM, TARGETS, BonusFactory, Correlation, StreamConfig, measure

ExtraBonuses = Callable[[StreamConfig], Mapping[str, BonusFactory]]
"""Given a stream, more bonuses to correlate on it; networks come in here."""


def all_checks(effort: Effort = FULL) -> list[CheckResult]:
    """Every named check with its expected and measured value, in reading order."""
    return [
        *theorems.check_models(effort), *theorems.check_theorem1(effort), *theorems.check_surrogate(),
        *theorems.check_theorem2(effort), *theorems.check_limits(),
        *algorithm.check_noise(effort), *algorithm.check_transient(), *algorithm.check_queue(),
        *algorithm.check_mismatch(effort), *algorithm.check_single_samples(),
    ]  # fmt: skip


def run_streams(seeds: int, extra: ExtraBonuses | None = None, extra_seeds: int = 8) -> list[Correlation]:
    """Rank correlations on the 1-D and the 5-D stream; `extra` bonuses on the first `extra_seeds` streams only."""
    rows: list[Correlation] = []
    for config in (ONE_DIM, FIVE_DIM):
        rows += measure(config, exact_factories(config.dim), seeds)
        if extra is not None:
            rows += measure(config, extra(config), extra_seeds)
    return rows


def run(out: Path, quick: bool = False, extra: ExtraBonuses | None = None, extra_seeds: int = 8) -> list[CheckResult]:
    """Check the theory and write `theory_checks.json`, `theory_streams.json`, `theory_results.md` and figures to `out`.

    `quick` uses smaller samples for every check and stream. `extra` adds bonuses to the streams.
    """
    effort = QUICK if quick else FULL
    checks = all_checks(effort)
    rows = run_streams(effort.seeds, extra, extra_seeds)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "theory_checks.json", _json([{**asdict(check), "ok": check.ok} for check in checks]))
    write_atomic(out / "theory_streams.json", _json([asdict(row) for row in rows]))
    write_atomic(out / "theory_results.md", results_page(checks, rows))
    figures.draw_all(out, effort.seeds)
    return checks


def _json(rows: list[dict[str, Any]]) -> bytes:
    return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()


def stream_table(rows: Sequence[Correlation], stream: str, scope: str) -> str:
    """One line per bonus with its number of streams, one column per target."""
    chosen = {(r.bonus, r.target): r for r in rows if r.stream == stream and r.scope == scope}
    lines = []
    for bonus in dict.fromkeys(bonus for bonus, _ in chosen):
        cells = [chosen[bonus, target] for target in TARGETS]
        shown = (f"{c.mean:+.2f} [{c.low:+.2f}, {c.high:+.2f}]" for c in cells)
        lines.append((bonus, f"{cells[0].seeds}", *shown))
    return markdown_table(("bonus", "streams", *TARGETS), lines)


def results_page(checks: Sequence[CheckResult], rows: Sequence[Correlation]) -> bytes:
    """The numbers page that goes with `docs/theory.md`."""
    parts = [
        "# Theory: the numbers\n",
        "Written by `lpm theory`. The derivations are in [theory.md](theory.md).\n",
        f"{sum(check.ok for check in checks)} of {len(checks)} checks hold.\n",
    ]
    for section in dict.fromkeys(check.section for check in checks):
        table = [("✓" if c.ok else "✗", c.name, c.sign, f"{c.expected:.6g}", f"{c.measured:.6g}", c.note)
                 for c in checks if c.section == section]  # fmt: skip
        parts += [f"## {section}\n", markdown_table(("", "check", "", "expected", "measured", "note"), table)]
    if rows:
        parts.append("## Learning streams: rank correlation with exact information gain\n")
        parts.append("Mean over independent streams, 95% bootstrap interval of the mean.\n")
    for stream in dict.fromkeys(row.stream for row in rows):
        for scope in dict.fromkeys(row.scope for row in rows):
            parts += [f"### {stream}, {scope}\n", stream_table(rows, stream, scope)]
    return "\n".join(parts).encode()
