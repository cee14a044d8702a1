"""Run many independent jobs, one result file each; finished ones are never run again."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.markup import escape

from lpm.sweeps.events import Died, Event, Failed, Finished, Started, Ticked
from lpm.sweeps.job import Function, Job, Result, clean, finish, load_result
from lpm.sweeps.local import run_local
from lpm.sweeps.lock import BusyError, exclusive
from lpm.sweeps.progress import Bar, Tally
from lpm.sweeps.ray import run_ray

LOCK = ".sweep.lock"


def run_jobs(
    jobs: Sequence[Job],
    function: Function,
    *,
    workers: int,
    console: Console,
    ray: str | None = None,
    retries: int = 2,
) -> tuple[list[Result], list[str]]:
    """Run what is not finished, with `function(settings, tick, scratch)`; return all results and what failed.

    An exception in the function is a failure: it is reported and does not stop the others. A job whose process dies is
    run again, `retries` times at most. Ctrl-C stops the workers; what is finished stays. `workers` is the number of
    local processes. With `ray` they are tasks: "local" starts Ray on this machine with `workers` CPUs; "auto" or an
    address joins a running cluster, whose CPUs decide how many run at once.
    """
    if workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    if retries < 0:
        raise ValueError(f"retries: expected at least 0, got {retries}")
    paths = [job.path for job in jobs]
    if len(set(paths)) < len(paths):
        double = next(path for path in paths if paths.count(path) > 1)
        raise ValueError(f"expected one result file per job, but {double} belongs to several")
    failures: list[str] = []
    with ExitStack() as stack:
        unfinished = [job for job in jobs if load_result(job) is None]
        for folder in sorted({job.path.parent for job in unfinished}):
            folder.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written is noticed now, not in hours
            _lock(stack, folder)
        # asked again: another sweep may have finished some before it gave the lock back
        todo = [job for job in unfinished if load_result(job) is None]
        for job in jobs:
            if job not in todo:
                clean(job)
        if todo:
            failures = _run(todo, function, workers, console, ray, retries)
    results = [result for job in jobs if (result := load_result(job)) is not None]
    return results, failures


def _lock(stack: ExitStack, folder: Path) -> None:
    try:
        stack.enter_context(exclusive(folder / LOCK))
    except BusyError as problem:
        raise BusyError(f"another sweep is writing there: {problem}; wait for it, or use another --out") from None


def _run(
    todo: Sequence[Job], function: Function, workers: int, console: Console, ray: str | None, retries: int
) -> list[str]:
    tally = Tally([job.units for job in todo])
    failures: list[str] = []
    with Bar(tally, console) as bar, closing(_events(todo, function, workers, ray, retries)) as events:
        for event in events:
            match event:
                case Started(index):
                    tally.start(index)
                case Ticked(index, units, resumed):
                    tally.tick(index, units, resumed)
                case Died(index, reason):
                    bar.say(f"[yellow]again[/yellow] {escape(todo[index].name)}: {escape(reason)}")
                case Finished(index, content):
                    tally.close(index)
                    try:
                        finish(todo[index], content)
                    except OSError as problem:
                        _fail(failures, bar, todo[index], f"its result cannot be written: {problem}")
                case Failed(index, reason):
                    tally.close(index)
                    _fail(failures, bar, todo[index], reason)
            bar.refresh()
    return failures


def _fail(failures: list[str], bar: Bar, job: Job, reason: str) -> None:
    failures.append(f"{job.name}: {reason}")
    bar.say(f"[red]failed[/red] {escape(failures[-1])}")


def _events(
    todo: Sequence[Job], function: Function, workers: int, ray: str | None, retries: int
) -> Generator[Event, None, None]:
    if ray is None:
        events = run_local(todo, function, min(workers, len(todo)), retries)
    else:
        events = run_ray(todo, function, ray, workers, retries)
    return cast("Generator[Event, None, None]", events)
