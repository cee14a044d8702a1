"""From evidence to what is said about it: a summary and a verdict per cell, a test per claim, bands.

Everything here is numbers; the page and the exported tables show the same ones.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lpm.experiments.evidence import Claim, Evidence, PaperNumber, Score
from lpm.report import seed_statistics as statistics
from lpm.report.families import REFERENCES, in_order
from lpm.report.seed_statistics import LEVEL, POWER, Comparison, Estimate, Floats, Interval, Summary
from lpm.report.text import count_of, decimals, number, signed_span, slug

Verdict = Literal["reproduced", "not reproduced", "undecided", "not compared", "no number"]
ClaimVerdict = Literal["holds", "contradicted", "undecided", "not run"]

Key = tuple[str, str, str]
"""Metric, condition and method."""
WIDEST = 0.25
"""Half the width of the interval, as a share of the paper's number, above which agreement says too little."""
POINTS = 120
"""A curve keeps at most this many points."""
NOT_RUN = "–"
"""In a table, a method without runs in a condition."""


@dataclass(frozen=True)
class Cell:
    """A method in a condition: ours, the paper's, and whether they agree."""

    score: Score
    summary: Summary
    difference: Interval | None
    """95 % interval of ours minus the paper's."""
    verdict: Verdict
    why: str

    @property
    def dots(self) -> list[float]:
        """What to draw of single seeds: nothing of what is computed from means."""
        return [] if self.score.of_means else list(self.score.values.values())


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its test."""

    claim: Claim
    verdict: ClaimVerdict
    why: str
    comparison: Comparison | None = None
    corrected: float | None = None
    """Holm-corrected p."""
    improvement: Estimate | None = None
    """Probability that a run of `better` beats a run of `worse`."""
    difference: float | None = None
    """Of the mean scores, `better` minus `worse`. Where less is better the test's own difference has the other sign."""
    reverse: float | None = None
    """Holm-corrected p of the opposite claim."""
    needed: int | None = None
    """If undecided: seeds of each method that would decide it, by the observed difference; None if none would."""
    enough: bool = False
    """Whether there are as many seeds as could settle it, if they agreed."""


@dataclass(frozen=True)
class Band:
    """A curve: mean over seeds and 95 % band; NaN where there is none."""

    condition: str
    metric: str
    method: str
    seeds: int
    steps: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class ScoreTable:
    """The scores of one metric, methods × conditions."""

    methods: Mapping[str, str]
    """Method to label, of those with a score."""
    conditions: Mapping[str, str]
    cells: Mapping[tuple[str, str], Cell]
    """(condition, method) to cell."""
    best: frozenset[tuple[str, str]]
    """The cells with the best mean of their condition; never a reference, and none where nobody is worse."""

    @property
    def moving(self) -> dict[str, str]:
        """The conditions where not all is zero, as the share of noise is without noise; all, if none is left."""
        moving = {condition for (condition, _), cell in self.cells.items() if any(cell.score.values.values())}
        return {c: label for c, label in self.conditions.items() if c in moving} or dict(self.conditions)

    def column(self, condition: str) -> list[Cell]:
        """The cells of a condition, in the order of the methods."""
        return [self.cells[condition, m] for m in self.methods if (condition, m) in self.cells]

    def row(self, method: str, conditions: Iterable[str], show: Callable[[Cell], str],
            after: Callable[[Cell], str] = lambda cell: "") -> list[str]:  # fmt: skip
        """A method's cells in Markdown, the best bold."""
        shown = []
        for place in ((condition, method) for condition in conditions):
            cell, bold = self.cells.get(place), "**" if place in self.best else ""
            shown.append(NOT_RUN if cell is None else f"{bold}{show(cell)}{bold}{after(cell)}")
        return shown


@dataclass(frozen=True)
class Analysis:
    """Everything that is shown of one experiment."""

    evidence: Evidence
    cells: Mapping[Key, Cell]
    claims: tuple[ClaimResult, ...]
    bands: tuple[Band, ...]
    warnings: tuple[str, ...]

    @property
    def methods(self) -> dict[str, str]:
        """Method to label, in the order of the evidence, the recommended bonus first; those without a label last."""
        seen = [cell.score.method for cell in self.cells.values()] + [band.method for band in self.bands]
        seen += [heatmap.method for heatmap in self.evidence.heatmaps if heatmap.method in self.evidence.methods]
        found = _labelled(seen, self.evidence.methods)
        return {method: found[method] for method in in_order(found, self.evidence.families)}

    def metrics(self, kind: Literal["scores", "curves"]) -> dict[str, str]:
        """Metric to label of the scores or of the curves, the main one first."""
        seen = [key[0] for key in self.cells] if kind == "scores" else [band.metric for band in self.bands]
        return _labelled(seen, self.evidence.metrics)

    def conditions(self, present: Iterable[str]) -> dict[str, str]:
        """Condition to label of those present, in the order of the evidence."""
        return _labelled(present, self.evidence.conditions)

    def panels(self, metric: str) -> dict[str, list[Band]]:
        """Condition to the curves of a metric, in the order of the methods.

        Where every curve is zero all along, as the share of noise is without noise, there is nothing to show, unless it
        is so in every condition.
        """
        bands = [band for band in self.bands if band.metric == metric]
        moving = {band.condition for band in bands if np.any(band.mean)} or {band.condition for band in bands}
        conditions = self.conditions(band.condition for band in bands if band.condition in moving)
        return {c: [b for m in self.methods for b in bands if (b.condition, b.method) == (c, m)] for c in conditions}

    def table(self, metric: str) -> ScoreTable:
        cells = {key[1:]: cell for key, cell in self.cells.items() if key[0] == metric}
        conditions = self.conditions(condition for condition, _ in cells)
        methods = {m: label for m, label in self.methods.items() if any((c, m) in cells for c in conditions)}
        pick = min if metric in self.evidence.lower_is_better else max
        best: set[tuple[str, str]] = set()
        for condition in () if metric in self.evidence.unranked else conditions:
            means = {key: cell.summary.mean for key, cell in cells.items() if key[0] == condition}
            rivals = {key: mean for key, mean in means.items() if key[1] not in REFERENCES}
            if len(set(rivals.values())) > 1:
                best |= {key for key, mean in rivals.items() if mean == pick(rivals.values())}
        return ScoreTable(methods, conditions, cells, frozenset(best))

    @property
    def maps(self) -> dict[tuple[str, str], Floats]:
        """(condition, method) to visits per cell; no grid that nobody can enter, or with what is no count."""
        found = {}
        for heatmap in self.evidence.heatmaps:
            visits = np.asarray(heatmap.visits, dtype=np.float64)
            seen = visits[~np.isnan(visits)]
            if visits.ndim == 2 and seen.size and np.isfinite(seen).all() and (seen >= 0).all():
                found[heatmap.condition, heatmap.method] = visits
        return found

    @property
    def drawn(self) -> list[str]:
        """Methods with a curve or a map of visits."""
        seen = {band.method for band in self.bands} | {heatmap.method for heatmap in self.evidence.heatmaps}
        return [method for method in self.methods if method in seen]

    @property
    def flat(self) -> bool:
        """Whether `panels` leaves out a condition."""
        shown = {metric: self.panels(metric) for metric in self.metrics("curves")}
        return any(band.condition not in shown[band.metric] for band in self.bands)

    @property
    def best(self) -> str:
        """The best method of every condition by the first metric, in words; empty if none is better than another."""
        metric, label = next(iter(self.metrics("scores").items()), ("", ""))
        table, found = self.table(metric), []
        for condition, name in table.conditions.items():
            best = [method for method in table.methods if (condition, method) in table.best]
            if best:
                mean = table.cells[condition, best[0]].summary.mean
                who = f"{' and '.join(table.methods[m] for m in best)} ({number(mean, decimals(None, mean))})"
                found.append(f"{name}: {who}" if name else who)
        return f"Best in {label}: {'; '.join(found)}." if found else ""

    @property
    def name(self) -> str:
        """Experiment and scale, safe as a file name or an anchor."""
        return slug(f"{self.evidence.name}-{self.evidence.scale}")

    @property
    def verdicts(self) -> Counter[str]:
        """How many of the paper's numbers are reproduced, not reproduced, undecided, not compared."""
        return Counter(cell.verdict for cell in self.cells.values() if cell.verdict != "no number")

    @property
    def claim_verdicts(self) -> Counter[str]:
        """How many claims hold, are contradicted, are undecided or were not run."""
        return Counter(claim.verdict for claim in self.claims)

    def seeds_of(self, claim: Claim) -> tuple[int, int]:
        """Seeds of the two methods of a claim; 0 where there are no runs."""
        places = ((claim.metric, claim.condition, method) for method in (claim.better, claim.worse))
        first, second = (self.cells[place].summary.n if place in self.cells else 0 for place in places)
        return first, second

    @property
    def seeds(self) -> tuple[int, int]:
        """Fewest and most seeds of a cell or curve."""
        counts = [cell.summary.n for cell in self.cells.values()] + [band.seeds for band in self.bands]
        return (min(counts), max(counts)) if counts else (0, 0)


def _labelled(seen: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """What was seen to its label, in the known order; what is not known comes last, under its name."""
    seen = list(seen)
    found = {name: label for name, label in known.items() if name in seen}
    return found | {name: name for name in seen if name not in found}


def families(analyses: Iterable[Analysis]) -> dict[str, str]:
    """Method to the family that its class names, over several experiments."""
    return {method: family for a in analyses for method, family in a.evidence.families.items()}


def analyse(evidence: Evidence) -> Analysis:
    """Summaries, verdicts, tests and bands. What cannot be computed becomes a warning, and is left out."""
    warnings = list(evidence.warnings)
    cells: dict[Key, Cell] = {}
    for score in evidence.scores:
        key = score.metric, score.condition, score.method
        where = f"{evidence.name}: score {', '.join(key)}"
        if key in cells:
            warnings.append(f"{where}: given twice; the first is kept")
            continue
        try:
            cells[key] = _cell(score, evidence)
        except ValueError as problem:
            warnings.append(f"{where}: left out: {problem}")
    return Analysis(evidence, cells, judge_claims(evidence, cells), _bands(evidence, warnings), tuple(warnings))


def generator(*key: str) -> np.random.Generator:
    """Its own stream for every number, so that one more experiment on the page changes no other number."""
    return np.random.default_rng([zlib.crc32(part.encode()) for part in key])


def _cell(score: Score, evidence: Evidence) -> Cell:
    values = list(score.values.values())
    found = statistics.summarise(values, generator(evidence.name, score.metric, score.condition, score.method))
    summary = replace(found, std=None) if score.of_means else found
    if score.paper is None:
        return Cell(score, summary, None, "no number", "the paper gives no number")
    if score.paper.paper_size and evidence.scale != "paper":
        return Cell(score, summary, None, "not compared", score.paper.paper_size)
    difference = statistics.difference_interval(values, score.paper.value, score.paper.std, score.paper.seeds)
    return Cell(score, summary, difference, *_verdict(difference, score.paper, evidence.scale, found.std))


def _verdict(difference: Interval | None, paper: PaperNumber, scale: str, std: float | None) -> tuple[Verdict, str]:
    if scale == "smoke":
        return "undecided", "smoke scale: a test of the code, not of the paper"
    if difference is None:
        return "undecided", "one seed: no interval"
    span = f"ours − paper: {signed_span(difference)}"
    if 0.0 not in difference:
        return "not reproduced", span
    if (difference.high - difference.low) / 2 > WIDEST * abs(paper.value):
        needed = statistics.seeds_to_agree(WIDEST * abs(paper.value), std or 0.0, paper.std, paper.seeds)
        enough = "no number of seeds would do" if needed is None else f"about {count_of(needed, 'seed')} would do"
        return "undecided", f"{span}, too wide to tell; {enough}"
    return "reproduced", span


def _signed(evidence: Evidence, cell: Cell) -> list[float]:
    sign = -1.0 if cell.score.metric in evidence.lower_is_better else 1.0
    return [sign * value for value in cell.score.values.values()]


def judge_claims(evidence: Evidence, cells: Mapping[Key, Cell]) -> tuple[ClaimResult, ...]:
    """Every claim of the paper, tested where both methods have runs of a scale that can test it."""
    testable = [claim for claim in evidence.claims if not claim.untestable(evidence.scale)]
    pairs: dict[Claim, tuple[Cell, Cell]] = {}
    for claim in testable:
        a, b = (cells.get((claim.metric, claim.condition, method)) for method in (claim.better, claim.worse))
        if a is not None and b is not None:
            pairs[claim] = a, b
    tests = {claim: _both_ways(evidence, claim, *pair, len(testable)) for claim, pair in pairs.items()}

    def corrected(values: Iterable[float]) -> dict[Claim, float]:
        return dict(zip(tests, statistics.holm(list(values), len(testable)), strict=True))

    p = corrected(test.p for test, _ in tests.values())
    reverse = corrected(opposite.p for _, opposite in tests.values())
    smallest = corrected(test.smallest for test, _ in tests.values())
    results = []
    for claim in evidence.claims:
        if claim not in pairs:
            missing = [m for m in (claim.better, claim.worse) if (claim.metric, claim.condition, m) not in cells]
            results.append(not_run(claim, evidence.scale, [evidence.methods.get(m, m) for m in missing]))
            continue
        (a, b), test = pairs[claim], tests[claim][0]
        enough = smallest[claim] <= LEVEL and evidence.scale != "smoke"
        verdict, why = _claim_verdict(evidence, test, p[claim], reverse[claim], enough)
        if ended := len(a.score.diverged) + len(b.score.diverged):
            why = f"{why} ({count_of(ended, 'run')} diverged)"
        needed = None
        if verdict == "undecided" and evidence.scale != "smoke":
            needed, wanted = _needed(test.difference, a, b, len(testable))
            why = f"{why}; {wanted}"
        rng = generator(evidence.name, "improvement", claim.text)
        improvement = statistics.probability_of_improvement(_signed(evidence, a), _signed(evidence, b), rng)
        difference = -test.difference if claim.metric in evidence.lower_is_better else test.difference
        said = (claim, verdict, why, test, p[claim], improvement, difference, reverse[claim], needed, enough)
        results.append(ClaimResult(*said))
    return tuple(results)


def not_run(claim: Claim, scale: str, missing: Iterable[str]) -> ClaimResult:
    """A claim without a test: runs of this scale cannot be one, or there are none of these methods, by label."""
    return ClaimResult(claim, "not run", claim.untestable(scale) or f"no runs of {' and '.join(missing)}")


def _needed(difference: float, a: Cell, b: Cell, claims: int) -> tuple[int | None, str]:
    """Seeds of each method that would decide between two cells, and the same in words."""
    if a.summary.std is None or b.summary.std is None:
        return None, "one seed has no spread from which to say how many would do"
    needed = statistics.seeds_to_decide(difference, a.summary.std, b.summary.std, claims)
    if needed is None:
        return None, "at this difference no affordable number of seeds would decide it"
    # as many as there are would have done in four of five cases, and did not
    needed = max(needed, a.summary.n + 1, b.summary.n + 1)
    return needed, f"a difference of this size would take about {needed:,} seeds each ({100 * POWER:.0f} % power)"


def _both_ways(evidence: Evidence, claim: Claim, a: Cell, b: Cell, claims: int) -> tuple[Comparison, Comparison]:
    ours, theirs = (dict(zip(cell.score.values, _signed(evidence, cell), strict=True)) for cell in (a, b))
    paired = set(ours) == set(theirs) and statistics.arrangements(len(ours), len(theirs), True) * LEVEL >= claims
    key = evidence.name, "claim", claim.condition, claim.metric, claim.better, claim.worse
    forward = statistics.permutation_test(ours, theirs, generator(*key), paired)
    return forward, statistics.permutation_test(theirs, ours, generator(*key), paired)


def _claim_verdict(
    evidence: Evidence, test: Comparison, p: float, reverse: float, enough: bool
) -> tuple[ClaimVerdict, str]:
    if evidence.scale == "smoke":
        return "undecided", "smoke scale: a test of the code, not of the paper"
    if p <= LEVEL:
        return "holds", "seeds agree more than chance would"
    if reverse <= LEVEL:
        return "contradicted", "the opposite holds"
    if not enough:
        return "undecided", "too few seeds to settle it, whatever their values"
    direction = "in the paper's direction" if test.difference > 0 else "not in the paper's direction"
    return "undecided", f"{direction}, but chance could do it"


def spread(count: int, most: int) -> NDArray[np.intp]:
    """At most `most` of `count` places, evenly spread, both ends included.

    >>> spread(5, 3).tolist(), spread(2, 9).tolist()
    ([0, 2, 4], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.intp))


def log_range(grids: Sequence[Floats]) -> tuple[float, float]:
    """Fewest and most visits of a visited cell: the ends of one colour scale for all grids."""
    positive = np.concatenate([np.zeros(0), *(grid[grid > 0] for grid in grids)])
    return (float(positive.min()), float(positive.max())) if positive.size else (1.0, 1.0)


def _bands(evidence: Evidence, warnings: list[str]) -> tuple[Band, ...]:
    bands = []
    for curve in evidence.curves:
        where = f"{evidence.name}: curve {curve.metric}, {curve.condition}, {curve.method}"
        lengths = {len(run) for run in curve.runs.values()}
        if not curve.steps or lengths != {len(curve.steps)}:
            warnings.append(f"{where}: left out: expected {len(curve.steps)} values per seed, got {sorted(lengths)}")
            continue
        kept = spread(len(curve.steps), POINTS)
        try:
            steps = statistics.numbers(curve.steps, "steps")[kept]
            runs = np.array(list(curve.runs.values()), dtype=np.float64)[:, kept]
            key = evidence.name, "curve", curve.metric, curve.condition, curve.method
            mean, low, high = statistics.curve_band(runs, generator(*key))
        except (TypeError, ValueError) as problem:
            warnings.append(f"{where}: left out: {problem}")
            continue
        bands.append(Band(curve.condition, curve.metric, curve.method, len(curve.runs), steps, mean, low, high))
    return tuple(bands)
