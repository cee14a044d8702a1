"""One order of all methods over all experiments, and who leads."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lpm.experiments.evidence import size_of
from lpm.report.analysis import Analysis
from lpm.report.families import PAPER, RECOMMENDED, REFERENCES, family_of
from lpm.report.seed_statistics import Estimate, Floats, percentiles, resampled
from lpm.report.text import count_of, short_number

RESAMPLES = 2_000
SHARED = 0.8
"""The first two share the lead if the first is ahead in a smaller share of the resamples."""
MOST_IN_FOCUS = 7
"""Lines that charts draw in colour; a reader can tell about eight apart."""
ENOUGH_SEEDS = 5
"""With fewer nothing is said about how surely the first is ahead: two seeds drawn anew are the same two seeds."""

RULE = (
    "A task is an experiment in one of its conditions, judged by the experiment's first metric. In each task the means "
    "over seeds are scaled so that the best method is 1 and the worst is 0, or more where the widest 95 % interval "
    "of a mean is wider than the two are apart. A method's score is the mean of that over the tasks it was run in; its "
    "rank is averaged likewise. Only methods that were run in at least half of the tasks "
    "are ranked. Of several scales of one experiment the one with most methods counts, of equals the largest. "
    "Intervals: seeds are drawn anew within every task, 2,000 times, and everything is computed again."
)
RULE_OF_ONE = "Ordered by the mean over seeds. Intervals: seeds are drawn anew, 2,000 times."


@dataclass(frozen=True)
class Task:
    """An experiment in a condition."""

    section: str
    """Anchor of the experiment."""
    label: str
    condition: str
    metric: str
    scaled: Mapping[str, float]
    """Method to score from 0 (the worst) to 1 (the best)."""
    means: Mapping[str, Estimate]
    """Method to mean over seeds, in the metric's own unit."""
    seeds: Mapping[str, int]


@dataclass(frozen=True)
class RankedMethod:
    """A method in the order."""

    method: str
    label: str
    score: Estimate
    """Mean scaled score."""
    rank: float
    """Mean rank; 1 is best in every task."""
    tasks: int
    """In which it was run."""
    wins: int
    """In which it was best."""


@dataclass(frozen=True)
class Ranking:
    """The order of the methods."""

    tasks: tuple[Task, ...]
    places: tuple[RankedMethod, ...]
    """Best first."""
    left_out: tuple[str, ...]
    """Labels of methods that were run in too few tasks."""
    sure: float
    """Share of the resamples in which the first is ahead of the second."""

    @property
    def only(self) -> Task | None:
        """The task, if there is one only: then its own unit says more than a scaled score."""
        return self.tasks[0] if len(self.tasks) == 1 else None

    @property
    def sections(self) -> Counter[str]:
        """How many tasks each section has, in order."""
        return Counter(task.section for task in self.tasks)

    @property
    def rule(self) -> str:
        return RULE if self.only is None else RULE_OF_ONE

    @property
    def title(self) -> str:
        """The winner, or the two that cannot be told apart."""
        first, second = (place.label for place in self.places[:2])
        return f"{first} and {second} share the lead" if self.sure < SHARED else f"{first} comes first"

    @property
    def sentence(self) -> str:
        """Who leads, and how surely."""
        first, second = self.places[:2]
        if self.only is None:
            one, other = (f"{place.score.value:.2f}" for place in (first, second))
            lead = f"{one} of 1 over {len(self.tasks)} tasks, best in {first.wins} of {first.tasks}"
        else:
            one, other = (short_number(self.only.means[place.method].value) for place in (first, second))
            lead = one = f"{self.only.metric} {one}"
        if self.sure < SHARED:
            ahead = f"Seeds drawn anew put {first.label} ahead in {100 * self.sure:.0f} of 100 cases"
            return f"{first.label} and {second.label} share the lead: {one} and {other}. {ahead}."
        lead = f"{first.label} leads: {lead}."
        seeds = min(task.seeds.get(place.method, ENOUGH_SEEDS) for task in self.tasks for place in (first, second))
        if seeds < ENOUGH_SEEDS:
            return f"{lead} The second is {second.label} ({other}). With {count_of(seeds, 'seed')}: a first impression."
        how = "surely" if self.sure >= 0.975 else "probably"
        ahead = f"in {100 * self.sure:.0f} % of the resamples"
        return f"{lead} It is {how} ahead of the second, {second.label} ({other}): {ahead}."


def rank(analyses: Sequence[Analysis]) -> Ranking | None:
    """The order over everything that can be ranked; None if there is nothing to compare."""
    labels: dict[str, str] = {}
    tasks: list[Task] = []
    drawn: list[dict[str, Floats]] = []
    rng = np.random.default_rng(0)
    for analysis, reason in zip(analyses, reasons(analyses), strict=True):
        for task, draws in () if reason else _tasks(analysis, rng):
            labels = {m: analysis.methods[m] for m in task.scaled} | labels
            tasks.append(task)
            drawn.append(draws)
    runs = {m: sum(m in task.scaled for task in tasks) for m in labels}
    ranked = [m for m in labels if 2 * runs[m] >= len(tasks)]
    if len(ranked) < 2:
        return None
    draws = {m: np.mean([d[m] for d in drawn if m in d], axis=0) for m in ranked}
    places = sorted((_place(m, labels[m], tasks, draws[m]) for m in ranked), key=lambda p: (-p.score.value, p.rank))
    first, second = places[:2]
    ahead = np.sign(draws[first.method] - draws[second.method])
    left_out = tuple(labels[m] for m in labels if m not in ranked)
    return Ranking(tuple(tasks), tuple(places), left_out, float((ahead + 1).mean() / 2))


def in_words(ranking: Ranking) -> list[str]:
    """The order in every task, what does worse than no bonus there, and who leads: lines for a terminal."""
    labels, lines = {place.method: place.label for place in ranking.places}, []
    for task in ranking.tasks:
        order = sorted((m for m in labels if m in task.scaled), key=lambda m: -task.scaled[m])
        places = (f"{i}. {labels[m]} {short_number(task.means[m].value)}" for i, m in enumerate(order, 1))
        lines.append(f"{task.label}, {task.metric}: {', '.join(places)}.")
        worse = [labels[m] for m in order[order.index("none") + 1 :]] if "none" in order else []
        if worse:
            lines.append(f"Worse than no bonus there: {', '.join(worse)}.")
    return [*lines, ranking.sentence]


def why_not(analysis: Analysis) -> str:
    """Why an experiment is not ranked; empty if it is. Another metric never stands in for the first one."""
    evidence = analysis.evidence
    if evidence.not_ranked:
        return evidence.not_ranked
    if any(claim.untestable(evidence.scale) for claim in evidence.claims):
        return "needs the paper's own budget"
    if evidence.scale == "smoke":
        return "smoke scale: a test of the code"
    metric, label = next(iter(evidence.metrics.items()), ("", "its first metric"))
    return "" if any(key[0] == metric for key in analysis.cells) else f"no run has a value of {label}"


def reasons(analyses: Sequence[Analysis]) -> list[str]:
    """Why each is not ranked, empty for those that are: one scale of an experiment stands for it."""
    found = [why_not(analysis) for analysis in analyses]
    methods = [len(set(a.table(next(iter(a.evidence.metrics), "")).methods) - set(REFERENCES)) for a in analyses]
    scales = [a.evidence.scale for a in analyses]
    for name in {a.evidence.name for a in analyses}:
        places = [i for i, a in enumerate(analyses) if a.evidence.name == name and not found[i]]
        best = max(places, key=lambda i: (methods[i], size_of(scales[i])), default=0)
        for i in places:
            if i != best:
                larger = " and a larger budget" if size_of(scales[best]) > size_of(scales[i]) else ""
                more = "more methods" if methods[best] > methods[i] else f"as many methods{larger}"
                found[i] = f"at the {scales[i]} scale: the {scales[best]} scale has {more}"
    return found


def _tasks(analysis: Analysis, rng: np.random.Generator) -> list[tuple[Task, dict[str, Floats]]]:
    evidence = analysis.evidence
    metric, label = next(iter(evidence.metrics.items()))
    sign = -1.0 if metric in evidence.lower_is_better else 1.0
    table, found = analysis.table(metric), []
    for condition, name in table.conditions.items():
        runs = {m: np.array(list(table.cells[condition, m].score.values.values()))
                for m in table.methods if (condition, m) in table.cells and m not in REFERENCES}  # fmt: skip
        if len({float(values.mean()) for values in runs.values()}) < 2:
            continue
        draws = {m: resampled(v, rng, RESAMPLES).mean(axis=1) for m, v in runs.items()}
        means = {m: Estimate(float(v.mean()), percentiles(draws[m])) for m, v in runs.items()}
        width = max(mean.interval.high - mean.interval.low for mean in means.values() if mean.interval)
        observed = _scaled({m: np.array([sign * mean.value]) for m, mean in means.items()}, width)
        scaled = {m: float(values[0]) for m, values in observed.items()}
        task = Task(analysis.name, name, condition, label, scaled, means, {m: v.size for m, v in runs.items()})
        found.append((task, _scaled({m: sign * values for m, values in draws.items()}, width)))
    return found


def _scaled(means: Mapping[str, Floats], width: float) -> dict[str, Floats]:
    """1 for the best and 0 for the worst, unless a mean is known less well (`width`) than the two are apart."""
    stacked = np.stack(list(means.values()))
    best, span = stacked.max(axis=0), np.maximum(np.ptp(stacked, axis=0), width)
    return {m: 1 - (best - values) / np.where(span > 0, span, 1.0) for m, values in means.items()}


def _place(method: str, label: str, tasks: Sequence[Task], draws: Floats) -> RankedMethod:
    here = [task for task in tasks if method in task.scaled]
    # equal scores share the mean of their ranks
    ranks = [0.5 + sum((s > task.scaled[method]) + 0.5 * (s == task.scaled[method]) for s in task.scaled.values())
             for task in here]  # fmt: skip
    score = float(np.mean([task.scaled[method] for task in here]))
    wins = sum(task.scaled[method] == 1.0 for task in here)
    return RankedMethod(method, label, Estimate(score, percentiles(draws)), float(np.mean(ranks)), len(here), wins)


def in_focus(analysis: Analysis) -> list[str]:
    """The few methods that charts of an experiment draw in colour.

    The recommended bonus, the best of the experiment, the paper's LPM, the best of each condition, the best that is
    not about learning progress, no bonus at all, RND and random actions, as far as there is room.
    """
    methods = list(analysis.methods)
    metric = next(iter(analysis.metrics("scores")), "")
    table = analysis.table(metric)
    sign = 1 if metric in analysis.evidence.lower_is_better else -1
    means = {key: cell.summary.mean for key, cell in table.cells.items()}

    def order(conditions: Iterable[str]) -> list[str]:
        found = {m: [means[c, m] for c in conditions if (c, m) in means] for m in table.methods if m not in REFERENCES}
        return sorted((m for m in found if found[m]), key=lambda m: sign * float(np.mean(found[m])))

    best = order(list(table.conditions))
    rivals = [m for m in best if family_of(m, analysis.evidence.families) not in ("recommended", "progress", "floor")]
    winners = [m for condition in table.conditions for m in order([condition])[:1]]
    wanted = [RECOMMENDED, *best[:1], PAPER, *winners, *rivals[:1], "none", "rnd", "random", *best, *methods]
    chosen = [m for m in dict.fromkeys(wanted) if m in methods][:MOST_IN_FOCUS]
    return [m for m in methods if m in chosen]
