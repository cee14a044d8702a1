"""Every claim once, what would decide it, and tables that say when runs diverged or are missing."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest

from lpm.experiments.evidence import Evidence, Score
from lpm.experiments.experiment import load_experiment
from lpm.report.analysis import Analysis, analyse
from lpm.report.export import latex_table, markdown_scores, scores_csv
from lpm.report.html import page
from lpm.report.pages import write_pages
from lpm.report.ranking import reasons
from lpm_paper import PAPER
from lpm_paper.verdicts import claims_once, claims_table, cost_table, judge, numbers_once, summary


def maze(scale: str, shift: float = 0.0, methods: tuple[str, ...] = ("lpm", "rnd"), seeds: int = 8) -> Evidence:
    """Made up: LPM ahead of the others by `shift`, with the noise wall."""
    experiment = load_experiment("maze")
    labels = {m: experiment.methods[m].label for m in methods}
    scores = []
    for i, method in enumerate(methods):
        values = {s: 500.0 + 20 * s + shift * (method == "lpm") + 7 * (s * (i + 3) % 5) for s in range(seeds)}
        scores.append(Score("state", "cells", method, values))
    return Evidence(
        name="maze", title="Maze", place="Figure 3", about=(), scale=scale, methods=labels,
        conditions={"state": "noise wall"}, metrics={"cells": "cells"},
        scores=tuple(scores), claims=experiment.claims, seconds=dict.fromkeys(methods, 60.0),
    )  # fmt: skip


def test_every_claim_of_the_paper_is_there_even_without_runs():
    judged = judge([])
    assert len(judged) == sum(len(load_experiment(name).claims) for name in PAPER.experiments)
    assert {j.result.verdict for j in judged} == {"not run"}
    assert summary([]).startswith(f"Of the paper's {len(judged)} claims, 0 hold")
    assert cost_table([]).count("not measured") == sum("–" in row for row in cost_table([]).splitlines()[2:])


def test_the_largest_scale_at_which_a_claim_was_run_counts():
    short, long = analyse(maze("short", -400.0, ("lpm", "rnd", "ama"))), analyse(maze("long", 400.0))
    for given in ([short, long], [long, short]):
        found = {
            (c.worse, c.condition): a.evidence.scale for (_, c), (a, r) in claims_once(given).items() if r.corrected
        }
        assert found == {("rnd", "state"): "long", ("ama", "state"): "short"}
        verdicts = {j.claim.worse: j for j in judge(given) if j.scale}
        assert (verdicts["rnd"].result.verdict, verdicts["rnd"].scale) == ("holds", "long")
        assert (verdicts["ama"].result.verdict, verdicts["ama"].scale) == ("contradicted", "short")
    assert "opposite: p " in claims_table([short], "maze")
    # the page counts each claim once
    total = len(load_experiment("maze").claims)
    assert f"<small>of {total}</small></b>of the paper" in page([short, long])
    # and two sections of one experiment are told apart
    assert all(f">maze ({scale})</a>" in page([short, long]) for scale in ("short", "long"))
    assert ">maze</a>" in page([short])


def test_a_larger_scale_with_too_few_seeds_to_settle_anything_does_not_count():
    short, first = analyse(maze("short", -400.0)), analyse(maze("long", 400.0, seeds=2))
    for given in ([short, first], [first, short]):
        (rnd,) = (j for j in judge(given) if j.scale)
        assert (rnd.result.verdict, rnd.scale) == ("contradicted", "short")
    (rnd,) = (j for j in judge([first]) if j.scale)
    assert (rnd.result.verdict, rnd.scale) == ("undecided", "long")
    undecided = analyse(maze("long", 0.0))  # enough, and they do not agree
    (rnd,) = (j for j in judge([short, undecided]) if j.scale)
    assert (rnd.result.verdict, rnd.scale) == ("undecided", "long")


def test_what_was_not_run_counts_in_the_correction():
    """Ten claims are ten chances, whichever of them were run first."""
    (one,) = (r for r in analyse(maze("short", 400.0, seeds=4)).claims if r.corrected)
    assert one.comparison is not None
    claims = len(load_experiment("maze").claims)
    assert one.corrected == pytest.approx(claims * one.comparison.p)


def test_a_claim_is_corrected_for_those_that_are_not_yet_settled():
    """The second of two is held to the whole level, and so is whether its seeds could settle it."""
    experiment = load_experiment("maze")
    both = [c for c in experiment.claims if c.condition == "state" and c.worse in ("rnd", "ama")]
    given = maze("long", 400.0, ("lpm", "rnd", "ama"), seeds=7)
    few = dataclasses.replace(given.scores[2], values={0: 0.0, 1: 1.0})  # 7 and 2 seeds: p is at least 1/36
    found = analyse(dataclasses.replace(given, scores=(*given.scores[:2], few), claims=tuple(both)))
    settled = {r.claim.worse: (r.verdict, r.enough) for r in found.claims}
    assert 1 / 36 < 0.05 < 2 / 36
    assert settled == {"rnd": ("holds", True), "ama": ("holds", True)}


def test_one_seed_of_a_larger_scale_replaces_no_number():
    def with_number(scale: str, seeds: int) -> Analysis:
        given = maze(scale, seeds=seeds)
        paper = load_experiment("maze").paper["state", "cells", "lpm"]
        return analyse(dataclasses.replace(given, scores=(dataclasses.replace(given.scores[0], paper=paper),)))

    short, one, two = with_number("short", 8), with_number("long", 1), with_number("long", 2)
    for given, seeds in (([short, one], 8), ([one, short], 8), ([short, two], 2), ([one], 1)):
        (cell,) = numbers_once(given).values()
        assert cell.summary.n == seeds


def test_an_open_claim_names_seeds_and_time():
    (rnd,) = (j for j in judge([analyse(maze("short", 8.0))]) if j.scale)
    assert rnd.result.verdict == "undecided"
    assert rnd.result.needed is not None
    assert rnd.result.needed > 8
    assert rnd.budget.startswith(f"{rnd.result.needed:,} seeds each: ")
    assert "% power" in rnd.result.why
    table = claims_table([analyse(maze("short", 8.0))], "maze")
    assert rnd.budget in table
    assert "no runs of" in table


def test_methods_without_runs_go_by_their_labels(tmp_path: Path):
    for seed in range(2):
        stored(tmp_path, "lpm", seed)
    analysis = analysed(tmp_path)
    assert list(analysis.methods) == ["lpm"]
    why = {(r.claim.better, r.claim.worse): r.why for r in analysis.claims}
    assert why["lpm", "etd"] == "no runs of ETD"
    assert why["icm", "etd"] == "no runs of ICM and ETD"
    judged = {(j.claim.better, j.claim.worse): j.result.why for j in judge([analysis]) if j.experiment == "lava"}
    assert judged == why
    (unseen,) = (j for j in judge([]) if (j.experiment, j.claim) == ("lava", analysis.claims[3].claim))
    assert unseen.result.why == "no runs of LPM and ETD"


def test_what_the_papers_budget_costs_follows_from_the_speed():
    # 10 runs of 50,000 steps for each of the two methods and both conditions, at 10,000 steps a minute
    rows = cost_table([analyse(maze("short"))]).splitlines()
    (row,) = (row for row in rows if row.startswith("| maze |"))
    assert "| 50,000 | 100 | 167 to 167 | 3.3 hours |" in row
    assert "without AMA, Ensemble, ETD: not measured" in row


def test_one_scale_of_an_experiment_is_ranked():
    short, long = analyse(maze("short", methods=("lpm", "rnd", "ama"))), analyse(maze("long"))
    assert reasons([short, long]) == ["", "at the long scale: the short scale has more methods"]
    small = analyse(maze("short"))
    for given in ([small, long], [long, small]):  # of equals the largest, whatever their order
        said = dict(zip((a.evidence.scale for a in given), reasons(given), strict=True))
        assert said == {
            "short": "at the short scale: the long scale has as many methods and a larger budget",
            "long": "",
        }
    known = analyse(maze("short", methods=("lpm", "rnd", "cell_counts")))  # the count is not ranked
    assert reasons([known, long])[1] == ""


# ---- diverged and unfinished ----------------------------------------------------------------------------------
def stored(folder: Path, method: str, seed: int, **more: object) -> None:
    """A result of the lava experiment as a file, made up."""
    job = load_experiment("lava").job("short", "s9n1", method, seed, folder)
    curves = {"step": [300_000, 600_000], "success": [0.1, 0.5 + 0.01 * seed], "return": [0.1, 0.4]}
    result = {"format": 1, "settings": job.settings, "curves": curves, "seconds": 60.0, "versions": {}, **more}
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.path.write_text(json.dumps(result))


def analysed(folder: Path) -> Analysis:
    (analysis,) = write_pages([folder], folder / "index.html").analyses
    return analysis


def test_a_diverged_run_is_counted_and_named(tmp_path: Path):
    for seed in range(3):
        stored(tmp_path, "lpm", seed)
    reached = {"step": [300_000], "success": [0.2], "return": [0.1]}
    stored(tmp_path, "lpm", 3, curves=reached, diverged="policy (value loss) is nan at step 400,000")
    analysis = analysed(tmp_path)
    cell = analysis.cells["success", "s9n1", "lpm"]
    assert cell.summary.n == 4
    assert cell.score.values[3] == 0.2
    assert cell.score.diverged == (3,)
    assert [w for w in analysis.warnings if "seed 3: diverged: policy (value loss) is nan" in w]
    assert "(1 of 4 diverged)" in markdown_scores(analysis, "success")
    assert "1 diverged" in (tmp_path / "index.html").read_text()
    assert ",1,0:" in scores_csv(analysis)


def test_a_run_that_diverged_early_is_no_better_for_it(tmp_path: Path):
    for seed in range(3):
        stored(tmp_path, "lpm", seed)
        stored(tmp_path, "none", seed, curves={"step": [2048]}, diverged="policy (loss) is nan at step 4,096")
    stored(tmp_path, "lpm", 3, curves={"step": [2048], "success": [0.0]}, diverged="policy (loss) is nan at step 4,096")
    stored(tmp_path, "lpm", 4, curves={"step": []}, diverged="policy (loss) is nan at step 0")
    analysis = analysed(tmp_path)
    half, success = (analysis.cells[metric, "s9n1", "lpm"].score for metric in ("half", "success"))
    assert half.values == {0: 600_000, 1: 600_000, 2: 600_000, 3: 600_000, 4: 600_000}
    assert success.values == {0: 0.5, 1: 0.51, 2: 0.52, 3: 0.0, 4: 0.0}
    assert "(2 of 5 diverged)" in markdown_scores(analysis, "success")
    assert "(3 of 3 diverged)" in markdown_scores(analysis, "success")  # a method that always does keeps its row
    assert "(2 of 5 diverged)" in latex_table(analysis, "success")


def test_a_claim_names_runs_that_diverged(tmp_path: Path):
    for seed in range(3):
        stored(tmp_path, "lpm", seed)
        stored(tmp_path, "rnd", seed, **({"diverged": "policy (loss) is nan"} if seed else {}))
    analysis = analysed(tmp_path)
    why = {r.claim.worse: r.why for r in analysis.claims if r.claim.better == "lpm"}
    assert "(2 runs diverged)" in why["rnd"]
    assert "(2 runs diverged)" in claims_table([analysis], "lava")


def test_a_table_of_an_unfinished_sweep_says_so(tmp_path: Path):
    for seed in range(2):
        stored(tmp_path, "lpm", seed)
    for seed in range(5):
        stored(tmp_path, "none", seed)
    analysis = analysed(tmp_path)
    said = analysis.evidence.unfinished
    methods = load_experiment("lava").default_methods("short")
    assert said.startswith(f"Not complete: 7 of {5 * len(methods)} runs of `--scale short`. No runs of LGN; ")
    assert said.endswith("Fewer than 5 seeds: LPM in 9 × 9, one crossing (2).")
    assert said in markdown_scores(analysis, "success")
    assert "7 of" in (tmp_path / "index.html").read_text()


def test_a_finished_sweep_says_nothing(tmp_path: Path):
    for method in load_experiment("lava").default_methods("short"):
        for seed in range(5):
            stored(tmp_path, method, seed)
    assert analysed(tmp_path).evidence.unfinished == ""


def test_counts_are_of_the_verdicts():
    judged = judge([analyse(maze("long", 400.0))])
    counts = Counter(j.result.verdict for j in judged)
    assert counts["holds"] == 1
    assert f"{counts['holds']} hold, 0 are contradicted" in summary([analyse(maze("long", 400.0))])


@pytest.mark.parametrize("scale", ["smoke"])
def test_smoke_runs_ask_for_no_seeds(scale: str):
    evidence = dataclasses.replace(maze(scale), claims=load_experiment("maze").claims)
    results = [r for r in analyse(evidence).claims if r.verdict != "not run"]
    assert {(r.verdict, r.needed) for r in results} == {("undecided", None)}
