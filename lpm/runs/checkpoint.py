"""Checkpoints that are whole or absent.

A checkpoint is one state file (see `lpm.state_file`), `step-<steps>-<checksum>.safetensors`, whose name carries the
first 16 digits of its checksum. It is written under a temporary name, flushed to the disk and renamed; the last two are
kept, so that one damaged later costs only the steps since the other.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.files import UNFINISHED, flush_folder, open_regular, replacing
from lpm.state_file import Stored, read, write

KEPT = 2
KIND = "checkpoint"
_NAME = re.compile(r"step-(\d{12,18})-([0-9a-f]{16})\.safetensors")


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
            stored = _read(path, match[2])
        except (OSError, ValueError) as error:
            damaged.append(f"{path.name} is damaged: {str(error).removeprefix(f'{path}: ')}")
            continue
        return Loaded(path, int(match[1]), stored.state, tuple(damaged), stored.versions)
    if damaged:
        raise CheckpointError("no checkpoint can be used: " + "; ".join(damaged))
    return None


def _read(path: Path, checksum: str) -> Stored:
    with open_regular(path) as stream:
        stored = read(stream, os.fstat(stream.fileno()).st_size, str(path), KIND)
    if stored.checksum[:16] != checksum:
        raise ValueError(f"expected checksum {checksum}, got {stored.checksum[:16]}")
    return stored
