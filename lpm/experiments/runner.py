"""Run many independent jobs on local worker processes, one result file each; finished ones are never run again."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from lpm.files import write_atomic

Result = dict[str, Any]
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """One run: a function of its settings, and where its result goes."""

    name: str
    """Shown to people, e.g. "lpm, seed 0"."""
    path: Path
    """The result file."""
    settings: dict[str, Any]
    """Everything the result depends on, as JSON; stored with it and compared before a result is reused."""
    units: int
    """Amount of work, for the progress bar."""


_ticks: Queue[int] | None = None


def load_result(job: Job) -> Result | None:
    """The stored result of a job, or None. A file that is not a result of these settings is refused."""
    if not job.path.exists():
        return None
    try:
        stored = json.loads(job.path.read_text())
        settings = stored["settings"]
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{job.path}: expected a result file, but it cannot be read ({problem}); delete it") from None
    if settings != job.settings:
        changed = sorted(k for k in {*settings, *job.settings} if settings.get(k) != job.settings.get(k))
        shown = "; ".join(f"{k}: {settings.get(k)!r} there, {job.settings.get(k)!r} now" for k in changed)
        raise ValueError(f"{job.path} holds a run with other settings ({shown}); use another --out or delete it")
    result: Result = stored
    return result


def run_jobs(
    jobs: Sequence[Job],
    function: Callable[[dict[str, Any], Tick], Result],
    *,
    workers: int,
    console: Console,
) -> tuple[list[Result], list[str]]:
    """Run what is not finished, with `function(settings, tick)`; return all results and the failures' messages.

    A failed job is reported and does not stop the others. Ctrl-C stops the workers; what is finished stays.
    """
    if workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    todo = [job for job in jobs if load_result(job) is None]
    for job in todo:  # a folder that cannot be written is noticed now, not after hours of work
        job.path.parent.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    if todo:
        with _bar(console) as progress:
            task = progress.add_task("", total=sum(job.units for job in todo), jobs=f"0/{len(todo)} runs")
            for done, (job, problem) in enumerate(_execute(todo, function, workers, progress, task), start=1):
                progress.update(task, jobs=f"{done}/{len(todo)} runs")
                if problem is not None:
                    failures.append(f"{job.name}: {problem}")
                    progress.console.print(f"[red]failed[/red] {job.name}: {problem}")
    results = [result for job in jobs if (result := load_result(job)) is not None]
    return results, failures


def _execute(todo: Sequence[Job], function: Callable[..., Result], workers: int, progress: Progress, task: Any) -> Any:
    context = mp.get_context("spawn")
    ticks: Queue[int] = context.Queue()
    pool = ProcessPoolExecutor(min(workers, len(todo)), context, initializer=_start_worker, initargs=(ticks,))
    try:
        waiting: dict[Future[None], Job] = {pool.submit(_work, function, job): job for job in todo}
        while waiting:
            _drain(ticks, progress, task)
            for future in [f for f in waiting if f.done()]:
                job, problem = waiting.pop(future), future.exception()
                yield job, None if problem is None else f"{type(problem).__name__}: {problem}"
    except BaseException:
        # interrupted or failed: stop at once, do not wait for running jobs
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    _drain(ticks, progress, task)
    pool.shutdown()


def _drain(ticks: Queue[int], progress: Progress, task: Any) -> None:
    try:
        progress.advance(task, ticks.get(timeout=0.2))
        while True:
            progress.advance(task, ticks.get_nowait())
    except Empty:
        return


def _start_worker(ticks: Queue[int]) -> None:
    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def _work(function: Callable[[dict[str, Any], Tick], Result], job: Job) -> None:
    parent = os.getppid()

    def tick(units: int) -> None:
        if os.getppid() != parent:  # the sweep was killed: an orphan would write results nobody waits for
            os._exit(1)
        if _ticks is not None:
            _ticks.put(units)

    result = {"settings": job.settings, **function(job.settings, tick)}
    write_atomic(job.path, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())


class _Rate(ProgressColumn):
    """Units of work per second."""

    def render(self, task: Task) -> Text:
        """The rate so far."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "–/s")


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.fields[jobs]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("updates,"),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
