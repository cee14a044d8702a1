"""The planner of large runs: its arithmetic, its command, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "plan_run.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("plan_run", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plan_run"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.json"
    words = ["lpm/MountainCar-v0", "--steps", "2e5", "--bonus", "lgn"]
    measured = [{"processes": 1, "steps_per_second": 500.0}, {"processes": 4, "steps_per_second": 1000.0}]
    path.write_text(json.dumps({"train": words, "rates": measured}))
    return path


def test_hours_and_cost(tool: Any, rates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([str(rates), "--steps", "3.6e6", "--runs", "3", "--machines", "2", "--price", "1.5"]) == 0
    out = capsys.readouterr().out
    assert "| 1 | 500 | 2.00 | 4.00 | 6.00 | 9.00 |" in out
    assert "| 4 | 1,000 | 1.00 | 2.00 | 3.00 | 4.50 |" in out
    start = "torchrun --standalone --nproc-per-node 4 -m lpm train lpm/MountainCar-v0 --bonus lgn"
    assert f"{start} --steps 3600000 --seed SEED --out runs/SEED" in out


def test_no_price_is_made_up(tool: Any, rates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([str(rates), "--steps", "1e6"]) == 0
    assert "| not given |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0"], "steps: expected a number above 0, got 0.0"),
        (["--steps", "1", "--runs", "0"], "runs: expected a number above 0, got 0"),
        (["--steps", "1", "--price", "-1"], "price: expected a number of at least 0"),
    ],
)
def test_bad_numbers_are_refused(
    tool: Any, rates: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main([str(rates), *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "{", "[]", '{"train": [], "rates": [{"processes": 1}]}'])
def test_other_files_are_refused(
    tool: Any, tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    assert tool.main([str(path), "--steps", "1"]) == 1
    assert "expected the file that benchmarks/processes.py writes" in capsys.readouterr().err
