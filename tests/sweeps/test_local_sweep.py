"""Worker processes: results on disk, continuing, failures that do not stop the others."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lpm.sweeps import Job, Tick, load_result, run_jobs


def double(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
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


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(OSError, match="taken"):
        run_jobs(jobs(tmp_path / "taken", (1,)), double, workers=1, console=quiet())


def test_other_settings_are_never_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text(json.dumps({"format": 1, "settings": {"x": 7}, "y": 14}))
    with pytest.raises(ValueError, match=r"other settings \(x: 7 there, 1 now\); use another --out or delete it"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet())


def test_a_half_written_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text('{"settings": {"x"')
    with pytest.raises(ValueError, match=r"0\.json: expected a result file, but it cannot be read"):
        load_result(jobs(tmp_path, (1,))[0])


SWEEP = """
import sys
from pathlib import Path
from rich.console import Console
from lpm.sweeps import Job, run_jobs
sys.path.insert(0, {here!r})
from test_local_sweep import linger
if __name__ == "__main__":
    job = Job("slow", Path({out!r}), {{"started": {started!r}}}, 1)
    run_jobs([job], linger, workers=1, console=Console(quiet=True))
"""


def linger(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    Path(settings["started"]).write_text(str(os.getpid()))
    for _ in range(600):
        tick(0)
        time.sleep(0.05)
    return {}


def test_workers_of_a_killed_sweep_stop_and_write_nothing(tmp_path: Path) -> None:
    started, out, script = tmp_path / "started", tmp_path / "out.json", tmp_path / "sweep.py"
    script.write_text(SWEEP.format(here=str(Path(__file__).parent), out=str(out), started=str(started)))
    sweep = subprocess.Popen([sys.executable, str(script)])
    _wait(lambda: started.exists() and started.read_text() != "")
    sweep.kill()
    sweep.wait()
    worker = int(started.read_text())
    _wait(lambda: not _alive(worker))
    assert not out.exists()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_workers_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=0, console=quiet())
