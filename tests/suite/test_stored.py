"""Cards in files: those of others are checked, and a bad one does not take the rest with it."""

import copy
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from test_axes import CELL_COUNTS, OWN, RANDOM

from lpm.experiments.experiment import parse_method
from lpm.suite import axes, scorecard
from lpm.suite.axes import Runs
from lpm.suite.page import scorecard_page
from lpm.suite.scorecard import (
    in_order,
    make_scorecard,
    packaged_references,
    packaged_scorecards,
    read_scorecard,
    read_scorecards,
)
from lpm_paper import leaderboard
from lpm_paper.leaderboard import ranked, stability

ROOT = Path(__file__).resolve().parents[2]


def whole(runs: Runs) -> Runs:
    """Only conditions of environments that a scorecard would have whole: the car's."""
    return Runs(
        runs.seeds, {cell: metrics for cell, metrics in runs.cells.items() if cell[0] == "car"}, runs.noise_rewards
    )


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(axes, "RESAMPLES", 20)
    monkeypatch.setattr(scorecard, "packaged", dict)
    return make_scorecard("rnd", parse_method("rnd"), "short", whole(OWN), whole(RANDOM), whole(CELL_COUNTS))


def load_tool(name: str) -> ModuleType:
    if (tools := str(ROOT / "tools")) not in sys.path:  # where Python looks when the tool is started by its path
        sys.path.append(tools)
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def change(card: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(card)
    *way, last = place.split(".")
    at = changed
    for key in way:
        at = at[key]
    at[last] = value
    return changed


def test_what_was_written_is_read(card: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "rnd.json"
    path.write_text(json.dumps(card))
    assert read_scorecard(path) == json.loads(json.dumps(card))


@pytest.mark.parametrize(("place", "value"), [("format", "other"), ("suite", 99)])
def test_another_format_or_version_is_refused_by_name(
    place: str, value: Any, card: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(change(card, place, value)))
    with pytest.raises(ValueError, match=rf"theirs\.json: expected .*{value}"):
        read_scorecard(path)


def test_damaged_files_leave_the_rest_of_the_leaderboard(
    card: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.json").write_text(json.dumps(card))
    (tmp_path / "cut.json").write_text(json.dumps(card)[:100])
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "nan.json").write_text(json.dumps(card).replace("0.75", "NaN"))
    cards, warnings = read_scorecards(tmp_path)
    assert [one["name"] for one in cards] == ["rnd"]
    assert len(warnings) == 5
    assert all(str(tmp_path) in warning and "expected" in warning for warning in warnings)

    tool = importlib.import_module("lpm_paper.refresh")
    monkeypatch.setattr(leaderboard, "FOLDER", tmp_path)
    page = tool.refreshed("<!-- suite leaderboard -->\n<!-- end --> <!-- suite picture --><!-- end -->", {})
    assert "| 1 | `rnd`† | 0.50 |" in page
    assert "rooms, onehot, maze, task" in page
    assert "images/suite.png" in page
    monkeypatch.setattr(leaderboard, "FOLDER", tmp_path / "nowhere")
    with pytest.raises(SystemExit, match=r"docs/suite\.md: <!-- suite leaderboard -->: no scorecards"):
        tool.refreshed("<!-- suite leaderboard --><!-- end -->", {}, "docs/suite.md")


def test_the_package_carries_references_and_short_cards(card: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    content = load_tool("suite_cards").baselines({"random": whole(RANDOM), "cell_counts": whole(CELL_COUNTS)}, [card])
    monkeypatch.setattr(scorecard, "packaged", lambda: json.loads(json.dumps(content))["scales"])
    assert packaged_scorecards("short")[0]["total"] == card["total"]
    cell_counts = packaged_references("short")["cell_counts"]
    assert cell_counts.cells["car", "clean"]["cells"].tolist() == [80, 80]


def test_the_cards_of_the_project_keep_what_the_suite_promises() -> None:
    """Whatever results/suite holds: every card valid, both ends on fresh seeds at 0 and 1, ranks that seeds keep."""
    cards, warnings = read_scorecards(ROOT / "results" / "suite")
    assert warnings == []
    for card in cards:
        if card["policy"] != "learnt" and not card["missing"]:
            exact = {"uniform": 0.0, "cell_counts": 1.0}[card["policy"]]
            assert card["total"]["value"] == pytest.approx(exact, abs=0.05)
            assert not set(card["seeds"]) & set(card["reference_seeds"])
    if len(ranked(cards)) >= 12:
        assert stability(ranked(cards)) >= 0.8


def test_the_tool_scores_the_references_own_fresh_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seeds make the scale, the others are scored on it, and no reference enters the ranking."""
    monkeypatch.setattr(axes, "RESAMPLES", 20)
    tool = load_tool("suite_cards")
    monkeypatch.setattr(tool, "SCALE", "smoke")
    cells = {"random": (20, 22), "cell_counts": (80, 78), "rnd": (50, 50)}
    for name, (scale, fresh) in cells.items():
        for seed in range(4):
            for condition in ("clean", "action"):
                visits = [1] * (scale if seed < 2 else fresh) + [0] * 20
                settings = {"suite": 1, "experiment": "suite-car", "condition": condition, "method": name, "seed": seed}
                result = {"settings": {**settings, "scale": "smoke"}, "visits": visits, "seconds": 1.0}
                result |= {"curves": {"step": [1.0], "noise_share": [0.5]}, "time_shares": {"bonus": 0.0}}
                path = tmp_path / "runs" / "car" / condition / name / f"seed_{seed}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(result))
    references, cards = tool.make_cards(tool.stored_runs([tmp_path]), 2)
    assert {name: runs.seeds for name, runs in references.items()} == {"random": (0, 1), "cell_counts": (0, 1)}
    totals = {card["name"]: card["total"]["value"] for card in cards}
    assert totals == pytest.approx({"random": 2 / 60, "cell_counts": 58 / 60, "rnd": 0.5}, abs=1e-3)
    assert [card["name"] for card in ranked(cards)] == ["rnd"]
    assert [card["seeds"] for card in cards if card["name"] == "cell_counts"] == [[2, 3]]


def test_ranks_that_do_not_depend_on_the_seeds_are_stable(
    card: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_cells(*cells: float) -> dict[str, Any]:
        again = copy.deepcopy(card)
        for numbers in again["conditions"].values():
            numbers["cells"] = list(cells)
        return again

    plain = load_tool("suite_cards").baselines({"random": whole(RANDOM), "cell_counts": whole(CELL_COUNTS)}, [])[
        "scales"
    ]
    monkeypatch.setattr(scorecard, "packaged", lambda: plain)
    assert stability([with_cells(level, level + 1) for level in (20, 30, 40, 50)]) == pytest.approx(1.0)
    assert stability([with_cells(level, 80 - level) for level in (20, 30, 45, 50)]) == pytest.approx(-1.0)
    assert np.isnan(stability([card, card]))


def test_whole_cards_come_before_higher_ones_that_lack_environments(card: dict[str, Any]) -> None:
    complete = {**card, "name": "whole", "missing": [], "total": {"value": 0.1, "low": 0, "high": 1}}
    assert [one["name"] for one in in_order([card, complete])] == ["whole", "rnd"]


def test_page_and_picture_hold_what_was_typed_as_text(card: dict[str, Any]) -> None:
    card = {**card, "label": "<script>alert(1)</script> $x$", "name": "mine"}
    page = scorecard_page(card, [{**card, "name": "other"}], [])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "Not run, and not in the total" in page
    assert re.search(r"(src|href|url)\W+http", page) is None
    assert leaderboard.png([card]).startswith(b"\x89PNG")
