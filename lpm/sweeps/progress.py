"""Progress of a whole sweep: runs, work per second, time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

LINE_SECONDS = 30.0
"""Between two lines where there is no terminal to draw a bar on."""


@dataclass
class WorkDone:
    """How much of a sweep's work is done."""

    units: Sequence[int]
    """Amount of work of every job."""
    done: list[int] = field(init=False)
    """Work done of every job, in all attempts that count."""
    closed: set[int] = field(default_factory=set)
    """Jobs that ended, well or not."""
    worked: int = 0
    """Work done by this sweep, lost attempts included, resumed work not: what speed is measured by."""

    def __post_init__(self) -> None:
        self.done = [0] * len(self.units)

    def start(self, index: int) -> None:
        """An attempt begins; what an earlier one did counts only if it is resumed."""
        if index not in self.closed:
            self.done[index] = 0

    def tick(self, index: int, units: int, resumed: bool) -> None:
        """Work of a job. Ray's reports may come after the job's end."""
        if index not in self.closed:
            self.done[index] = min(self.done[index] + units, self.units[index])
        if not resumed:
            self.worked += units

    def close(self, index: int) -> None:
        """A job ended: nothing is left of it to do."""
        self.done[index] = self.units[index]
        self.closed.add(index)

    @property
    def total(self) -> int:
        """Work of all jobs."""
        return sum(self.units)

    @property
    def completed(self) -> int:
        """Work done of all jobs."""
        return sum(self.done)

    def left(self, elapsed: float) -> float | None:
        """Seconds left at the speed so far; None if there is no speed yet."""
        if self.completed >= self.total:
            return 0.0
        return (self.total - self.completed) * elapsed / self.worked if self.worked else None


class Bar:
    """Shows the work done: a live bar on a terminal, a line now and then in a log file."""

    def __init__(self, work: WorkDone, console: Console) -> None:
        self.work, self.console = work, console
        self.started = self.shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}"))
        self.live = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.live.add_task(*self._texts()[:1], total=max(work.total, 1), rest=self._texts()[1])

    def __enter__(self) -> Bar:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self.live.stop()

    def say(self, text: str) -> None:
        """Print above the bar."""
        self.console.print(text, soft_wrap=True, markup=True)

    def refresh(self) -> None:
        """Show the work as it is now."""
        runs, rest = self._texts()
        self.live.update(self.task, description=runs, completed=self.work.completed, rest=rest)
        if self.live.disable and time.monotonic() - self.shown >= LINE_SECONDS:
            self.shown = time.monotonic()
            self.say(f"{runs}, {rest}")

    def _texts(self) -> tuple[str, str]:
        work, elapsed = self.work, time.monotonic() - self.started
        left = work.left(elapsed)
        share = 100 * work.completed // max(work.total, 1)
        rate = f"{work.worked / elapsed:,.0f}/s" if work.worked and elapsed > 0 else "–/s"
        rest = f"{share} %, {rate}, {_clock(elapsed)} elapsed, {'–' if left is None else _clock(left)} left"
        return f"{len(work.closed)}/{len(work.units)} runs", rest


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
