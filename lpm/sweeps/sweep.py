"""Run many independent jobs, one result file each; finished ones are never run again."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from lpm.storage.lock import exclusive
from lpm.sweeps.job import Function, Job, Result, clean, load_result
from lpm.sweeps.local_workers import WorkerPool, run_local
from lpm.sweeps.progress import SweepState
from lpm.sweeps.ray_workers import connection, run_ray

LOCK = ".sweep.lock"


def run_jobs(
    jobs: Sequence[Job],
    function: Function,
    *,
    workers: int,
    console: Console,
    ray: str | None = None,
    retries: int = 2,
    pool: WorkerPool | None = None,
) -> tuple[dict[Path, Result], list[str]]:
    """Run what is not finished, with `function(task, tick, scratch)`; return all results by their files, and what
    failed, in words.

    An exception in the function is a failure: it is reported and does not stop the others. A job whose process dies is
    run again, `retries` times at most. Ctrl-C stops the workers; what is finished stays. `workers` is the number of
    local processes. With `ray` they are tasks: "local" starts Ray on this machine with `workers` CPUs; "auto" or an
    address joins a running cluster, whose CPUs decide how many run at once. `pool` are local workers to use instead of
    new ones, see `shared_workers`.
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
        todo = [job for job in jobs if job.path not in results]
        for folder in sorted({job.path.parent for job in todo}):
            folder.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written is noticed now, not in hours
            stack.enter_context(exclusive(folder / LOCK, "sweep"))
        # asked again: another sweep may have finished some before it gave the lock back
        results |= {job.path: result for job in todo if (result := load_result(job)) is not None}
        todo = [job for job in todo if job.path not in results]
        for job in jobs:
            if job.path in results:
                clean(job)
        if todo:
            with SweepState(todo, console) as sweep:
                if ray is not None:
                    run_ray(todo, function, ray, workers, retries, sweep)
                else:
                    with WorkerPool(workers) if pool is None else nullcontext(pool) as members:
                        run_local(todo, function, members, retries, sweep)
            results, failures = {**results, **sweep.results}, sweep.failures
    return {path: results[path] for path in paths if path in results}, failures


@contextmanager
def shared_workers(workers: int, ray: str | None) -> Iterator[WorkerPool | None]:
    """Start processes once for several sweeps: give what this yields to `run_jobs` as `pool`."""
    if ray is None:
        with WorkerPool(workers) as pool:
            yield pool
    else:
        with connection(ray, workers):
            yield None
