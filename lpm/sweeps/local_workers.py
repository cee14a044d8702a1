"""Jobs on worker processes of this machine.

Workers are spawned, kept for many jobs and replaced when they die. `concurrent.futures` is not used because its pool
is lost as a whole when one worker is killed.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from lpm.sweeps.job import Function, Job, attempt, keep_freed_memory, one_thread
from lpm.sweeps.progress import SweepState

POLL_SECONDS = 0.5
STOP_SECONDS = 3.0
"""How long an interrupted run may take to write its last checkpoint."""


class WorkerPool:
    """Worker processes, started when there is work for them. Use it as a context to keep them for several sweeps."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: list[_Worker] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the workers: a moment to write a checkpoint, then by force."""
        members, self.members = self.members, []
        for worker in members:
            worker.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for worker in members:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
            worker.link.close()


def run_local(jobs: Sequence[Job], function: Function, pool: WorkerPool, retries: int, sweep: SweepState) -> None:
    """Run all jobs. If that ends early, the workers that are not idle are stopped with it."""
    queue = deque(range(len(jobs)))
    tries = [0] * len(jobs)
    members = pool.members
    try:
        while queue or any(worker.index is not None for worker in members):
            while len(members) < min(pool.size, len(jobs)) and queue:
                members.append(_Worker())
            for worker in members:
                if queue and worker.index is None:
                    index = queue.popleft()
                    tries[index] += 1
                    sweep.started(index)
                    worker.give(index, pickle.dumps((jobs[index], function)))
            ready = wait([*(w.link for w in members), *(w.process.sentinel for w in members)], POLL_SECONDS)
            sweep.waiting()
            for worker in members:
                # asked before reading: what a worker that is dead by now has sent is then all there to be read
                gone = not worker.process.is_alive()
                if worker.link in ready or gone:
                    worker.read(sweep)
                worker.dead = worker.dead or gone
            for worker in [w for w in members if w.dead]:
                members.remove(worker)
                worker.link.close()
                if (lost := worker.index) is None:
                    continue
                reason = f"its process died ({worker.cause})"
                if tries[lost] <= retries:
                    queue.appendleft(lost)
                    sweep.died(lost, reason)
                else:
                    sweep.failed(lost, f"{reason}, {tries[lost]} times")
    finally:
        if any(worker.index is not None for worker in members):
            pool.stop()


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=False)
        with _without_interrupts():
            self.process.start()
        theirs.close()
        self.index: int | None = None
        """Of the job it works on."""
        self.dead = False

    @property
    def cause(self) -> str:
        self.process.join(STOP_SECONDS)
        code = self.process.exitcode
        named = signal.Signals(-code).name if code is not None and code < 0 else ""
        return "its pipe is closed" if code is None else f"signal {named}" if named else f"exit status {code}"

    def give(self, index: int, payload: bytes) -> None:
        self.index = index
        try:
            self.link.send_bytes(payload)
        except OSError:
            self.dead = True

    def read(self, sweep: SweepState) -> None:
        try:
            while self.link.poll():
                kind, *values = self.link.recv()
                if (index := self.index) is not None:
                    self.index = index if kind == "ticked" else None
                    getattr(sweep, kind)(index, *values)
        except (EOFError, OSError):
            self.dead = True


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of them: the parent decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(link: Connection[Any, Any]) -> None:
    """The life of a worker process: take a job, report, send its result, take the next one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    one_thread()
    keep_freed_memory()
    while True:
        try:
            payload = link.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            job, function = pickle.loads(payload)
            one_thread()
            content = attempt(job, function, lambda units, resumed: link.send(("ticked", units, resumed)))
        except Exception as problem:
            link.send(("failed", f"{type(problem).__name__}: {problem}"))
        else:
            link.send(("finished", content))


def _end_with_parent() -> None:
    """A worker whose sweep was killed stops at once: nobody waits for what it does."""
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
