"""Run many independent jobs, one result file each; finished ones are never run again."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from lpm.sweeps.events import Died, Event, Failed, Finished, Started, Ticked
from lpm.sweeps.job import Function, Job, Result, clean, finish, load_result
from lpm.sweeps.local import Crew, run_local
from lpm.sweeps.lock import BusyError, exclusive
from lpm.sweeps.progress import Bar, Tally
from lpm.sweeps.ray import connection, run_ray

LOCK = ".sweep.lock"


def run_jobs(
    jobs: Sequence[Job],
    function: Function,
    *,
    workers: int,
    console: Console,
    ray: str | None = None,
    retries: int = 2,
    crew: Crew | None = None,
) -> tuple[dict[Path, Result], list[str]]:
    """Run what is not finished, with `function(task, tick, scratch)`; return all results by their files, and what
    failed, in words.

    An exception in the function is a failure: it is reported and does not stop the others. A job whose process dies is
    run again, `retries` times at most. Ctrl-C stops the workers; what is finished stays. `workers` is the number of
    local processes. With `ray` they are tasks: "local" starts Ray on this machine with `workers` CPUs; "auto" or an
    address joins a running cluster, whose CPUs decide how many run at once. `crew` are local workers to use instead of
    new ones, see `kept`.
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
        results = {job.path: result for job in jobs if (result := load_result(job)) is not None}
        unfinished = [job for job in jobs if job.path not in results]
        for folder in sorted({job.path.parent for job in unfinished}):
            folder.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written is noticed now, not in hours
            _lock(stack, folder)
        # asked again: another sweep may have finished some before it gave the lock back
        results |= {job.path: result for job in unfinished if (result := load_result(job)) is not None}
        todo = [job for job in unfinished if job.path not in results]
        for job in jobs:
            if job.path in results:
                clean(job)
        if todo:
            with nullcontext(crew) if crew is not None or ray is not None else Crew(workers) as members:
                failures = _run(todo, _events(todo, function, members, ray, workers, retries), results, console)
    return {path: results[path] for path in paths if path in results}, failures


def _lock(stack: ExitStack, folder: Path) -> None:
    try:
        stack.enter_context(exclusive(folder / LOCK))
    except BusyError as problem:
        raise BusyError(f"another sweep is writing there: {problem}; wait for it, or use another --out") from None


@contextmanager
def kept(workers: int, ray: str | None) -> Iterator[Crew | None]:
    """Start processes once for several sweeps: give what this yields to `run_jobs` as `crew`."""
    if ray is None:
        with Crew(workers) as crew:
            yield crew
    else:
        with connection(ray, workers):
            yield None


def _run(
    todo: Sequence[Job], events: Generator[Event, None, None], results: dict[Path, Result], console: Console
) -> list[str]:
    """Write what finishes to its file and into `results`; what failed, in words."""
    tally = Tally([job.units for job in todo])
    failures: list[str] = []
    with Bar(tally, console) as bar, closing(events):
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
                        results[todo[index].path] = json.loads(content)
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
    todo: Sequence[Job], function: Function, crew: Crew | None, ray: str | None, workers: int, retries: int
) -> Generator[Event, None, None]:
    if crew is None:
        yield from run_ray(todo, function, ray or "local", workers, retries)
    else:
        yield from run_local(todo, function, crew, retries)
