"""Many runs at once: on worker processes of this machine, or on a Ray cluster."""

from lpm.storage.lock import BusyError
from lpm.sweeps.job import RESULT_FORMAT, Function, Job, Result, Tick, load_result
from lpm.sweeps.sweep import run_jobs, shared_workers

__all__ = [
    "RESULT_FORMAT",
    "BusyError",
    "Function",
    "Job",
    "Result",
    "Tick",
    "load_result",
    "run_jobs",
    "shared_workers",
]
