"""One order of all methods: worked by hand, and what must not enter it."""

from __future__ import annotations

import dataclasses
import re

import pytest
from synthetic_evidence import mountain_car

from lpm.experiments.evidence import Claim, Evidence, Score
from lpm.report.analysis import Analysis, analyse
from lpm.report.html import Payload, page
from lpm.report.ranking import in_focus, in_words, rank, why_not

BARE = dataclasses.replace(mountain_car(), scores=(), curves=(), heatmaps=(), claims=())


def evidence(scores: dict[str, dict[str, float]], name: str = "maze", seeds: int = 6, **changes: object) -> Analysis:
    """Condition to method to mean; every other seed below and above it."""
    methods = {m: m.upper() for means in scores.values() for m in means}
    made = [
        Score(condition, "coverage", method, {seed: mean + seed % 2 - 0.5 for seed in range(seeds)})
        for condition, means in scores.items()
        for method, mean in means.items()
    ]
    whole: Evidence = dataclasses.replace(
        BARE, name=name, methods=methods, conditions={c: c for c in scores}, scores=tuple(made), **changes
    )
    return analyse(whole)


def test_by_hand():
    found = rank([evidence({"a": {"x": 10.0, "y": 0.0, "z": 5.0}, "b": {"x": 3.0, "y": 4.0, "z": 2.0}})])
    assert found is not None
    assert {p.method: p.score.value for p in found.places} == pytest.approx({"x": 0.75, "y": 0.5, "z": 0.25})
    assert {p.method: p.rank for p in found.places} == {"x": 1.5, "y": 2.0, "z": 2.5}
    assert [(p.method, p.wins, p.tasks) for p in found.places] == [("x", 1, 2), ("y", 1, 2), ("z", 0, 2)]
    interval = found.places[0].score.interval
    assert interval is not None
    assert interval.low <= 0.75 <= interval.high
    assert found.sentence.startswith("X leads: 0.75 of 1 over 2 tasks, best in 1 of 2.")
    assert "Y (0.50)" in found.sentence


def test_means_that_seeds_do_not_tell_apart_get_nearly_the_same_score():
    close = {"x": 5.02, "y": 5.01, "z": 5.0}  # seeds differ by 1
    found = rank([evidence({"a": close, "b": close})])
    assert found is not None
    assert all(place.score.value > 0.9 for place in found.places)


def test_less_is_better():
    found = rank([evidence({"a": {"x": 10.0, "y": 1.0}}, lower_is_better=("coverage",))])
    assert found is not None
    assert found.places[0].method == "y"


def test_a_method_in_few_tasks_is_named_and_not_ranked():
    tasks = {c: {"x": 10.0, "y": 1.0} for c in "abc"}
    tasks["a"]["rare"] = 20.0
    found = rank([evidence(tasks)])
    assert found is not None
    assert [p.method for p in found.places] == ["x", "y"]
    assert found.left_out == ("RARE",)


def test_what_does_not_measure_exploration_is_left_out():
    scores = {"a": {"x": 1.0, "y": 2.0}}
    assert rank([evidence(scores, not_ranked="measures time")]) is None
    assert rank([evidence(scores, scale="smoke")]) is None
    assert rank([evidence({"a": {"x": 1.0}})]) is None
    assert rank([evidence({"a": {"x": 1.0, "y": 1.0}})]) is None
    assert rank([]) is None


def test_another_metric_never_stands_in_for_the_first():
    """Runs of Atari that end before an episode does have no return; their share of noise is no ranking."""
    only_noise = evidence({"a": {"x": 1.0, "y": 2.0}}, metrics={"return": "score", "coverage": "share of noise"})
    assert why_not(only_noise) == "no run has a value of score"
    assert rank([only_noise]) is None
    ranked = evidence({"a": {"x": 1.0, "y": 2.0}})
    found = rank([only_noise, ranked])
    assert found is not None
    assert len(found.tasks) == 1
    assert "maze (no run has a value of score)" in page([only_noise, dataclasses.replace(ranked)])


def test_a_game_is_ranked_at_the_papers_size_only():
    claim = Claim("A beats B", "", "stochastic", "cells", "lpm", "rnd", paper_size="a score after 50 million steps")
    found = {
        scale: why_not(analyse(dataclasses.replace(mountain_car(), scale=scale, claims=(claim,))))
        for scale in ("short", "paper")
    }
    assert found == {"short": "needs the paper's own budget", "paper": ""}


def test_two_that_cannot_be_told_apart_share_the_lead():
    close, clear = (rank([evidence({"a": {"x": 10.0, "y": y, "z": 0.0}})]) for y in (9.99, 5.0))
    assert close is not None
    assert clear is not None
    assert close.title == "X and Y share the lead"
    assert close.sentence.startswith("X and Y share the lead: ")
    assert clear.title == "X comes first"
    assert clear.sure == 1.0


def test_few_seeds_are_no_proof():
    found = rank([evidence({"a": {"x": 90.0, "y": 50.0}}, seeds=2)])
    assert found is not None
    assert found.sentence == "X leads: coverage (%) 90.0. The second is Y (50.0). With 2 seeds: a first impression."


def test_a_single_task_is_shown_in_its_own_unit():
    one, two = evidence({"a": {"x": 90.0, "y": 50.0}}), evidence({"b": {"x": 90.0, "y": 50.0}}, name="lava")
    alone, both = (rank(given) for given in ([one], [one, two]))
    assert alone is not None
    assert both is not None
    assert alone.only is not None
    assert both.only is None
    reached = alone.only.means["x"]
    assert reached.interval is not None
    assert reached.interval.low < reached.value == 90.0 < reached.interval.high
    payload = Payload(points=20)
    own, scaled = (payload.charts[payload.bars(found, "")] for found in (alone, both))
    assert [(row["mean"], row["text"], row["count"]) for row in own["rows"]] == [(90.0, "90.0", 6), (50.0, "50.0", 6)]
    assert [(row["mean"], row["text"], row["count"]) for row in scaled["rows"]] == [(1.0, "1.00", 2), (0.0, "0.00", 2)]
    assert "scaled so that the best" not in page([one])
    assert "scaled so that the best" in page([one, two])


def test_runs_the_paper_knows_nothing_of_are_not_held_against_it():
    assert "The paper, run again" not in page([evidence({"a": {"x": 90.0, "y": 50.0}})], ["a warning"])
    assert "a warning" in page([evidence({"a": {"x": 90.0, "y": 50.0}})], ["a warning"])
    assert "The paper, run again" in page([analyse(mountain_car())])


def test_what_nothing_was_decided_about_is_not_counted_as_lost():
    """The demo has two seeds of four methods: "0 of 8 claims hold" would be said of a paper that was not tested."""
    few, enough = (page([analyse(mountain_car(seeds=seeds))]) for seeds in (2, 5))
    assert "<b>–</b>of the paper's claims hold" in few.replace("&#39;", "'")
    assert re.search(r"<b>\d+ <small>of \d+</small></b>of the paper's claims hold", enough.replace("&#39;", "'"))


def test_the_same_ranking_every_time():
    both = [evidence({"a": {"x": 10.0, "y": 9.5, "z": 0.0}}) for _ in range(2)]
    assert rank(both[:1]) == rank(both[1:])


def test_a_few_methods_are_in_focus():
    scores = {"a": {"lgn": 1.0, "lpm": 2.0, "lpm-slow": 9.0, "rnd": 5.0, "icm": 7.0, "ensemble": 8.0, "none": 0.0}}
    scores["a"] |= {"etd": 6.0, "ama": 3.0}
    wanted = ["lgn", "lpm", "lpm-slow", "rnd", "icm", "ensemble", "none"]
    assert in_focus(evidence(scores)) == wanted
    assert in_focus(evidence({"a": {"x": 1.0}})) == ["x"]
    scores["a"]["cell_counts"] = 10.0  # shown, but not as the best
    assert in_focus(evidence(scores)) == wanted


def test_in_words_the_order_and_what_is_worse_than_nothing():
    found = rank([evidence({"a": {"rnd": 3.0, "lgn": 9.0, "none": 5.0}})])
    assert found is not None
    order, worse, lead = in_words(found)
    assert order.startswith("a, ")
    assert order.endswith(": 1. LGN 9.00, 2. NONE 5.00, 3. RND 3.00.")
    assert worse == "Worse than no bonus there: RND."
    assert lead == (
        "LGN leads: coverage (%) 9.00. It is surely ahead of the second, NONE (5.00): in 100 % of the resamples."
    )


def test_the_count_is_a_reference_and_sets_no_scale():
    found = rank([evidence({"a": {"x": 10.0, "y": 0.0, "cell_counts": 90.0}})])
    assert found is not None
    assert {p.method: p.score.value for p in found.places} == {"x": 1.0, "y": 0.0}
    assert found.left_out == ()
