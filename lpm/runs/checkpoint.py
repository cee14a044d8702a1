"""Checkpoints that are whole or absent.

A checkpoint is one file, `step-<steps>-<checksum>.pt`: an ordinary `torch.save` archive whose name carries the first
16 digits of its SHA-256. It is written under a temporary name, flushed to the disk and renamed; the last two are
kept, so that one damaged later costs only the steps since the other.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from lpm.files import flush_folder, replacing
from lpm.runs.pack import pack, unpack

KEPT = 2
_NAME = re.compile(r"step-(\d+)-([0-9a-f]{16})\.pt")
_TEMPORARY = "unfinished-"


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


def save_checkpoint(folder: Path, steps: int, state: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the last two."""
    temporary = folder / f".{_TEMPORARY}{steps}-{os.getpid()}"
    try:
        with replacing(temporary) as stream:
            torch.save(pack(state), stream)
        path = folder / f"step-{steps:012d}-{_checksum(temporary)}.pt"
        temporary.replace(path)
        flush_folder(folder)
    except (OSError, RuntimeError) as error:
        # torch reports a failed write as a RuntimeError of its own
        temporary.unlink(missing_ok=True)
        kept = checkpoints(folder)
        rest = f"the last good checkpoint is {kept[0].name}" if kept else "there is no earlier checkpoint"
        raise CheckpointError(f"cannot write the checkpoint of step {steps:,}: {error}; {rest}") from error
    for old in checkpoints(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a folder, newest first, whole or not."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def load_checkpoint(folder: Path) -> Loaded | None:
    """The newest whole checkpoint; None if there never was one; an error if all are damaged."""
    damaged: list[str] = []
    for path in checkpoints(folder):
        match = _NAME.fullmatch(path.name)
        assert match is not None
        try:
            checksum = _checksum(path)
            if checksum != match[2]:
                damaged.append(f"{path.name} is damaged: expected checksum {match[2]}, got {checksum}")
                continue
            state = unpack(torch.load(path, map_location="cpu", weights_only=True))
        except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
            damaged.append(f"{path.name} cannot be read: {error}")
            continue
        return Loaded(path, int(match[1]), state, tuple(damaged))
    if damaged:
        raise CheckpointError("no checkpoint can be used: " + "; ".join(damaged))
    return None


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written."""
    if folder.is_dir():
        for path in folder.glob(f".*{_TEMPORARY}*"):
            path.unlink(missing_ok=True)


def _checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
