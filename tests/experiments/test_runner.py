"""Worker processes: results on disk, continuing, failures that do not stop the others."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lpm.experiments.runner import Job, load_result, run_jobs


def double(settings: dict[str, Any], tick: Callable[[int], None]) -> dict[str, Any]:
    tick(1)
    if settings["x"] < 0:
        raise ValueError("negative")
    return {"y": 2 * settings["x"], "when": time.time()}


def jobs(folder: Path, values: tuple[int, ...]) -> list[Job]:
    return [Job(f"x={x}", folder / f"{i}.json", {"x": x}, 1) for i, x in enumerate(values)]


def quiet() -> Console:
    return Console(quiet=True)


def test_results_are_kept_and_not_run_again(tmp_path: Path) -> None:
    first, _ = run_jobs(jobs(tmp_path, (1, 2)), double, workers=1, console=quiet())
    again, failures = run_jobs(jobs(tmp_path, (1, 2, 3)), double, workers=1, console=quiet())
    assert [r["y"] for r in again] == [2, 4, 6]
    assert again[:2] == first
    assert failures == []


def test_a_failure_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    results, failures = run_jobs(jobs(tmp_path, (-1, 5)), double, workers=1, console=quiet())
    assert [r["y"] for r in results] == [10]
    assert failures == ["x=-1: ValueError: negative"]
    assert not (tmp_path / "0.json").exists()


def test_other_settings_are_never_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text(json.dumps({"settings": {"x": 7}, "y": 14}))
    with pytest.raises(ValueError, match=r"other settings \(x: 7 there, 1 now\); use another --out or delete it"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet())


def test_a_half_written_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text('{"settings": {"x"')
    with pytest.raises(ValueError, match=r"0\.json: expected a result file, but it cannot be read"):
        load_result(jobs(tmp_path, (1,))[0])


def test_workers_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=0, console=quiet())
