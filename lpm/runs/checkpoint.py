"""Checkpoints that are whole or absent.

A checkpoint is one state file (`lpm.storage.state_file`), `step-<steps>-<checksum>.safetensors`, whose name carries the
first 16 digits of its checksum. It is written under a temporary name, flushed to the disk and renamed; the last two are
kept, so that one damaged later costs only the steps since the other.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from lpm.core.settings import Bound, fits
from lpm.storage.files import UNFINISHED, flush_folder, open_regular, replacing
from lpm.storage.state_file import parse, write
from lpm.storage.state_tree import require

KEPT = 2
KIND = "checkpoint"
MAX_COUNT = 2**62
"""More steps, episodes or bytes than any run has."""
_NAME = re.compile(r"step-(\d{12,18})-([0-9a-f]{16})\.safetensors")
_Count = Annotated[int, Bound("a count", lambda value: 0 <= value < MAX_COUNT)]
_Finite = Annotated[float, Bound("finite", math.isfinite)]


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, or none could be read."""


@dataclass(frozen=True)
class Loaded:
    """The newest checkpoint that is whole."""

    path: Path
    steps: int
    state: dict[str, Any]
    damaged: tuple[str, ...]
    """What was wrong with newer ones."""
    versions: dict[str, str]
    """That it was written with."""


def save_checkpoint(folder: Path, steps: int, state: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the last two."""
    temporary = folder / f".{steps}-{os.getpid()}{UNFINISHED}"
    try:
        with replacing(temporary) as stream:
            checksum = write(stream, state, KIND)
        path = folder / f"step-{steps:012d}-{checksum[:16]}.safetensors"
        temporary.replace(path)
        flush_folder(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        kept = checkpoints(folder)
        rest = f"the last good checkpoint is {kept[0].name}" if kept else "there is no earlier checkpoint"
        raise CheckpointError(f"cannot write the checkpoint of step {steps:,}: {error}; {rest}") from error
    for old in checkpoints(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a folder, newest first, whole or not."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a symbolic link: expected the folder itself")
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def load_checkpoint(folder: Path) -> Loaded | None:
    """The newest whole checkpoint; None if there never was one; an error if none can be used."""
    damaged: list[str] = []
    for path in checkpoints(folder):
        match = _NAME.fullmatch(path.name)
        assert match is not None
        try:
            with open_regular(path) as stream:
                stored = parse(stream.read(), KIND, str(path))
            if stored.checksum[:16] != match[2]:
                raise ValueError(f"expected checksum {match[2]}, got {stored.checksum[:16]}")
        except (OSError, ValueError) as error:
            damaged.append(f"{path.name} is damaged: {str(error).removeprefix(f'{path}: ')}")
            continue
        return Loaded(path, int(match[1]), stored.state, tuple(damaged), stored.versions)
    if damaged:
        raise CheckpointError("no checkpoint can be used: " + "; ".join(damaged))
    return None


def check_progress(state: Mapping[str, Any]) -> None:
    """Refuse a run's state whose counters are negative or whose returns are no finite numbers."""
    for name in ("metrics_size", "next_line"):
        require(fits(state[name], _Count), f"{name}: a count", state[name])
    require(0 <= state["seconds"] < math.inf, "seconds: a time", state["seconds"])
    agent = state["agent"]
    collector = agent.get("collector") if isinstance(agent, Mapping) else None
    require(isinstance(collector, Mapping), "agent.collector: names", type(collector).__name__)
    assert isinstance(collector, Mapping)
    counters, recent, visits = (collector.get(name) for name in ("counters", "recent", "visits"))
    require(fits(counters, tuple[_Count, _Count]), "collector.counters: steps and episodes", counters)
    pairs = tuple[tuple[_Finite, _Finite], ...]
    require(fits(recent, pairs), "collector.recent: finite returns and lengths", recent)
    for name in ("returns", "lengths"):
        array = collector.get(name)
        finite = isinstance(array, np.ndarray) and array.dtype.kind == "f" and bool(np.isfinite(array).all())
        require(finite, f"collector.{name}: finite numbers", array)
    counts = isinstance(visits, np.ndarray) and visits.dtype.kind == "i" and bool((visits >= 0).all())
    require(counts, "collector.visits: counts", visits)
