"""A job: one run of a sweep, the file its result goes to, and the folder it may keep checkpoints in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.files import write_atomic

RESULT_FORMAT = 1
"""Of result files; a file with another number is refused."""

Result = dict[str, Any]
Tick = Callable[[int], None]
Function = Callable[[dict[str, Any], Tick, Path], Result]
"""A module-level function of a job's settings, of `tick` (work done, in units) and of the job's scratch folder.

It may keep checkpoints in the scratch folder. Called again after its process was killed, it gets the same folder, goes
on from there by itself, and first ticks what it found done.
"""


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
    scratch: Path | None = None
    """Where the run may keep checkpoints; a hidden folder beside the result file if not given."""

    @property
    def scratch_folder(self) -> Path:
        """`scratch`, or its default. It exists while the job is unfinished."""
        return self.scratch or self.path.parent / f".{self.path.stem}"


def load_result(job: Job) -> Result | None:
    """The stored result of a job, or None. A file that is not a result of these settings is refused."""
    try:
        text = job.path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        stored = json.loads(text)
        settings, version = stored["settings"], stored.get("format")
        differing = sorted(k for k in {*settings, *job.settings} if settings.get(k) != _plain(job.settings).get(k))
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


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """As they come back from a file: tuples are lists, keys are strings."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain
