"""Every claim and number of an experiment once, where it was run at several scales.

Each claim is judged at the largest scale that has as many seeds as could settle it, each number at the largest with two
seeds or more.
"""

from collections.abc import Iterable

from lpm.experiments.evidence import Claim, size_of
from lpm.report.analysis import Analysis, Cell, ClaimResult

CLAIM_VERDICTS = {"holds": "hold", "contradicted": "are contradicted", "undecided": "are undecided",
                  "not run": "were not run"}  # fmt: skip
"""In the order of summaries, each with its words for several claims."""
NUMBER_VERDICTS = ("reproduced", "not reproduced", "undecided", "not compared")


def by_size(analysis: Analysis) -> int:
    """Place of an analysis in the order of scales."""
    return size_of(analysis.evidence.scale)


def claims_once(analyses: Iterable[Analysis]) -> dict[tuple[str, Claim], tuple[Analysis, ClaimResult]]:
    """(experiment, claim) to its result at the largest scale with enough seeds, else at the largest, else not run.

    Which scale it is depends on counts of seeds, never on scores.
    """

    def rank(result: ClaimResult) -> tuple[bool, bool]:
        return result.verdict != "not run", result.enough

    found: dict[tuple[str, Claim], tuple[Analysis, ClaimResult]] = {}
    for analysis in sorted(analyses, key=by_size):
        for result in analysis.claims:
            key = analysis.evidence.name, result.claim
            if key not in found or rank(result) >= rank(found[key][1]):
                found[key] = analysis, result
    return found


def numbers_once(analyses: Iterable[Analysis]) -> dict[tuple[str, str, str, str], Cell]:
    """(experiment, metric, condition, method) to our cell beside the paper's number, at the largest scale.

    One seed has no interval, and counts where there is nothing else.
    """
    found: dict[tuple[str, str, str, str], Cell] = {}
    for analysis in sorted(analyses, key=by_size):
        for key, cell in analysis.cells.items():
            place = analysis.evidence.name, *key
            if cell.verdict != "no number" and (place not in found or cell.summary.n > 1):
                found[place] = cell
    return found
