"""Jobs as tasks of a Ray cluster: one CPU and one thread each, on this machine or on many.

Only the driver, which holds the sweep's locks, writes result files. Tasks write nothing but their scratch folders;
where those are on storage that all nodes share, a run whose node dies goes on from its checkpoint on another one.
"""

import dataclasses
import logging
import os
import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lpm.sweeps.job import Function, Job, attempt, keep_freed_memory, one_thread
from lpm.sweeps.progress import SweepState
from lpm.utils.versions import pip_install

POLL_SECONDS = 0.5
STORE_BYTES = 200_000_000
"""Object store of a local Ray: results are small, and its own default is a third of the memory."""


def run_ray(
    jobs: Sequence[Job], function: Function, address: str, workers: int, retries: int, sweep: SweepState
) -> None:
    """Run all jobs. If that ends early, the tasks are cancelled."""
    with connection(address, workers) as ray:
        on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        here = on_node(ray.get_runtime_context().get_node_id(), soft=False)
        # beside the driver, so that it lives as long as the driver does whichever node dies
        actor = ray.remote(num_cpus=0, scheduling_strategy=here)(_ProgressActor).remote()
        task = ray.remote(num_cpus=1, max_retries=retries, scheduling_strategy="SPREAD")(_task)
        environment = {name: value for name, value in os.environ.items() if name.startswith("LPM_")}
        pending = {}
        for index, job in enumerate(jobs):
            # absolute: a task's current folder is not the driver's
            there = dataclasses.replace(job, path=job.path.absolute(), scratch=job.scratch_folder.absolute())
            payload = ray.cloudpickle.dumps((there, function))  # takes functions of a script along, pickle does not
            pending[task.options(name=job.name).remote(index, payload, environment, actor)] = index
        reader = _ProgressReader(ray, actor, sweep)
        deaths = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError)
        try:
            while pending:
                ready, _ = ray.wait(list(pending), timeout=POLL_SECONDS)
                sweep.waiting()
                reader.read()
                for reference in ready:
                    index = pending.pop(reference)
                    try:
                        kind, value = ray.get(reference)
                    except deaths as death:
                        sweep.failed(index, f"its process died ({_first_line(death)}), {retries + 1} times")
                    except ray.exceptions.RayError as problem:
                        sweep.failed(index, f"{type(problem).__name__}: {_first_line(problem)}")
                    else:
                        getattr(sweep, kind)(index, value)
            reader.read(POLL_SECONDS)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


class _ProgressReader:
    """What the tasks report, as the driver hears it."""

    def __init__(self, ray: Any, actor: Any, sweep: SweepState) -> None:
        self.ray, self.actor, self.sweep = ray, actor, sweep
        self.asked = actor.take.remote()
        self.attempts: dict[int, str] = {}

    def read(self, wait: float = 0.0) -> None:
        """Hand on what has arrived. An attempt that differs from the last one of its job: the last one died."""
        ready, _ = self.ray.wait([self.asked], timeout=wait)
        if not ready:
            return
        try:
            messages = self.ray.get(self.asked)
        except self.ray.exceptions.RayError:
            return  # only progress is missing; the tasks themselves are asked for separately
        self.asked = self.actor.take.remote()
        for index, token, units, resumed in messages:
            if self.attempts.get(index) != token:
                if index in self.attempts:
                    self.sweep.died(index, "its process or node died")
                self.attempts[index] = token
                self.sweep.started(index)
            if units:
                self.sweep.ticked(index, units, resumed)


class _ProgressActor:
    """Collects the progress of all tasks until the driver asks for it."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str, int, bool]] = []

    def put(self, index: int, token: str, units: int, resumed: bool) -> None:
        self.messages.append((index, token, units, resumed))

    def take(self) -> list[tuple[int, str, int, bool]]:
        messages, self.messages = self.messages, []
        return messages


def _task(index: int, payload: bytes, environment: Mapping[str, str], actor: Any) -> tuple[str, bytes | str]:
    """One attempt at a job, on any node."""
    os.environ.update(environment)
    one_thread()
    keep_freed_memory()
    token = uuid.uuid4().hex

    def report(units: int, resumed: bool) -> None:
        actor.put.remote(index, token, units, resumed)

    try:
        report(0, False)
        job, function = pickle.loads(payload)
        one_thread()
        return "finished", attempt(job, function, report)
    except Exception as problem:
        return "failed", f"{type(problem).__name__}: {problem}"


@contextmanager
def connection(address: str, workers: int) -> Iterator[Any]:
    """The `ray` module, connected. A connection that was there before is used and left open."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning about the next version
    try:
        import ray
        import ray.util.scheduling_strategies
    except ModuleNotFoundError:
        raise ValueError(f"--ray needs Ray: {pip_install('ray')}") from None
    module: Any = ray  # parts of it have no types
    if ray.is_initialized():
        yield module
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"num_cpus": workers, "object_store_memory": STORE_BYTES}
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(address, **options)
    except Exception as problem:  # Ray raises many kinds, a bare Exception among them
        raise ValueError(
            f"--ray {address}: expected local, auto or the address of a running cluster (`ray start --head` prints "
            f"it), but Ray says: {_first_line(problem)}"
        ) from problem
    try:
        if module.cluster_resources().get("CPU", 0) < 1:
            raise ValueError(f"--ray {address}: expected a cluster with at least one CPU, but it has none")
        yield module
    finally:
        ray.shutdown()


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]
