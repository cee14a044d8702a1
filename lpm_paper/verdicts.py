"""What reproduces and what does not: every claim and number of the paper once, and what would decide those left open.

An experiment may have been run at several scales. Each claim is judged at the largest one that has as many seeds as
could settle it, each number at the largest with two seeds or more; other scales stay in the tables of their own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lpm.experiments.evidence import Claim
from lpm.experiments.experiment import Experiment, load_experiment
from lpm.experiments.training import TrainingExperiment
from lpm.report.analysis import Analysis, ClaimResult, not_run
from lpm.report.claims import CLAIM_VERDICTS, NUMBER_VERDICTS, by_size, claims_once, numbers_once
from lpm.report.text import count_of, decimals, markdown_table, number, p_value
from lpm_paper import PAPER

RATES = {"atari": ("overhead", "atari"), "montezuma": ("overhead", "atari")}
"""Experiments whose paper size has another network than their short size, and where its speed was measured."""

CORES_OF_A_GPU = 40
"""One of the paper's T4 at a third of its 8.1 TFLOP/s beside one core here, which does 70 GFLOP/s in such networks."""


@dataclass(frozen=True)
class Judged:
    """A claim of the paper with its verdict."""

    experiment: str
    analysis: Analysis | None
    """Of the runs that could decide it; None if there are none."""
    result: ClaimResult
    budget: str
    """What would decide it, in words; empty if it is decided."""

    @property
    def claim(self) -> Claim:
        return self.result.claim

    @property
    def scale(self) -> str:
        """At which it was run; empty if it was not."""
        return "" if self.analysis is None or self.result.verdict == "not run" else self.analysis.evidence.scale


def judge(analyses: Sequence[Analysis]) -> list[Judged]:
    """Every claim of every experiment, those that were not run included."""
    found = claims_once(analyses)
    judged = []
    for name in PAPER.experiments:
        experiment = load_experiment(name)
        for claim in experiment.claims:
            labels = [experiment.methods[method].label for method in (claim.better, claim.worse)]
            analysis, result = found.get((name, claim), (None, not_run(claim, "", labels)))
            judged.append(Judged(name, analysis, result, _budget(experiment, result, analysis, analyses)))
    return judged


def _budget(
    experiment: Experiment, result: ClaimResult, analysis: Analysis | None, analyses: Sequence[Analysis]
) -> str:
    """What would decide an open claim."""
    claim = result.claim
    if result.verdict == "not run":
        scale, seeds = ("", (0, 0)) if analysis is None else (analysis.evidence.scale, analysis.seeds_of(claim))
        pairs = zip((claim.better, claim.worse), seeds, strict=True)
        methods = [method for method, n in pairs if claim.untestable(scale) or not n]
        size = " --scale paper" if claim.paper_size else ""
        words = f"{experiment.name}{size} --methods {' '.join(methods)} --conditions {claim.condition}"
        command = f"`lpm reproduce {words}`"
        cost = paper_days(experiment, {claim.better, claim.worse}, analyses)
        return f"{command}; the paper's own budget: {cost}" if cost else command
    if result.verdict != "undecided" or analysis is None:
        return ""
    if result.needed is None:
        cost = paper_days(experiment, {claim.better, claim.worse}, analyses) if experiment.name in RATES else ""
        return f"the paper's own budget: {cost}" if cost else "no affordable number of seeds"
    text = f"{result.needed:,} seeds each"
    seconds, have = analysis.evidence.seconds, analysis.seeds_of(claim)
    known = [seconds.get(method) for method in (claim.better, claim.worse)]
    if any(cost is None for cost in known):
        return text
    more = sum(cost * max(result.needed - n, 0) for cost, n in zip(known, have, strict=True) if cost is not None)
    return f"{text}: {duration(more)} more" if more else text


def paper_days(experiment: Experiment, methods: Iterable[str], analyses: Sequence[Analysis]) -> str:
    """Processor time of one condition at the paper's size for these methods, from speeds measured here; or nothing."""
    if not isinstance(experiment, TrainingExperiment) or "paper" not in experiment.sizes:
        return ""
    size = experiment.sizes["paper"]
    speeds = [speed_of(experiment, method, analyses) for method in methods]
    if any(speed is None for speed in speeds):
        return ""
    runs = count_of(size.seeds * len(speeds), "run")
    spent = sum(size.seeds * size.steps / speed for speed in speeds if speed)
    return f"{runs} of {size.steps:,} steps, {duration(spent)} of one core{_on_a_gpu(experiment, spent, ' or about ')}"


def _on_a_gpu(experiment: Experiment, seconds: float, before: str = "") -> str:
    """The same on a GPU, in words; nothing where small networks or the environment take the time."""
    return f"{before}{duration(seconds / CORES_OF_A_GPU)} of a GPU" if experiment.name in RATES else ""


def speed_of(experiment: TrainingExperiment, method: str, analyses: Sequence[Analysis]) -> float | None:
    """Steps per second of one core: of the paper's network where that was measured, else of the largest run here."""
    if experiment.name in RATES:
        name, condition = RATES[experiment.name]
        # the variant on random features costs what RND does, and a little more
        bonus = "rnd" if experiment.methods[method].fields.get("variant") == "release-montezuma" else method
        for analysis in sorted(analyses, key=by_size, reverse=True):
            cell = analysis.cells.get(("steps_per_second", condition, bonus))
            if analysis.evidence.name == name and cell is not None:
                return cell.summary.mean
        return None
    for analysis in sorted(analyses, key=by_size, reverse=True):
        seconds = analysis.evidence.seconds.get(method)
        if analysis.evidence.name == experiment.name and seconds:
            return experiment.sizes[analysis.evidence.scale].steps / seconds
    return None


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(40), duration(5400), duration(200_000), duration(4e9)
    ('1 minute', '1.5 hours', '2.3 days', '127 years')
    """
    for unit, size in (("year", 365 * 86_400), ("day", 86_400), ("hour", 3_600)):
        if seconds >= size:
            amount = seconds / size
            return f"{amount:,.0f} {unit}s" if amount >= 10 else f"{amount:.1f} {unit}s"
    return count_of(max(round(seconds / 60), 1), "minute")


# ---- as Markdown ----------------------------------------------------------------------------------------------
def summary(analyses: Sequence[Analysis]) -> str:
    """Two sentences: how many claims and how many numbers have which verdict."""
    claims = Counter[str](judged.result.verdict for judged in judge(analyses))
    numbers = Counter[str](cell.verdict for cell in numbers_once(analyses).values())
    first = ", ".join(f"{claims[verdict]} {said}" for verdict, said in CLAIM_VERDICTS.items())
    second = ", ".join(f"{numbers[verdict]} are {verdict}" for verdict in NUMBER_VERDICTS)
    return f"Of the paper's {sum(claims.values())} claims, {first}. Of its {sum(numbers.values())} numbers, {second}.\n"


def claims_table(analyses: Sequence[Analysis], name: str) -> str:
    """The claims of one experiment: verdict, difference, reason, and what would decide those left open."""
    rows = []
    for judged in judge(analyses):
        if judged.experiment != name:
            continue
        result, shown, where = judged.result, "–", "–"
        if result.difference is not None and result.corrected is not None:
            sign = "+" if result.difference > 0 else ""
            places = decimals(None, result.difference)
            p = f"p {_p(result.corrected)}"
            if result.reverse is not None and result.reverse < result.corrected:
                p = f"opposite: p {_p(result.reverse)}"
            shown = f"{sign}{number(result.difference, places)}, {p}"
        if judged.analysis is not None and judged.scale:
            experiment, (first, second) = load_experiment(name), judged.analysis.seeds_of(judged.claim)
            size = experiment.sizes.get(judged.scale) if isinstance(experiment, TrainingExperiment) else None
            where = f"{f'{size.steps:,} steps, ' if size else ''}{first} and {second} seeds"
        reason, budget = result.why.split(";")[0], judged.budget or "–"
        rows.append((judged.claim.text, f"**{result.verdict}**", where, shown, reason, budget))
    head = ("the paper says", "verdict", "run at", "difference, corrected p", "why", "what would decide it")
    return markdown_table(head, rows)


def _p(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def cost_table(analyses: Sequence[Analysis]) -> str:
    """What the claims of each experiment cost at the paper's own size, from speeds measured here."""
    rows = []
    for name in PAPER.experiments:
        experiment = load_experiment(name)
        if not isinstance(experiment, TrainingExperiment) or not experiment.claims:
            continue
        size = experiment.sizes["paper"]
        methods = sorted({m for claim in experiment.claims for m in (claim.better, claim.worse)})
        conditions = {claim.condition for claim in experiment.claims}
        speeds = {m: speed_of(experiment, m, analyses) for m in methods}
        measured = {m: speed for m, speed in speeds.items() if speed}
        runs = size.seeds * len(conditions)
        spent = sum(runs * size.steps / speed for speed in measured.values())
        unknown = [experiment.methods[m].label for m in methods if m not in measured]
        times = (duration(spent), _on_a_gpu(experiment, spent) or "–") if measured else ("–", "–")
        note = f"without {', '.join(unknown)}: not measured" if unknown else ""
        speed = f"{min(measured.values()):,.0f} to {max(measured.values()):,.0f}" if measured else "–"
        rows.append((name, f"{size.steps:,}", str(runs * len(methods)), speed, *times, note))
    head = ("experiment", "steps a run", "runs", "steps per second", "one core", "or about", "")
    return markdown_table(head, rows)
