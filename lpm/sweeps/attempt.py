"""One attempt at a job, in the process that does the work, whichever backend started it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from lpm.sweeps.job import Function, Job, encode
from lpm.sweeps.lock import exclusive

TICK_SECONDS = 0.2
"""Least time between two reports of an attempt."""


def one_thread() -> None:
    """One thread for this process: several processes share the cores. Call before torch is imported where possible."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def attempt(job: Job, function: Function, report: Callable[[int, bool], None]) -> bytes:
    """Run the job in its scratch folder and return the content of its result file.

    `report(units, resumed)` is called now and then with the work done since the last call.
    """
    scratch = job.scratch_folder
    scratch.mkdir(parents=True, exist_ok=True)
    # a killed sweep's worker may live a moment longer than the sweep: two must not write the same checkpoints
    with exclusive(scratch.with_name(f"{scratch.name}.lock"), wait=60.0):
        ticks = Ticks(report, resumes=any(scratch.iterdir()))
        result = function(job.settings if job.task is None else job.task, ticks, scratch)
        ticks.flush()
        return encode(job, result)


class Ticks:
    """Gathers the many small ticks of a run into a few reports a second."""

    def __init__(self, report: Callable[[int, bool], None], resumes: bool) -> None:
        self._report, self._resumed = report, resumes
        self._units, self._sent = 0, time.monotonic()

    def __call__(self, units: int) -> None:
        """Count work. The first tick of a run that resumes says what was found done."""
        if self._resumed:
            self._resumed = False
            self._report(units, True)
            return
        self._units += units
        if time.monotonic() - self._sent >= TICK_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Report what is gathered."""
        if self._units:
            self._report(self._units, False)
        self._units, self._sent = 0, time.monotonic()
