"""Figures and tables for papers."""

from __future__ import annotations

import csv
import dataclasses
import io

import numpy as np
from synthetic_evidence import hostile, mountain_car, one_figure

from lpm.experiments.evidence import Heatmap
from lpm.report import figures as drawing
from lpm.report.analysis import analyse
from lpm.report.export import claims_csv, export, latex, latex_table, markdown_scores, scores_csv
from lpm.report.families import looks
from lpm.report.html import page


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_scores_csv_has_all_digits_and_seeds():
    analysis = analyse(mountain_car(methods=2))
    found = rows(scores_csv(analysis))
    assert len(found) == 6
    first = next(iter(analysis.cells.values()))
    assert float(found[0]["mean"]) == first.summary.mean
    assert found[0]["paper_mean"] == "76.5"
    assert found[0]["values"].split()[0].startswith("0:")
    assert found[0]["verdict"] == first.verdict


def test_markdown_has_a_row_a_method_and_the_papers_number():
    analysis = analyse(mountain_car(methods=2))
    metric = next(iter(analysis.metrics("scores")))
    lines = markdown_scores(analysis, metric).splitlines()
    assert len(lines) == 2 + 2
    assert lines[0].startswith("| method | ")
    cell = next(iter(analysis.cells.values()))
    assert f"paper: 76.5 ± 9.08; {cell.verdict})" in lines[2]
    table = analysis.table(metric)
    best = [(condition, "lpm") in table.best for condition in table.conditions]
    assert [cell.strip().startswith("**") for cell in lines[2].split("|")[2:-1]] == best
    assert markdown_scores(analysis, metric).count("**") == 2 * len(best)


def test_claims_csv():
    found = rows(claims_csv(analyse(mountain_car())))
    assert found[-1]["verdict"] == "not run"
    assert found[-1]["p"] == ""
    assert float(found[0]["p_holm"]) >= float(found[0]["p"])


def test_claims_csv_has_the_difference_of_the_page_where_less_is_better():
    analysis = analyse(mountain_car())
    (row,) = (row for row in rows(claims_csv(analysis)) if row["metric"] == "drop")
    ours, theirs = (analysis.cells["drop", "both", method].summary.mean for method in ("lpm", "rnd"))
    np.testing.assert_allclose(float(row["difference"]), ours - theirs)


def test_csv_cells_are_no_formulas():
    evidence = mountain_car(methods=2)
    bad = dataclasses.replace(evidence.claims[0], text="=HYPERLINK(1)")
    assert rows(claims_csv(analyse(dataclasses.replace(evidence, claims=(bad,)))))[0]["claim"] == "'=HYPERLINK(1)"


def test_latex_escapes_everything_special():
    assert latex("\\a{b}") == r"\textbackslash{}a\{b\}"
    assert latex("1 % of $5 & #2 ~x^2 a_b <i>") == (
        r"1 \% of \$5 \& \#2 \textasciitilde{}x\textasciicircum{}2 a\_b \textless{}i\textgreater{}"
    )


def test_latex_table():
    text = latex_table(analyse(mountain_car(methods=3)), "coverage")
    lines = text.splitlines()
    assert r"\begin{tabular}{lcccc}" in lines
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 2 + 3
    assert all(line.count("&") == 4 for line in body[1:])
    assert r"76.5 $\pm$ 9.08" in text
    assert text.count(r"\textbf{") == 2


def test_latex_table_of_less_is_better_marks_the_least():
    analysis = analyse(mountain_car(methods=3))
    least = min((c for k, c in analysis.cells.items() if k[0] == "drop"), key=lambda c: c.summary.mean)
    (line,) = (line for line in latex_table(analysis, "drop").splitlines() if r"\textbf" in line)
    assert line.startswith(analysis.methods[least.score.method])


def test_a_lone_method_is_nowhere_the_best():
    """Two conditions have two cells, but one method has nobody to beat."""
    analysis = analyse(mountain_car(methods=1))
    assert len(analysis.table("coverage").cells) == 2
    assert r"\textbf" not in latex_table(analysis, "coverage")
    text = page([analysis])
    assert "Best in" not in text
    whole = mountain_car(methods=2)
    both = page([analyse(whole)])
    assert "Best in coverage (%): deterministic: " in both
    first = next(iter(whole.methods))
    part = tuple(s for s in whole.scores if s.condition != "deterministic" or s.method == first)
    table = analyse(dataclasses.replace(whole, scores=part)).table("coverage")
    assert {condition for condition, _ in table.best} == {"stochastic"}


def test_files(tmp_path):
    files = export([analyse(mountain_car(methods=2, points=5))], tmp_path)
    names = {path.name for path in files}
    assert all(path.stat().st_size > 0 for path in files)
    assert names >= {
        "mountain-car-short-scores.csv",
        "mountain-car-short-claims.csv",
        "mountain-car-short-coverage.tex",
        *(f"mountain-car-short-coverage-curves.{kind}" for kind in ("png", "svg", "pdf")),
        *(f"mountain-car-short-visits.{kind}" for kind in ("png", "svg", "pdf")),
    }
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for path in files:
        assert path.read_bytes().startswith(starts.get(path.suffix[1:], b""))


def test_hostile_names_stay_in_the_folder(tmp_path):
    folder = tmp_path / "figures"
    files = export([analyse(hostile())], folder)
    assert all(path.parent == folder for path in files)
    svg = next(path for path in files if path.name.endswith("-curves.svg")).read_text()
    assert "<script>" not in svg


def test_the_same_files_every_time(tmp_path):
    first, second = (export([analyse(one_figure())], tmp_path / part) for part in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_long_names_of_scores_do_not_run_into_each_other():
    evidence = mountain_car(methods=2)
    metric = next(iter(evidence.metrics))
    long = "steps until the bonus stays below 5 % of its first value (never: all)"
    analysis = analyse(dataclasses.replace(evidence, metrics={**evidence.metrics, metric: long}))
    figure = drawing.draw_scores(analysis, metric, looks(["lpm", "ensemble"]))
    figure.draw_without_rendering()
    boxes = sorted((axis.xaxis.label.get_window_extent() for axis in figure.axes), key=lambda box: box.x0)
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[-1].x1 < figure.bbox.x1


def test_heat_maps_have_a_row_per_condition_and_tell_walls_from_what_nobody_visited():
    visits = np.array([[np.nan, 0.0, 3.0]])
    maps = tuple(Heatmap(c, m, visits) for m in ("lpm", "ensemble") for c in ("deterministic", "stochastic"))
    figure = drawing.draw_heatmaps(analyse(dataclasses.replace(mountain_car(methods=2), heatmaps=maps)))
    figure.draw_without_rendering()
    shown = [axis for axis in figure.axes if axis.get_title()]
    places = {axis.get_title(): axis.get_subplotspec() for axis in shown}
    assert {title.split("\n")[1]: place.rowspan.start for title, place in places.items()} == {
        "deterministic": 0,
        "stochastic": 1,
    }
    below, above = shown[0].get_images()
    assert below.get_array()[0, 0] != below.get_array()[0, 1]
    assert above.get_array().mask.tolist() == [[True, True, False]]


def test_the_legend_of_one_panel_stays_on_the_picture():
    evidence = mountain_car(methods=12, points=3)
    metric, condition = next(iter(evidence.metrics)), next(iter(evidence.conditions))
    curves = tuple(curve for curve in evidence.curves if curve.condition == condition)
    analysis = analyse(dataclasses.replace(evidence, curves=curves, scores=()))
    figure = drawing.draw_curves(analysis, metric, looks(list(evidence.methods)))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert len(legend.get_texts()) >= 6
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1


def test_a_condition_where_every_curve_is_zero_has_no_panel_unless_all_have_none():
    evidence = mountain_car(methods=2, points=3)
    metric = next(iter(evidence.metrics))
    still = tuple(dataclasses.replace(c, runs={s: (0.0,) * len(c.steps) for s in c.runs}) for c in evidence.curves)
    half = tuple(s if s.condition == "deterministic" else c for s, c in zip(still, evidence.curves, strict=True))
    for curves, shown in ((evidence.curves, 2), (half, 1), (still, 2)):
        analysis = analyse(dataclasses.replace(evidence, curves=curves))
        figure = drawing.draw_curves(analysis, metric, looks(list(evidence.methods)))
        assert len([axis for axis in figure.axes if axis.get_title()]) == shown
        text = page([analysis])
        assert text.count(": mean over seeds of 2 methods") == shown * len(analysis.metrics("curves"))
        assert ("zero for all methods has no chart" in text) == (shown == 1)


def test_a_condition_with_one_method_alone_has_no_panel_unless_all_have_one():
    evidence = mountain_car(methods=2, points=3)
    metric, one = next(iter(evidence.metrics)), next(iter(evidence.methods))
    clean = tuple(c for c in evidence.curves if c.condition == "deterministic" or c.method == one)
    alone = tuple(c for c in evidence.curves if c.method == one)
    for curves, shown in ((evidence.curves, 2), (clean, 1), (alone, 2)):
        analysis = analyse(dataclasses.replace(evidence, curves=curves))
        figure = drawing.draw_curves(analysis, metric, looks(list(evidence.methods)))
        assert len([axis for axis in figure.axes if axis.get_title()]) == shown


def test_few_lines_are_coloured_and_the_grey_ones_share_an_entry_of_the_legend():
    evidence = mountain_car(methods=12, points=3)
    metric = next(iter(evidence.metrics))
    figure = drawing.draw_curves(analyse(evidence), metric, looks(list(evidence.methods)))
    lines = figure.axes[0].get_lines()
    coloured = [line for line in lines if line.get_color() != drawing.GREY]
    (legend,) = figure.legends
    assert len(coloured) <= 8
    assert [text.get_text() for text in legend.get_texts()] == [
        *(line.get_label() for line in coloured),
        f"{len(lines) - len(coloured)} other methods",
    ]


def test_maps_of_visits_stop_at_what_can_be_read():
    evidence = mountain_car(methods=12, points=3)
    maps = tuple(Heatmap("deterministic", method, np.ones((2, 2))) for method in evidence.methods)
    figure = drawing.draw_heatmaps(analyse(dataclasses.replace(evidence, heatmaps=maps)))
    assert len([axis for axis in figure.axes if axis.get_title()]) == drawing.MOST_COLUMNS
