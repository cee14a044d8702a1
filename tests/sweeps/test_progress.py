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
from lpm.sweeps import progress
from lpm.sweeps.job import Ticks
from lpm.sweeps.progress import Bar, WorkDone


def test_resumed_work_is_done_but_not_speed() -> None:
    work = WorkDone([100, 100])
    work.start(0)
    work.tick(0, 60, resumed=True)
    work.tick(0, 10, resumed=False)
    assert (work.completed, work.worked) == (70, 10)
    assert work.left(elapsed=5.0) == pytest.approx(130 * 5.0 / 10)


def test_a_lost_attempt_is_work_to_do_again() -> None:
    work = WorkDone([100])
    work.tick(0, 50, resumed=False)
    work.start(0)
    assert work.completed == 0
    work.tick(0, 40, resumed=True)
    assert (work.completed, work.worked) == (40, 50)


def test_an_ended_job_leaves_nothing_to_do_and_late_reports_change_nothing() -> None:
    work = WorkDone([100, 20])
    assert work.left(elapsed=1.0) is None
    work.tick(0, 500, resumed=False)  # more than it promised
    assert work.completed == 100
    work.close(1)
    work.tick(1, 5, resumed=False)
    work.start(1)
    assert work.completed == work.total == 120
    assert work.left(elapsed=1.0) == 0


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
    work = WorkDone([10, 10])
    with Bar(work, Console(file=out, width=200)) as bar:
        work.tick(0, 5, resumed=True)
        work.close(1)
        bar.refresh()
    assert "1/2 runs, 75 %, –/s, 0:00:00 elapsed, – left" in out.getvalue()


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    work = WorkDone([10])
    with Bar(work, Console(file=out, force_terminal=True, width=120)):
        work.tick(0, 10, resumed=False)
        work.close(0)
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
