"""The state of a sweep as it runs: work done, speed, time left, results, failures; and the bar that shows it."""

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from lpm.sweeps.job import Job, Result, finish

LINE_SECONDS = 30.0
"""Between two lines where there is no terminal to draw a bar on."""


class SweepState:
    """What the workers of a sweep report comes here; a job is meant by its index.

    It writes what finishes to its file. As a context it shows a live bar on a terminal, a line now and then elsewhere.
    """

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        self.jobs, self.console = jobs, console
        self.results: dict[Path, Result] = {}
        self.failures: list[str] = []
        self.done = [0] * len(jobs)
        """Work done of every job, in all attempts that count."""
        self.closed: set[int] = set()
        """Jobs that ended, well or not."""
        self.worked = 0
        """Work done by this sweep, lost attempts included, resumed work not: what speed is measured by."""
        self.total = sum(job.units for job in jobs)
        self.begun = self.shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}"))
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=max(self.total, 1), rest="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.waiting()
        self.bar.stop()

    # ---- what the workers report ------------------------------------------------------------------------------
    def started(self, index: int) -> None:
        """An attempt at a job has begun; what an earlier one did counts only if it is resumed."""
        if index not in self.closed:
            self.done[index] = 0

    def ticked(self, index: int, units: int, resumed: bool) -> None:
        """A run has done some work, in an earlier attempt if `resumed`. Ray's reports may come after the job's end."""
        if index not in self.closed:
            self.done[index] = min(self.done[index] + units, self.jobs[index].units)
        if not resumed:
            self.worked += units
        self.waiting()

    def died(self, index: int, reason: str) -> None:
        """The process of a job has died; it is tried again."""
        self.log(f"[yellow]again[/yellow] {escape(self.jobs[index].name)}: {escape(reason)}")

    def finished(self, index: int, content: bytes) -> None:
        """A job has a result: the content of its file."""
        job = self.jobs[index]
        self._close(index)
        try:
            finish(job, content)
            self.results[job.path] = json.loads(content)
        except OSError as problem:
            self.failed(index, f"its result cannot be written: {problem}")

    def failed(self, index: int, reason: str) -> None:
        self._close(index)
        self.failures.append(f"{self.jobs[index].name}: {reason}")
        self.log(f"[red]failed[/red] {escape(self.failures[-1])}")

    def waiting(self) -> None:
        """Show the work as it is now; called now and then so that clocks go on."""
        now = time.monotonic()
        elapsed, completed, left = now - self.begun, sum(self.done), self.left(now - self.begun)
        rate = f"{self.worked / elapsed:,.0f}/s" if self.worked and elapsed > 0 else "–/s"
        rest = f"{100 * completed // max(self.total, 1)} %, {rate}, {_clock(elapsed)} elapsed, {_clock(left)} left"
        runs = f"{len(self.closed)}/{len(self.jobs)} runs"
        self.bar.update(self.task, description=runs, completed=completed, rest=rest)
        if self.bar.disable and now - self.shown >= LINE_SECONDS:
            self.shown = now
            self.log(f"{runs}, {rest}")

    def left(self, elapsed: float) -> float | None:
        """Seconds left at the speed so far; None if there is no speed yet."""
        open_work = self.total - sum(self.done)
        return 0.0 if not open_work else open_work * elapsed / self.worked if self.worked else None

    def log(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=True)

    def _close(self, index: int) -> None:
        self.done[index] = self.jobs[index].units
        self.closed.add(index)


def _clock(seconds: float | None) -> str:
    return "–" if seconds is None else str(timedelta(seconds=round(seconds)))
