"""A job: one run of a sweep, the file its result goes to, its scratch folder, and one attempt at it."""

import ctypes
import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.storage.files import parse_json, read_regular, write_atomic
from lpm.storage.lock import exclusive

RESULT_FORMAT = 1
"""Of result files; a file with another number is refused."""

Result = dict[str, Any]
Tick = Callable[[int], None]
Function = Callable[[Any, Tick, Path], Result]
"""A module-level function of a job's task, of `tick` (work done, in units) and of the job's scratch folder.

It may keep checkpoints in the scratch folder. Called again after its process was killed, it gets the same folder, goes
on from there by itself, and first ticks what it found done.
"""


@dataclass(frozen=True)
class Job:
    """One run: what it does, what is written down of that, and where its result goes."""

    name: str
    """Shown to people, e.g. "lpm, seed 0"."""
    path: Path
    """The result file."""
    settings: dict[str, Any]
    """Everything the result depends on, as JSON; stored with it and compared before a result is reused."""
    units: int
    """Amount of work, for the progress bar."""
    task: Any = None
    """What the function is given, if not the settings themselves."""
    scratch: Path | None = None
    """Where the run may keep checkpoints; a hidden folder beside the result file if not given."""

    @property
    def scratch_folder(self) -> Path:
        """`scratch`, or its default. It exists while the job is unfinished."""
        return self.scratch or self.path.parent / f".{self.path.stem}"


def load_result(job: Job) -> Result | None:
    """The stored result of a job, or None. A file that is not a result of these settings is refused."""
    try:
        stored = parse_json(read_regular(job.path))
        # as they come back from a file: tuples are lists, keys are strings
        settings, version, wanted = stored["settings"], stored.get("format"), json.loads(json.dumps(job.settings))
        differing = sorted(k for k in {*settings, *wanted} if settings.get(k) != wanted.get(k))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{job.path}: expected a result file, but it cannot be read ({problem}); delete it") from None
    if version != RESULT_FORMAT:
        raise ValueError(
            f"{job.path}: expected a result file of format {RESULT_FORMAT}, got format {version!r}, written by another "
            "version of lpm; use another --out or delete it"
        )
    if differing:
        shown = "; ".join(f"{k}: {settings.get(k)!r} there, {job.settings.get(k)!r} now" for k in differing)
        raise ValueError(f"{job.path} holds a run with other settings ({shown}); use another --out or delete it")
    result: Result = stored
    return result


def encode(job: Job, result: Result) -> bytes:
    """The content of the result file."""
    whole = {"format": RESULT_FORMAT, "settings": job.settings, **result}
    # one line an entry: curves of hundreds of numbers stay small, and a difference can still be read
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def finish(job: Job, content: bytes) -> None:
    """Write the result file, then delete the scratch folder, in this order: at every moment one of them is whole."""
    write_atomic(job.path, content)
    clean(job)


def clean(job: Job) -> None:
    """Remove what a finished job does not need, and the temporary files of a process killed while writing."""
    if job.scratch_folder.is_dir():
        shutil.rmtree(job.scratch_folder, ignore_errors=True)
    for left in job.path.parent.glob(f".{job.path.name}.*"):
        left.unlink(missing_ok=True)


# ---- an attempt, in the process that does the work, whichever backend started it -----------------------------
MMAP_THRESHOLDS = (2**30, 2**25)
"""M_MMAP_THRESHOLD of malloc.h in bytes: what is wanted, and the most that an older glibc takes."""
MALLOC_OPTIONS = {-1: 2**31 - 1, -2: 2**26}
"""M_TRIM_THRESHOLD and M_TOP_PAD."""
TICK_SECONDS = 0.2
"""Least time between two reports of an attempt."""


def one_thread() -> None:
    """One thread for this process: several processes share the cores. Call before torch is imported where possible."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def keep_freed_memory() -> None:
    """Let this process use the memory of large arrays again instead of giving it back after each (with glibc's malloc).

    A minibatch of images is 30 MB. Fresh memory for every step on one is a tenth of the time of training on pixels.
    """
    set_option = _of_malloc("mallopt")
    # without its threshold the other two would make glibc give back more than it does by itself
    if set_option is not None and any(set_option(-3, size) for size in MMAP_THRESHOLDS):
        for option, size in MALLOC_OPTIONS.items():
            set_option(option, size)


def give_back_memory() -> None:
    """Return to the system what this process no longer needs, holes in the heap too (with glibc's malloc).

    After a run, because of `keep_freed_memory`: the large arrays of the next one need not fit into the holes of the
    last, and a worker would grow from run to run. Agents refer to themselves, so that only the collector frees them.
    """
    gc.collect()
    trim = _of_malloc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_malloc(name: str) -> Any:
    """A function of glibc's malloc; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def attempt(job: Job, function: Function, report: Callable[[int, bool], None]) -> bytes:
    """Run the job in its scratch folder and return the content of its result file.

    `report(units, resumed)` is called now and then with the work done since the last call.
    """
    scratch = job.scratch_folder
    if scratch.is_symlink():
        raise ValueError(f"{scratch} is a symbolic link: expected the folder itself")
    scratch.mkdir(parents=True, exist_ok=True)
    # a killed sweep's worker may live a moment longer than the sweep: two must not write the same checkpoints
    with exclusive(scratch.with_name(f"{scratch.name}.lock"), "worker", wait=60.0):
        ticks = Ticks(report, resumes=any(scratch.iterdir()))
        try:
            result = function(job.settings if job.task is None else job.task, ticks, scratch)
        finally:
            give_back_memory()
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
        if self._units:
            self._report(self._units, False)
        self._units, self._sent = 0, time.monotonic()
