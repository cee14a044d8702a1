"""The bar of a sweep: resumed and repeated work counts once, and not as speed. Locks end with their owner."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_for
from rich.console import Console

from lpm.storage.lock import BusyError, exclusive
from lpm.sweeps import Job, progress
from lpm.sweeps.job import Ticks
from lpm.sweeps.progress import SweepState


def sweep(*units: int, console: Console | None = None) -> SweepState:
    jobs = [Job(f"job {index}", Path(f"{index}.json"), {}, amount) for index, amount in enumerate(units)]
    return SweepState(jobs, console or Console(file=io.StringIO(), width=200))


def test_resumed_work_is_done_but_not_speed() -> None:
    state = sweep(100, 100)
    state.started(0)
    state.ticked(0, 60, resumed=True)
    state.ticked(0, 10, resumed=False)
    assert (sum(state.done), state.worked) == (70, 10)
    assert state.left(elapsed=5.0) == pytest.approx(130 * 5.0 / 10)


def test_a_lost_attempt_is_work_to_do_again() -> None:
    state = sweep(100)
    state.ticked(0, 50, resumed=False)
    state.started(0)
    assert state.done == [0]
    state.ticked(0, 40, resumed=True)
    assert (state.done, state.worked) == ([40], 50)


def test_an_ended_job_leaves_nothing_to_do_and_late_reports_change_nothing() -> None:
    state = sweep(100, 20)
    assert state.left(elapsed=1.0) is None
    state.ticked(0, 500, resumed=False)  # more than it promised
    assert state.done == [100, 0]
    state.failed(1, "it broke")
    state.ticked(1, 5, resumed=False)
    state.started(1)
    assert state.done == [100, 20]
    assert state.left(elapsed=1.0) == 0
    assert state.failures == ["job 1: it broke"]


def test_ticks_are_gathered_and_the_first_one_of_a_resumed_run_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpm.sweeps.job.TICK_SECONDS", 1e9)
    reports: list[tuple[int, bool]] = []
    ticks = Ticks(lambda units, resumed: reports.append((units, resumed)), resumes=True)
    ticks(30)
    for _ in range(5):
        ticks(2)
    ticks.flush()
    ticks.flush()
    assert reports == [(30, True), (10, False)]


def test_a_log_file_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    out = io.StringIO()
    with sweep(10, 10, console=Console(file=out, width=200)) as state:
        state.ticked(0, 5, resumed=True)
        state.failed(1, "x")
    assert "1/2 runs, 75 %, –/s, 0:00:00 elapsed, – left" in out.getvalue()


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    out = io.StringIO()
    job = Job("one", tmp_path / "seed_0.json", {}, 10)
    with SweepState([job], Console(file=out, force_terminal=True, width=120)) as state:
        state.ticked(0, 10, resumed=False)
        state.finished(0, b'{"a": 1}')
    assert state.results == {job.path: {"a": 1}}
    assert "1/1 runs" in out.getvalue()
    assert "100 %" in out.getvalue()


def test_a_lock_is_for_one_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        exclusive(path, "test"),
        pytest.raises(BusyError, match=rf"is held by process {os.getpid()} on "),
        exclusive(path, "test"),
    ):
        pass
    assert not path.exists()
    with exclusive(path, "test"):
        pass


HOLD = """
import sys, time
from pathlib import Path
from lpm.storage.lock import exclusive
with exclusive(Path(sys.argv[1]), "test"):
    time.sleep(60)
"""


def test_a_lock_ends_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(path)])
    wait_for(lambda: path.exists() and f"process {owner.pid} on" in path.read_text())
    with pytest.raises(BusyError, match=f"process {owner.pid} on"), exclusive(path, "test", wait=0.1):
        pass
    owner.kill()
    owner.wait()
    assert path.exists()
    with exclusive(path, "test"):
        pass
