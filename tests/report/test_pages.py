"""From result files to a page, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from synthetic_evidence import LABELS, mountain_car, one_figure

from lpm.commands import report
from lpm.experiments.evidence import Evidence
from lpm.report import pages


def write(folder: Path, seed: int, **changes: Any) -> None:
    settings = {"experiment": "maze", "scale": "short", "condition": "c", "method": "lpm", "seed": seed} | changes
    path = folder / "runs" / settings["method"] / f"seed_{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "settings": settings, "scores": {"coverage": 1.0}}))


def experiment(evidence: Any) -> Any:
    """As much of an experiment as a page needs."""
    made = SimpleNamespace(
        evidence=evidence, methods={name: SimpleNamespace(label=label) for name, label in LABELS.items()}
    )
    made.opened = lambda methods: made
    return made


@pytest.fixture(autouse=True)
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the experiment, its evidence is the synthetic one; that of `lava` cannot be computed."""

    def evidence(name: str, results: list[Any]) -> Evidence:
        if name == "lava":
            raise KeyError("visits")
        return mountain_car(methods=2, points=4)

    monkeypatch.setattr(pages, "load_experiment", lambda n: experiment(lambda results: evidence(n, results)))


def test_writes_a_page_and_says_where(tmp_path, capsys):
    write(tmp_path / "maze", 0)
    out = tmp_path / "page.html"
    assert report.run([str(tmp_path), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"Page: {out}" in said
    assert "mountain-car (short): numbers:" in said
    assert "</html>" in out.read_text(encoding="utf-8")


def test_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pages, "load_experiment", lambda n: experiment(lambda results: one_figure()))
    write(tmp_path, 0)
    assert report.run([str(tmp_path), "--out", str(tmp_path / "p.html"), "--figures", str(tmp_path / "f")]) == 0
    assert (tmp_path / "f" / "mountain-car-short-coverage.tex").exists()
    assert "Figures and tables" in capsys.readouterr().out


def test_nothing_to_read_is_an_error(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "seed_0.json").write_text("{")
    out = tmp_path / "page.html"
    assert report.run([str(tmp_path), "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert "not a complete JSON file" in said
    assert "nothing to show" in said
    assert not out.exists()


def test_no_folder_is_an_error():
    with pytest.raises(ValueError, match="at least one folder"):
        report.run([])


def test_one_broken_experiment_does_not_stop_the_others(tmp_path):
    write(tmp_path / "a", 0)
    write(tmp_path / "b", 0, experiment="lava")
    written = pages.write_pages([tmp_path], tmp_path / "out", failures=["rnd, seed 3: out of memory"])
    assert written.page == tmp_path / "out" / "index.html"
    assert len(written.analyses) == 1
    assert "failed: rnd, seed 3: out of memory" in written.warnings
    assert any(w.startswith("lava short: left out: KeyError") for w in written.warnings)
    text = written.page.read_text(encoding="utf-8")
    assert "out of memory" in text
    assert "lava short: left out" in text


def test_scales_stand_in_the_order_of_their_budgets(tmp_path, monkeypatch):
    def evidence(results: list[Any]) -> Evidence:
        return replace(mountain_car(methods=2, points=4), scale=results[0]["settings"]["scale"])

    monkeypatch.setattr(pages, "load_experiment", lambda n: experiment(evidence))
    scales = ["smoke", "short", "long", "paper"]
    for scale in reversed(scales):
        write(tmp_path / scale, 0, scale=scale)
    written = pages.write_pages([tmp_path], tmp_path / "page.html")
    assert [analysis.evidence.scale for analysis in written.analyses] == scales
    assert "Runs at the smoke and short and long scale" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_one_unusable_file_is_named_and_does_not_cost_the_experiment(tmp_path, monkeypatch):
    def evidence(results: list[Any]) -> Evidence:
        for result in results:
            int(result.get("visits", 0))
        return mountain_car(methods=2, points=4)

    monkeypatch.setattr(pages, "load_experiment", lambda n: experiment(evidence))
    for seed in range(3):
        write(tmp_path, seed)
    bad = tmp_path / "runs" / "lpm" / "seed_1.json"
    bad.write_text(json.dumps(json.loads(bad.read_text()) | {"visits": "none"}))
    written = pages.write_pages([tmp_path], tmp_path / "page.html")
    assert len(written.analyses) == 1
    (warning,) = (w for w in written.warnings if str(bad) in w)
    assert "skipped: ValueError" in warning


def test_warnings_of_a_group_are_on_the_page(tmp_path):
    for seed in range(3):
        write(tmp_path, seed)
    write(tmp_path, 3, steps=7)
    written = pages.write_pages([tmp_path], tmp_path / "page.html")
    assert any("mixed configurations" in w for w in written.warnings)
    assert written.page is not None
    assert "mixed configurations" in written.page.read_text(encoding="utf-8")


def test_a_group_of_which_nothing_is_left(tmp_path):
    write(tmp_path, 0)
    write(tmp_path, 1, steps=7)
    written = pages.write_pages([tmp_path], tmp_path / "page.html")
    assert written.page is None
    assert any("no run is left" in w for w in written.warnings)
