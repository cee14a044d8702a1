"""Verdicts on numbers and claims."""

from __future__ import annotations

import dataclasses

import pytest
from synthetic_evidence import mountain_car

from lpm.experiments.evidence import Claim, Curve, Evidence, PaperNumber, Score
from lpm.report.analysis import POINTS, analyse


def evidence(**changes) -> Evidence:
    base = Evidence(name="maze", title="Maze", place="Figure 3", about=(), scale="short", methods={"a": "A", "b": "B"},
                    conditions={"x": "X"}, metrics={"m": "M"})  # fmt: skip
    return dataclasses.replace(base, **changes)


def score(method="a", values=(10.0, 11.0, 9.0, 10.0, 10.5), paper=None, condition="x", metric="m") -> Score:
    return Score(condition, metric, method, dict(enumerate(values)), paper)


def verdict(values, paper, scale="short") -> tuple[str, str]:
    (cell,) = analyse(evidence(scale=scale, scores=(score(values=values, paper=paper),))).cells.values()
    return cell.verdict, cell.why


def test_verdicts_on_numbers():
    near = (10.0, 11.0, 9.0, 10.0, 10.5)
    assert verdict(near, PaperNumber(10.2))[0] == "reproduced"
    assert verdict(near, PaperNumber(20.0))[0] == "not reproduced"
    assert verdict(near, PaperNumber(20.0, std=12.0, seeds=5))[0] == "undecided"  # the paper's own spread is large
    assert verdict(near, None)[0] == "no number"


def test_a_wide_interval_is_not_a_reproduction():
    kind, why = verdict((0.0, 20.0, 5.0, 30.0), PaperNumber(10.0))
    assert kind == "undecided"
    assert "too wide" in why


def test_one_seed_is_said():
    assert verdict((10.0,), PaperNumber(10.0)) == ("undecided", "one seed: no interval")


def test_smoke_decides_nothing():
    result = analyse(mountain_car(scale="smoke"))
    assert set(result.verdicts) == {"undecided"}
    assert set(result.claim_verdicts) == {"undecided", "not run"}


def claims(a, b, count=1, **changes):
    stated = tuple(Claim(f"A beats B, {place}", "Section 5", "x", "m", "a", "b") for place in range(count))
    result = analyse(evidence(scores=(score("a", a), score("b", b)), claims=stated, **changes))
    return result.claims


def test_claims():
    low, high = (1.0, 1.1, 1.2, 1.3, 1.4), (2.0, 2.1, 2.2, 2.3, 2.4)
    (holds,) = claims(high, low)
    assert (holds.verdict, holds.corrected) == ("holds", 1 / 32)
    assert holds.comparison is not None
    assert holds.comparison.paired
    (against,) = claims(low, high)
    assert against.verdict == "contradicted"
    (open_,) = claims((1.0, 2.0, 3.0, 4.0, 5.0), (1.1, 1.9, 3.1, 3.9, 4.5))
    assert open_.verdict == "undecided"
    assert "chance could do it" in open_.why


def test_less_is_better_turns_a_claim_round():
    (result,) = claims((1.0,) * 5, (2.0,) * 5, lower_is_better=("m",))
    assert result.verdict == "holds"
    assert result.improvement is not None
    assert result.improvement.value == 1.0


def test_many_claims_on_few_seeds_are_tested_unpaired():
    """Five pairs cannot give p < 1/32; with six claims corrected together that could never be enough."""
    results = claims((2.0, 2.1, 2.2, 2.3, 2.4), (1.0, 1.1, 1.2, 1.3, 1.4), count=6)
    assert all(r.comparison is not None and not r.comparison.paired for r in results)
    assert all(r.corrected == pytest.approx(6 / 252) for r in results)
    assert all(r.verdict == "holds" for r in results)


def test_too_few_seeds_for_any_claim():
    (result,) = claims((2.0, 3.0), (0.0, 1.0))
    assert result.verdict == "undecided"
    assert "too few seeds" in result.why


def test_a_claim_without_runs():
    claim = Claim("A beats C", "", "x", "m", "a", "c")
    (result,) = analyse(evidence(scores=(score(),), claims=(claim,))).claims
    assert (result.verdict, result.why, result.corrected) == ("not run", "no runs of c", None)


def test_a_claim_about_the_papers_budget_is_not_judged_at_a_smaller_one():
    claim = Claim("A beats B", "", "x", "m", "a", "b", paper_size="a score after 50 million steps")
    rows = score("a", (2.0, 2.1, 2.2, 2.3, 2.4)), score("b", (1.0, 1.1, 1.2, 1.3, 1.4))
    verdicts = {}
    for scale in ("short", "paper"):
        (result,) = analyse(evidence(scale=scale, scores=rows, claims=(claim,))).claims
        verdicts[scale] = result.verdict, result.why
    assert verdicts["short"] == ("not run", "a score after 50 million steps")
    assert verdicts["paper"][0] == "holds"
    (alone,) = analyse(evidence(scale="paper", scores=rows[:1], claims=(claim,))).claims
    assert (alone.verdict, alone.why) == ("not run", "no runs of B")


def test_what_cannot_be_used_is_a_warning():
    result = analyse(
        evidence(
            scores=(score(values=(1.0, float("nan"))), score("b"), score("b", (7.0,))),
            curves=(
                Curve("x", "m", "a", (0.0, 1.0), {0: (1.0, 2.0), 1: (1.0,)}),
                Curve("x", "m", "b", (0.0, 1.0), {0: (1.0, float("inf"))}),
                Curve("x", "m", "b", (), {}),
                Curve("x", "m", "b", (0.0, 1.0), {0: (1.0, 2.0)}),
            ),
        )
    )
    assert list(result.cells) == [("m", "x", "b")]
    assert len(result.bands) == 1
    assert len(result.warnings) == 5
    assert "expected finite numbers, got nan" in result.warnings[0]
    assert "given twice" in result.warnings[1]
    assert "expected 2 values per seed, got [1, 2]" in result.warnings[2]


def test_long_curves_keep_both_ends():
    steps = tuple(float(x) for x in range(1000))
    (band,) = analyse(evidence(curves=(Curve("x", "m", "a", steps, {0: steps, 1: steps}),))).bands
    assert len(band.steps) == POINTS
    assert (band.steps[0], band.steps[-1], band.mean[-1]) == (0.0, 999.0, 999.0)
