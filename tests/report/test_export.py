"""Figures and tables for papers."""

from __future__ import annotations

import csv
import dataclasses
import io

from synthetic_evidence import hostile, mountain_car

from lpm.report.analysis import analyse
from lpm.report.export import claims_csv, export, latex, latex_table, markdown_scores, scores_csv


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


def test_claims_csv():
    found = rows(claims_csv(analyse(mountain_car())))
    assert found[-1]["verdict"] == "not run"
    assert found[-1]["p"] == ""
    assert float(found[0]["p_holm"]) >= float(found[0]["p"])


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


def test_files(tmp_path):
    files = export([analyse(mountain_car(methods=2, points=5))], tmp_path)
    names = {path.name for path in files}
    assert all(path.stat().st_size > 0 for path in files)
    assert names >= {
        "mountain-car-desk-scores.csv",
        "mountain-car-desk-claims.csv",
        "mountain-car-desk-coverage.tex",
        *(f"mountain-car-desk-coverage-curves.{kind}" for kind in ("png", "svg", "pdf")),
        *(f"mountain-car-desk-visits.{kind}" for kind in ("png", "svg", "pdf")),
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
    small = dataclasses.replace(mountain_car(methods=2, points=3), curves=(), heatmaps=())
    first, second = (export([analyse(small)], tmp_path / part) for part in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
