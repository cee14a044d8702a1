"""One call that does everything: checks, streams, figures, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lpm.files import write_atomic
from lpm.theory import figures, page
from lpm.theory.checks import all_checks
from lpm.theory.exact_bonuses import exact_factories
from lpm.theory.result import FULL, QUICK, CheckResult
from lpm.theory.stream import FIVE_DIM, ONE_DIM, BonusFactory, Correlation, StreamConfig, measure

ExtraBonuses = Callable[[StreamConfig], Mapping[str, BonusFactory]]
"""Given a stream, more bonuses to correlate on it; networks come in here."""


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
    write_atomic(out / "theory_checks.json", page.checks_json(checks))
    write_atomic(out / "theory_streams.json", page.streams_json(rows))
    write_atomic(out / "theory_results.md", page.results_page(checks, rows))
    figures.draw_all(out, rows)
    return checks
